"""The one object applications import."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from outrider import (
    ConfigError,
    Draft,
    InvalidEventError,
    NotInTransactionError,
    Outbox,
    UnsupportedConnectionError,
    event,
)
from outrider.event_types import DECLARED
from outrider.records import Emission
from outrider.sql.dialects import dialect_named
from outrider.sql.plan import Rows, Step, run, run_async
from outrider.sql.statement import Batch
from outrider.testing import migrate


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test declares end with it."""
    for name in ("_by_name", "_by_class", "_upcasts"):
        monkeypatch.setattr(DECLARED, name, dict(getattr(DECLARED, name)))


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(namespace="shop")


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection)
        yield connection


@dataclass(frozen=True)
class Filled:
    pot: int


class Wire:
    """A connection of a driver that Outrider does not know, and its adapter."""

    remedy = "wire.begin()"
    is_open = True

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.schema: str | None = None
        self.dialect = dialect_named("sqlite")

    def autocommits(self) -> bool:
        return not self.is_open

    def run(self, plan: Any) -> Any:
        return run(plan, self.execute)

    def execute(self, step: Step) -> Rows:
        rows = step.rows if isinstance(step, Batch) else [step.params]
        self.rows.extend(dict(row) for row in rows)
        return rows


class AsyncWire:
    remedy = "await wire.begin()"
    dialect = dialect_named("sqlite")

    def __init__(self) -> None:
        self._wire = Wire()
        self.rows = self._wire.rows

    async def autocommits(self) -> bool:
        return self._wire.autocommits()

    async def run(self, plan: Any) -> Any:
        async def execute(step: Step) -> Rows:
            return self._wire.execute(step)

        return await run_async(plan, execute)


@pytest.fixture
def wire(outbox: Outbox) -> Any:
    outbox.register(Wire, sync=lambda tx, _schema: tx)
    outbox.register(AsyncWire, aio=lambda tx, _schema: tx)
    return Wire()


def test_an_event_is_written_in_the_callers_transaction(
    outbox: Outbox, db: sqlite3.Connection
) -> None:
    event("teapot.filled", key="pot")(Filled)

    first = outbox.emit(db, Filled(1))
    db.rollback()
    second = outbox.emit(db, Filled(2))
    db.commit()

    (found,) = outbox.read(db)
    assert (found.id, found.data, found.key) == (second.id, Filled(2), "2")
    assert found.id > first.id


def test_many_events_come_from_any_iterable(outbox: Outbox, wire: Any) -> None:
    event("teapot.filled")(Filled)
    drafts = (Draft("teapot.emptied", {"n": n}) if n else Filled(0) for n in range(3))

    refs = outbox.emit_many(wire, drafts)

    assert [ref.type for ref in refs] == ["teapot.filled", "teapot.emptied", "teapot.emptied"]
    assert [row["payload"] for row in wire.rows] == ['{"pot":0}', '{"n":1}', '{"n":2}']
    assert outbox.emit_many(wire, []) == []


def test_an_iterable_that_fails_half_way_writes_nothing(outbox: Outbox, wire: Any) -> None:
    def broken() -> Iterator[Draft]:
        yield Draft("teapot.filled")
        raise LookupError

    with pytest.raises(LookupError):
        outbox.emit_many(wire, broken())
    with pytest.raises(InvalidEventError):
        outbox.emit_many(wire, [Draft("teapot.filled"), Draft("no name")])

    assert wire.rows == []


@pytest.mark.parametrize("events", ["teapot", ["teapot.filled"], {"teapot.filled": {}}])
def test_a_name_alone_among_many_is_refused_not_written_without_its_data(
    outbox: Outbox, wire: Any, events: Any
) -> None:
    with pytest.raises(InvalidEventError, match="is a name alone; give its data too: Draft"):
        outbox.emit_many(wire, events)

    assert wire.rows == []


async def test_the_same_events_are_written_on_an_async_connection(
    outbox: Outbox, wire: Any
) -> None:
    awaited = AsyncWire()

    ref = await outbox.aemit(awaited, "teapot.filled", {"pot": 1})
    await outbox.aemit_many(awaited, [Draft("teapot.emptied")])

    assert [row["event_type"] for row in awaited.rows] == ["teapot.filled", "teapot.emptied"]
    assert awaited.rows[0]["event_id"] == str(ref.id)


async def test_a_connection_of_the_other_world_is_refused_with_the_remedy(
    outbox: Outbox, wire: Any
) -> None:
    other: Any = AsyncWire()

    with pytest.raises(UnsupportedConnectionError, match=r"await outbox\.aemit\(connection"):
        outbox.emit(other, "teapot.filled")
    with pytest.raises(UnsupportedConnectionError, match=r"outbox\.emit\(connection"):
        await outbox.aemit(wire, "teapot.filled")

    assert other.rows == wire.rows == []


@pytest.mark.parametrize("thing", [None, "postgresql://db", object(), 5], ids=type)
def test_what_is_no_connection_is_refused_with_what_is(outbox: Outbox, thing: Any) -> None:
    with pytest.raises(TypeError, match=r"(?s)is no connection that Outrider knows; .*fix: "):
        outbox.emit(thing, "teapot.filled")


def test_a_connection_that_would_commit_by_itself_is_refused(outbox: Outbox, wire: Any) -> None:
    wire.is_open = False

    with pytest.raises(
        NotInTransactionError, match=r"(?s)stored without your data.*fix: *wire\.begin"
    ):
        outbox.emit(wire, "teapot.filled")

    assert wire.rows == []


def test_the_refusal_of_autocommit_can_be_switched_off(wire: Any) -> None:
    lenient = Outbox(namespace="shop", on_autocommit="allow")
    lenient.register(Wire, sync=lambda tx, _schema: tx)
    wire.is_open = False

    lenient.emit(wire, "teapot.filled")

    assert len(wire.rows) == 1


def test_a_refused_event_writes_nothing(outbox: Outbox, wire: Any) -> None:
    with pytest.raises(InvalidEventError):
        outbox.emit(wire, "teapot.filled", {"x": float("nan")})

    assert wire.rows == []


@pytest.mark.requirement("CAN-28", "CAN-60")
def test_what_is_emitted_in_a_context_comes_from_there(outbox: Outbox, wire: Any) -> None:
    with outbox.context(correlation_id="chain", tenant="acme", actor="user:1"):
        outbox.emit(wire, "teapot.filled")
        outbox.emit_many(wire, [Draft("teapot.emptied", None, {"tenant": "other"})])
        with outbox.action(wire, "refill") as action:
            action.emit("teapot.filled")

    assert [row["correlation_id"] for row in wire.rows] == ["chain"] * 3
    assert [row["tenant_id"] for row in wire.rows] == ["acme", "other", "acme"]
    assert {row["actor_id"] for row in wire.rows} == {"1"}


async def test_contexts_of_concurrent_tasks_do_not_mix(outbox: Outbox) -> None:
    outbox.register(AsyncWire, aio=lambda tx, _schema: tx)
    shared: Any = AsyncWire()

    async def request(tenant: str) -> None:
        with outbox.context(tenant=tenant):
            await asyncio.sleep(0)
            await outbox.aemit(shared, "teapot.filled", tenant)

    await asyncio.gather(*(request(f"t{n}") for n in range(20)))

    assert all(json.loads(row["payload"]) == row["tenant_id"] for row in shared.rows)
    assert len(shared.rows) == 20


def test_one_outbox_serves_many_threads(wire: Any) -> None:
    shared = Outbox(namespace="shop")
    shared.register(Wire, sync=lambda tx, _schema: tx)
    start = threading.Barrier(8)
    wires = [Wire() for _ in range(8)]

    def work(mine: Any) -> None:
        start.wait()
        for _ in range(50):
            shared.emit(mine, "teapot.filled")

    threads = [threading.Thread(target=work, args=(mine,)) for mine in wires]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({row["event_id"] for mine in wires for row in mine.rows}) == 400


def test_ids_can_come_from_elsewhere(wire: Any) -> None:
    fixed = Outbox(namespace="shop", new_id=lambda: UUID(int=5))
    fixed.register(Wire, sync=lambda tx, _schema: tx)

    assert fixed.emit(wire, "teapot.filled").id == UUID(int=5)


class OtherUUID(UUID):
    """What generators of other packages return."""


def test_ids_of_another_class_are_written_like_ours(db: sqlite3.Connection) -> None:
    made = iter(OtherUUID(int=n) for n in range(5, 8))
    outbox = Outbox(namespace="shop", new_id=lambda: next(made))

    one = outbox.emit(db, "teapot.filled")
    many = outbox.emit_many(db, [Draft("teapot.filled"), Draft("teapot.filled")])

    assert [found.id for found in outbox.read(db)] == [one.id, *(ref.id for ref in many)]
    assert type(one.id) is UUID


def test_an_id_that_is_none_is_refused_where_it_was_made(wire: Any) -> None:
    outbox = Outbox(namespace="shop", new_id=lambda: 5)  # type: ignore[arg-type,return-value]
    outbox.register(Wire, sync=lambda tx, _schema: tx)

    with pytest.raises(ConfigError, match="new_id= returned 5"):
        outbox.emit(wire, "teapot.filled")


def test_an_unknown_paramstyle_is_refused_with_the_known_ones(outbox: Outbox) -> None:
    style: Any = "numeric"

    with pytest.raises(ConfigError, match="one of named, qmark, format, pyformat, numeric_dollar"):
        outbox.statements("sqlite", style, [Draft("teapot.filled")])


def test_an_action_that_fails_lets_the_applications_own_error_through(wire: Any) -> None:
    outbox = Outbox(namespace="shop", new_id=lambda: UUID(int=1 // 0))
    outbox.register(Wire, sync=lambda tx, _schema: tx)

    with pytest.raises(KeyError, match="ours"), outbox.action(wire, "fill"):
        raise KeyError("ours")

    assert wire.rows == []


def test_a_sensitive_event_needs_a_connection_that_can_read_keys(outbox: Outbox) -> None:
    event("teapot.filled", sensitive=["pot"], data_subject=lambda _e: "anna")(Filled)

    with pytest.raises(UnsupportedConnectionError, match="need their subject's key, which has to"):
        outbox.statements("postgres", "pyformat", [Filled(1)])


@pytest.mark.parametrize(
    "options",
    [
        {"idempotency_key": "k"},
        {"id": UUID(int=5)},
        {"key": 1, "entity_version": 1},
        {"key": 1, "lock": True},
    ],
    ids=str,
)
async def test_what_needs_an_answer_needs_an_await(outbox: Outbox, options: Any) -> None:
    session = AsyncSession(create_async_engine("postgresql+asyncpg://"))

    with pytest.raises(UnsupportedConnectionError, match=r"fix: await outbox\.aemit\(session, …\)"):
        outbox.emit(session, "teapot.filled", **options)

    assert not session.new


def test_statements_are_for_drivers_that_outrider_does_not_know(outbox: Outbox) -> None:
    ((sql, bound),) = outbox.statements("postgres", "format", [Draft("teapot.filled", {"pot": 1})])

    assert sql.startswith("INSERT INTO outbox_events")
    assert isinstance(bound, tuple)
    assert sql.count("%s") == len(bound)
    with pytest.raises(ConfigError, match="no dialect 'oracle'; Outrider speaks postgres, sqlite"):
        outbox.statements("oracle", "format", [])


def test_statements_write_to_the_schema_of_the_outbox() -> None:
    placed = Outbox(namespace="shop", schema="events")

    ((sql, _),) = placed.statements("sqlite", "qmark", [Draft("teapot.filled")])

    assert sql.startswith('INSERT INTO "events".outbox_events')


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"namespace": "my shop"}, InvalidEventError),
        ({"on_autocommit": "maybe"}, ConfigError),
    ],
)
def test_an_outbox_that_cannot_be_is_refused_at_once(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Outbox(**options)


def test_an_adapter_is_used_from_the_moment_it_is_registered(outbox: Outbox) -> None:
    late: Any = Wire()
    with pytest.raises(UnsupportedConnectionError):
        outbox.emit(late, "teapot.filled")

    outbox.register(Wire, sync=lambda tx, _schema: tx)
    outbox.emit(late, "teapot.filled")

    assert len(late.rows) == 1


def test_one_outboxs_adapter_is_not_anothers(outbox: Outbox, wire: Any) -> None:
    with pytest.raises(UnsupportedConnectionError):
        Outbox(namespace="other").emit(wire, "teapot.filled")


def test_no_secret_is_in_an_outboxs_repr_or_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://shop:S3cret@db/shop?password=S3cret"
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", url)
    outboxes = [Outbox(url, namespace="shop"), Outbox(namespace="shop")]

    shown = [repr(one) + str(one) + repr(one.__dict__.get("_settings")) for one in outboxes]

    assert not any("S3cret" in text for text in shown)
    for wrong in ("mysql://u:S3cret@db/x", "S3cret", "postgres:S3cret@db", ":S3cret@db/x"):
        with pytest.raises(ConfigError) as refused:
            repr(Outbox(wrong))
        assert "S3cret" not in str(refused.value) + repr(refused.value)


def test_an_emission_carries_what_the_outbox_says_of_all_its_events() -> None:
    made: Emission = Outbox(namespace="shop.tea", payload_bytes_max=5)._emission(Draft("a.b"))

    assert made.record.namespace == "shop.tea"
    with pytest.raises(InvalidEventError, match="the limit is 5"):
        Outbox(payload_bytes_max=5)._emission(Draft("a.b", "12345"))
