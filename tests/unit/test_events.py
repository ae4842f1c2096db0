"""Actors, references and origins: who, why and on whose behalf."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from asyncpg.pgproto import pgproto

from outrider import Actor, Draft, Event, EventRef, InvalidEventError
from outrider.events import NOWHERE, Origin, OriginOptions, current_origin, originating

CAUSE = UUID(int=7)


def event(**other: Any) -> Event[Any]:
    fields: dict[str, Any] = {
        "position": 1,
        "id": CAUSE,
        "type": "teapot.filled",
        "version": 1,
        "data": {},
        "content_type": "application/json",
        "payload": b"{}",
        "key": None,
        "partition_key": None,
        "tenant": None,
        "namespace": "shop",
        "entity": None,
        "entity_version": None,
        "headers": {},
        "metadata": {},
        "correlation_id": "chain",
        "causation_id": None,
        "request_id": None,
        "idempotency_key": None,
        "actor": None,
        "source": None,
        "action": None,
        "data_subject": None,
        "keep_seconds": None,
        "time": datetime.now(UTC),
        "created_at": datetime.now(UTC),
        "available_at": None,
    }
    return Event(**{**fields, **other})


def test_an_actor_has_a_short_form() -> None:
    assert Actor.parse("user:42") == Actor(type="user", id="42")
    assert Actor.parse("agent:a:b") == Actor(type="agent", id="a:b")


@pytest.mark.parametrize("text", ["", "user", "user:", ":42", ":"])
def test_a_short_form_without_both_halves_is_refused(text: str) -> None:
    with pytest.raises(InvalidEventError, match="is not an actor; write 'kind:id'"):
        Actor.parse(text)


def test_an_actors_id_becomes_text() -> None:
    number: Any = 42

    assert Actor(type="user", id=number).id == "42"


@pytest.mark.parametrize(
    "given",
    [
        {"type": "", "id": "1"},
        {"type": "user", "id": ""},
        {"type": "user", "id": "x" * 256},
        {"type": "user", "id": "a\x00"},
        {"type": "user", "id": None},
        {"type": "user", "id": "1", "name": ""},
        {"type": "user", "id": "1", "name": "n" * 256},
    ],
)
def test_an_actor_outside_the_grammar_is_refused(given: Any) -> None:
    with pytest.raises(InvalidEventError, match=r"actor (type|id|name) "):
        Actor(**given)


@pytest.mark.requirement("CAN-62")
@pytest.mark.parametrize(
    "cause",
    [EventRef(id=CAUSE, type="a.b", correlation_id="chain"), event()],
    ids=["reference", "event"],
)
def test_an_event_passes_on_its_id_as_cause_and_its_correlation(cause: Any) -> None:
    origin = NOWHERE.with_options({"causation": cause})

    assert (origin.causation_id, origin.correlation_id) == (CAUSE, "chain")


def test_a_bare_id_is_the_correlation_of_its_chain_unless_one_is_known() -> None:
    known = Origin(correlation_id="chain")

    assert NOWHERE.with_options({"causation": CAUSE}).correlation_id == str(CAUSE)
    assert known.with_options({"causation": CAUSE}).correlation_id == "chain"


def test_a_correlation_that_is_given_wins_over_that_of_the_cause() -> None:
    origin = NOWHERE.with_options({"causation": event(), "correlation_id": "mine"})

    assert (origin.causation_id, origin.correlation_id) == (CAUSE, "mine")


def test_a_drivers_uuid_becomes_a_plain_one() -> None:
    driver_uuid = pgproto.UUID(str(CAUSE))
    reference = EventRef(id=driver_uuid, type="a.b", correlation_id="chain")

    found = [
        NOWHERE.with_options({"causation": cause}).causation_id
        for cause in (driver_uuid, reference)
    ]

    assert found == [CAUSE, CAUSE]
    assert {type(one) for one in found} == {UUID}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"causation": str(CAUSE)}, "give an event, what emit"),
        ({"causation": object}, "give an event, what emit"),
        ({"actor": 42}, "give 'kind:id', or an Actor"),
        ({"actor": "42"}, "write 'kind:id'"),
        ({"tenant": ""}, "tenant is empty"),
        ({"tenant": "a\x00"}, "tenant .* holds a NUL"),
        ({"correlation_id": "x" * 256}, "correlation_id .* has 256 bytes"),
        ({"request_id": 1.5}, "request_id is 1.5 of type float"),
        ({"source": "\ud800"}, "source .* lone surrogate"),
    ],
)
def test_an_origin_outside_the_grammar_is_refused(options: Any, problem: str) -> None:
    with pytest.raises(InvalidEventError, match=problem):
        NOWHERE.with_options(options)


def test_what_is_none_leaves_the_origin_as_it_is() -> None:
    options: Any = dict.fromkeys(OriginOptions.__optional_keys__)
    origin = Origin(tenant="acme")

    assert origin.with_options(options) is origin
    assert origin.with_options({}) is origin


@pytest.mark.requirement("CAN-28", "CAN-59", "CAN-60")
def test_what_is_emitted_inside_comes_from_there() -> None:
    with originating({"correlation_id": "chain", "tenant": "acme", "actor": "user:42"}):
        inside = current_origin()

    assert (inside.correlation_id, inside.tenant) == ("chain", "acme")
    assert inside.actor == Actor(type="user", id="42")
    assert current_origin() is NOWHERE


def test_nested_origins_add_to_the_outer_one_and_end_with_their_block() -> None:
    with originating({"correlation_id": "outer", "tenant": "acme"}):
        with originating({"correlation_id": "inner", "request_id": "r"}) as inner:
            assert current_origin() == inner
        outer = current_origin()

    assert inner == Origin(correlation_id="inner", tenant="acme", request_id="r")
    assert outer == Origin(correlation_id="outer", tenant="acme")


def test_an_origin_ends_with_its_block_also_after_an_error() -> None:
    with pytest.raises(LookupError), originating({"tenant": "acme"}):
        raise LookupError

    assert current_origin() is NOWHERE


@pytest.mark.requirement("CAN-60")
async def test_a_task_has_the_origin_it_was_started_in_and_keeps_its_own() -> None:
    async def work(tenant: str, inside: asyncio.Barrier) -> tuple[str | None, str]:
        with originating({"tenant": tenant}):
            await inside.wait()  # all of them are inside at once
            return current_origin().correlation_id, current_origin().tenant

    barrier = asyncio.Barrier(3)
    with originating({"correlation_id": "chain"}):
        tasks = [asyncio.create_task(work(name, barrier)) for name in "abc"]
    found = await asyncio.gather(*tasks)

    assert found == [("chain", "a"), ("chain", "b"), ("chain", "c")]
    assert current_origin() is NOWHERE


def test_a_thread_starts_without_an_origin() -> None:
    found: list[Origin] = []
    with originating({"tenant": "acme"}):
        thread = threading.Thread(target=lambda: found.append(current_origin()))
        thread.start()
        thread.join()

    assert found == [NOWHERE]


async def test_asyncios_threads_keep_the_origin() -> None:
    with originating({"tenant": "acme"}):
        assert (await asyncio.to_thread(current_origin)).tenant == "acme"


def test_a_draft_has_options_of_its_own() -> None:
    one, other = Draft("teapot.filled"), Draft("teapot.filled")
    one.options["key"] = 1

    assert other.options == {}


@pytest.mark.parametrize(
    "noun", [Actor(type="a", id="1"), EventRef(id=CAUSE, type="a.b", correlation_id="c"), event()]
)
def test_nouns_do_not_change(noun: Any) -> None:
    with pytest.raises(AttributeError):
        noun.id = "other"
