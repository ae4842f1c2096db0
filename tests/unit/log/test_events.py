"""Rows become events: decoded, in clear, brought to the newest version, typed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pydantic
import pytest
from asyncpg.pgproto import pgproto

from outrider import Actor, ConfigError, EncodingError, StoreError, event, upcast
from outrider.encryption import AesGcm
from outrider.event_types import DECLARED
from outrider.filters import Filter
from outrider.log.events import MASK, data_of, event_of, events_of, masked
from outrider.payloads import SEALED, dump
from outrider.sql.dialects import dialect_named
from outrider.sql.keys import context_of
from outrider.sql.plan import Plan, Row, Rows, Step, run
from outrider.sql.statement import Statement

CIPHER = AesGcm()
KEY = bytes(32)
ID = UUID(int=5)
SQLITE = dialect_named("sqlite")
JANUARY = 1_769_860_800_000_001
"""The 31st of January 2026 at noon and a microsecond, as a row has it."""


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test declares end with it."""
    for name in ("_by_name", "_by_class", "_upcasts"):
        monkeypatch.setattr(DECLARED, name, dict(getattr(DECLARED, name)))


@dataclass(frozen=True)
class Filled:
    pot: int
    litres: int = 1


def row(payload: object = None, **other: Any) -> Row:
    return {
        "position": 9,
        "event_id": str(ID),
        "tenant_id": "",
        "namespace": "shop",
        "event_type": "teapot.filled",
        "schema_version": 1,
        "entity_type": None,
        "entity_id": None,
        "entity_version": None,
        "ordering_key": None,
        "partition_key": None,
        "payload": json.dumps({} if payload is None else payload),
        "payload_bytes": None,
        "content_type": "application/json",
        "headers": None,
        "metadata": None,
        "correlation_id": "chain",
        "causation_id": None,
        "request_id": None,
        "idempotency_key": None,
        "actor_type": None,
        "actor_id": None,
        "actor_name": None,
        "actor_metadata": None,
        "source": None,
        "action_id": None,
        "action_name": None,
        "action_params": None,
        "action_started_at": None,
        "action_completed_at": None,
        "data_subject": None,
        "keep_seconds": None,
        "occurred_at": JANUARY,
        "created_at": JANUARY,
        "available_at": None,
        **other,
    }


def data(payload: object, **other: Any) -> Any:
    return data_of(row(payload, **other), {}, None)


def test_a_row_becomes_an_event() -> None:
    found = event_of(
        row(
            {"a": 1},
            tenant_id="acme",
            entity_type="teapot",
            entity_id="1",
            entity_version=2,
            headers='{"X-A":"b"}',
            metadata='{"build":7}',
            causation_id=str(UUID(int=6)),
            actor_type="user",
            actor_id="1",
            actor_metadata='{"ip":"::1"}',
            action_id=str(UUID(int=8)),
            action_name="fill",
            action_params='{"x":1}',
            action_started_at=JANUARY,
            action_completed_at=JANUARY + 1,
            available_at=0,
        ),
        {"a": 1},
    )

    assert (found.id, found.position, found.tenant) == (ID, 9, "acme")
    assert (found.entity, found.entity_version) == (("teapot", "1"), 2)
    assert (found.headers, found.metadata) == ({"X-A": "b"}, {"build": 7})
    assert found.causation_id == UUID(int=6)
    assert found.actor == Actor(type="user", id="1", metadata={"ip": "::1"})
    assert found.action is not None
    assert (found.action.id, found.action.params) == (UUID(int=8), '{"x":1}')
    assert found.action.started_at < found.action.completed_at
    assert found.time == found.created_at == datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)
    assert found.available_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert (found.data, found.payload) == ({"a": 1}, b'{"a": 1}')


def test_what_a_row_leaves_open_is_none() -> None:
    found = event_of(row(), {})

    assert (found.tenant, found.entity, found.actor, found.action) == (None, None, None, None)
    assert (found.headers, found.metadata) == ({}, {})
    assert found.available_at is None


def test_ids_are_plain_whatever_the_driver_returns() -> None:
    found = event_of(row(event_id=pgproto.UUID(str(ID)), causation_id=ID), {})

    assert {type(found.id), type(found.causation_id)} == {UUID}


@pytest.mark.parametrize("raw", [b"\x00\xff", memoryview(b"\x00\xff"), bytearray(b"\x00\xff")])
def test_opaque_bytes_stay_bytes(raw: object) -> None:
    blob = {**row(payload_bytes=raw, content_type="image/png"), "payload": None}

    assert data_of(blob, {}, None) == b"\x00\xff"
    assert event_of(blob, None).payload == b"\x00\xff"


def test_data_without_a_class_stays_plain() -> None:
    assert data({"pot": 1}) == {"pot": 1}
    assert data([1, None]) == [1, None]


def test_data_of_a_declared_class_is_an_object_of_it() -> None:
    event("teapot.filled")(Filled)

    assert data({"pot": 1}) == Filled(1)


@pytest.mark.requirement("NEV-07")
def test_old_versions_are_brought_to_the_newest_step_by_step() -> None:
    event("teapot.filled", version=3)(Filled)
    upcast("teapot.filled", from_version=1)(lambda old: {"pot": old["teapot"]})
    upcast("teapot.filled", from_version=2)(lambda old: {**old, "litres": 5})

    assert data({"teapot": 1}) == Filled(1, litres=5)
    assert data({"pot": 2}, schema_version=2) == Filled(2, litres=5)
    assert data({"pot": 3, "litres": 7}, schema_version=3) == Filled(3, litres=7)


@pytest.mark.parametrize("version", [1, 4])
def test_a_version_that_leads_to_no_class_stays_plain(version: int) -> None:
    event("teapot.filled", version=3)(Filled)
    upcast("teapot.filled", from_version=2)(dict)

    # A step is missing, or the writer is newer than this reader.
    assert data({"anything": 1}, schema_version=version) == {"anything": 1}


class Card(pydantic.BaseModel):
    number: int


@pytest.mark.parametrize("cls", [Filled, Card])
def test_data_that_does_not_fit_its_class_says_which_event_and_what_to_do(cls: type) -> None:
    event("teapot.filled")(cls)

    with pytest.raises(
        EncodingError, match=r"does not fit .* \(version 1\): .*; declare an @upcast"
    ):
        data({"pot": "4242 4242", "number": "4242 4242"})


def test_an_error_about_data_does_not_quote_it() -> None:
    event("teapot.filled")(Card)

    with pytest.raises(EncodingError, match=str(ID)) as refused:
        data({"number": "4242 4242"})

    assert "4242 4242" not in str(refused.value)


def sealed(value: object, name: str = "mail", event_id: UUID = ID, key: bytes = KEY) -> object:
    return {SEALED: CIPHER.seal(key, context_of(event_id, name), dump(value))}


@dataclass(frozen=True)
class Registered:
    guest: str
    mail: Any


def registered(mail: object, **other: Any) -> Row:
    given = {"event_type": "guest.registered", "data_subject": "anna", **other}
    return row({"guest": "anna", "mail": mail}, **given)


@pytest.mark.parametrize("value", ["a@b.c", {"at": ["b", 1, None]}, 5])
def test_sensitive_data_is_read_in_clear_and_typed(value: object) -> None:
    event("guest.registered", sensitive=["mail"], data_subject="guest")(Registered)

    found = data_of(registered(sealed(value)), {("", "anna"): KEY}, CIPHER)

    assert found == Registered("anna", value)


@pytest.mark.parametrize("keys", [{}, {("acme", "anna"): KEY}, {("", "bert"): KEY}])
def test_without_the_key_sensitive_data_is_none_and_the_rest_stays_plain(keys: Any) -> None:
    event("guest.registered", sensitive=["mail"], data_subject="guest")(Registered)

    found = data_of(registered(sealed("a@b.c")), keys, CIPHER)

    assert found == {"guest": "anna", "mail": None}


def test_without_the_package_that_decrypts_sensitive_data_is_none() -> None:
    found = data_of(registered(sealed("a@b.c")), {("", "anna"): KEY}, None)

    assert found == {"guest": "anna", "mail": None}


@pytest.mark.parametrize(
    "moved",
    [
        sealed("a@b.c", name="phone"),
        sealed("a@b.c", event_id=UUID(int=6)),
        sealed("a@b.c", key=bytes(31) + b"1"),
        {SEALED: "v1.AAAA"},
    ],
    ids=["another field", "another event", "another key", "made up"],
)
def test_a_sealed_value_that_was_moved_here_does_not_open(moved: object) -> None:
    with pytest.raises(StoreError, match=f"the sealed value of {ID}:mail does not open"):
        data_of(registered(moved), {("", "anna"): KEY}, CIPHER)


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ({"mail": {SEALED: "v1.x"}, "guest": "anna"}, {"mail": MASK, "guest": "anna"}),
        ({"deep": [{"er": {SEALED: "v1.x"}}]}, {"deep": [{"er": MASK}]}),
        ({SEALED: "v1.x"}, MASK),
        ({"a": {SEALED: "x", "b": 1}}, {"a": {SEALED: "x", "b": 1}}),
        ([1, "a", None, True], [1, "a", None, True]),
        ("text", "text"),
    ],
)
def test_sensitive_data_is_masked_for_screens(plain: object, shown: object) -> None:
    assert masked(plain) == shown


def reading(rows: list[Row], **options: Any) -> Plan[list[Any]]:
    nothing_to_ask: list[Step] = []

    def page(_dialect: Any, _where: Filter, _after: int, _limit: int) -> Plan[list[Row]]:
        yield from nothing_to_ask
        return rows

    given: Any = {"limit": 10, "sealer": CIPHER, **options}
    return events_of(SQLITE, page, Filter(), 0, **given)


def test_a_page_asks_once_for_the_key_of_each_subject() -> None:
    asked: list[str] = []

    def execute(step: Step) -> Rows:
        assert isinstance(step, Statement)
        asked.append(step.params["data_subject"])
        return [{"key": memoryview(KEY)}]

    anna = registered(sealed("a@b.c"))
    bert = registered(None, data_subject="bert")
    found = run(reading([anna, bert, anna, row()]), execute)

    assert [one.data.get("mail") for one in found] == ["a@b.c", None, "a@b.c", None]
    assert asked == ["anna", "bert"]


def test_a_page_without_sensitive_data_asks_for_no_key() -> None:
    assert len(run(reading([row(), row()]), lambda _step: pytest.fail("asked"))) == 2


@pytest.mark.parametrize("limit", [0, -1, 1001, 10**9])
def test_a_page_is_bounded(limit: int) -> None:
    with pytest.raises(ConfigError, match=f"limit is {limit}; read between 1 and 1000 events"):
        run(reading([], limit=limit), lambda _step: pytest.fail("asked"))
