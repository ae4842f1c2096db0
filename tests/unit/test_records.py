"""A draft becomes a record: complete, checked, and refused before the first statement."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from asyncpg.pgproto import pgproto
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import (
    Actor,
    ConfigError,
    Draft,
    EncodingError,
    EventRef,
    EventTooLargeError,
    InvalidEventError,
    event,
    payloads,
)
from outrider.errors import shown
from outrider.event_types import DECLARED
from outrider.events import NOWHERE, EmitOptions, Origin
from outrider.identity import UuidV7
from outrider.records import PAYLOAD_BYTES_MAX, Emission, Record, Recorder

IDS = UuidV7()
RECORDER = Recorder(namespace="shop", new_id=IDS)
NAME = "teapot.filled"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test declares end with it."""
    for name in ("_by_name", "_by_class", "_upcasts"):
        monkeypatch.setattr(DECLARED, name, dict(getattr(DECLARED, name)))


def emission(thing: object = NAME, data: object = None, /, **options: Any) -> Emission:
    given: Any = options
    return RECORDER.emission(Draft(thing, data, given), NOWHERE)


def record(thing: object = NAME, data: object = None, /, **options: Any) -> Record:
    return emission(thing, data, **options).record


class Text(str):
    __slots__ = ()


class OldName(str, enum.Enum):  # noqa: UP042 - its str() is not its text
    FILLED = "teapot.filled"


class Moment(datetime):
    """As the libraries that freeze or improve time have them."""


@dataclass(frozen=True)
class Filled:
    pot: int
    owner: str = "me"


def declared(**options: Any) -> type[Filled]:
    return event(NAME, **options)(Filled)


def test_a_name_is_enough_for_an_event() -> None:
    found = record()

    assert (found.event_type, found.payload, found.content_type) == (
        NAME,
        "null",
        "application/json",
    )
    assert (found.namespace, found.tenant_id, found.schema_version) == ("shop", "", 1)
    assert found.correlation_id == str(found.event_id)
    said = {"event_id", "namespace", "event_type", "schema_version", "payload", "content_type"}
    said |= {"correlation_id", "tenant_id"}
    assert {
        name for name, value in msgspec.structs.asdict(found).items() if value is not None
    } == said


@pytest.mark.requirement("NEV-13", "NEV-14", "NEV-15", "NEV-27", "OO-EM-33")
def test_everything_that_can_be_said_is_in_the_record() -> None:
    cause = UUID(int=7)
    said = record(
        NAME,
        {"pot": 1},
        id=str(UUID(int=5)),
        version=3,
        key=42,
        partition_key="p",
        entity=("teapot", 1),
        entity_version=9,
        headers={"X-Region": "eu"},
        metadata={"build": 7},
        idempotency_key="k",
        delay="1m30s",
        occurred_at=NOON,
        keep="7d",
        data_subject="customer:1",
        correlation_id="chain",
        causation=cause,
        actor=Actor(type="user", id="1", name="Anna", metadata={"ip": "::1"}),
        tenant="acme",
        request_id="r-1",
        source="admin",
    )

    assert said.body_digest is not None
    assert said == Record(
        event_id=UUID(int=5),
        tenant_id="acme",
        namespace="shop",
        event_type=NAME,
        schema_version=3,
        entity_type="teapot",
        entity_id="1",
        entity_version=9,
        ordering_key="42",
        partition_key="p",
        payload='{"pot":1}',
        payload_bytes=None,
        content_type="application/json",
        headers='{"X-Region":"eu"}',
        metadata='{"build":7}',
        correlation_id="chain",
        causation_id=cause,
        request_id="r-1",
        idempotency_key="k",
        body_digest=said.body_digest,
        actor_type="user",
        actor_id="1",
        actor_name="Anna",
        actor_metadata='{"ip":"::1"}',
        source="admin",
        action_id=None,
        action_name=None,
        action_params=None,
        action_started_at=None,
        action_completed_at=None,
        data_subject="customer:1",
        keep_seconds=604_800,
        occurred_at=NOON,
        available_at=None,
        available_after_us=90_000_000,
    )


def test_the_reference_is_known_before_anything_is_written() -> None:
    found = emission(NAME, correlation_id="chain")

    assert found.reference == EventRef(
        id=found.record.event_id, type=NAME, correlation_id="chain", duplicate=False
    )


def test_a_class_says_what_its_events_have_in_common() -> None:
    cls = declared(
        version=2,
        key="pot",
        entity=("pot", lambda e: f"p{e.pot}"),
        keep="30d",
        data_subject="owner",
    )
    found = record(cls(pot=1, owner="anna"))

    assert (found.event_type, found.schema_version, found.payload) == (
        NAME,
        2,
        '{"pot":1,"owner":"anna"}',
    )
    assert (found.ordering_key, found.partition_key) == ("1", "1")
    assert (found.entity_type, found.entity_id) == ("pot", "p1")
    assert (found.keep_seconds, found.data_subject) == (2_592_000, "anna")


def test_options_win_over_what_the_class_says() -> None:
    cls = declared(key="pot", entity=("pot", "pot"), keep="30d", data_subject="owner")
    found = record(cls(1), key="k", entity=("cup", 2), keep="1d", data_subject="other")

    assert (found.ordering_key, found.entity_type, found.entity_id) == ("k", "cup", "2")
    assert (found.keep_seconds, found.data_subject) == (86_400, "other")


def test_an_option_that_is_none_is_as_if_it_were_not_given() -> None:
    cls = declared(version=2, entity=("pot", "pot"), keep="30d", data_subject="owner")
    options: Any = dict.fromkeys(EmitOptions.__optional_keys__ - {"key"})

    said = RECORDER.emission(Draft(cls(1), None, options), NOWHERE)
    unsaid = RECORDER.emission(Draft(cls(1)), NOWHERE)

    ids = {"event_id": UUID(int=1), "correlation_id": "c"}
    assert msgspec.structs.replace(said.record, **ids) == msgspec.structs.replace(
        unsaid.record, **ids
    )
    assert not said.needs_answer


def test_a_delay_and_a_moment_that_is_none_do_not_exclude_each_other() -> None:
    assert record(at=None, delay="1s").available_after_us == 1_000_000
    assert record(at=NOON, delay=None).available_at == NOON


def test_a_key_that_is_none_takes_the_key_of_the_class_away() -> None:
    cls = declared(key="pot")

    assert record(cls(1), key=None).ordering_key is None


def test_an_event_of_a_keyed_class_may_have_no_key() -> None:
    nobody: Any = None

    assert record(declared(key="pot")(nobody)).ordering_key is None


@pytest.mark.requirement("NEV-06")
def test_the_entity_is_the_first_segment_of_the_name_and_the_key() -> None:
    found = record("order.line.added", key=42)

    assert (found.entity_type, found.entity_id) == ("order", "42")
    assert record("order.placed").entity_type is None


def test_the_partition_key_follows_the_key_unless_it_is_given() -> None:
    assert record(key="k").partition_key == "k"
    assert record(key="k", partition_key="p").partition_key == "p"
    assert record(partition_key="p").ordering_key is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"idempotencykey": "k"},
            "emit has no option 'idempotencykey'; did you mean 'idempotency_key'",
        ),
        ({"correlation": "c"}, "did you mean 'correlation_id'?"),
        ({"zzz": 1}, "emit has no option 'zzz'; options are actor, at, causation"),
    ],
)
def test_a_wrong_option_is_refused_with_the_nearest(options: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        record(**options)

    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"version": 0}, "version is 0; give an integer from 1"),
        ({"version": True}, "version is True; give an integer"),
        ({"version": "2"}, "version is '2'; give an integer"),
        ({"version": 2**31}, "version is 2147483648; give an integer"),
        ({"version": 10**5000}, "version is an int too long to be shown; give an integer"),
        ({"entity_version": 1}, "but the event has no entity; give entity= or key="),
        ({"entity_version": -1, "key": 1}, "entity_version is -1; give an integer from 0"),
        ({"entity_version": True, "key": 1}, "entity_version is True"),
        ({"entity_version": 2**63, "key": 1}, "entity_version is 9223372036854775808"),
        ({"entity": "order"}, "entity is 'order'; give a pair: ('order', 42)"),
        ({"entity": ["order", 1]}, "give a pair"),
        ({"entity": ("order",)}, "give a pair"),
        ({"entity": ("order", None)}, "entity id is None"),
        ({"entity": ("", 1)}, "entity type is empty"),
        ({"key": ""}, "key is empty"),
        ({"key": True}, "key is True of type bool"),
        ({"key": "\x00"}, "key '\\x00' holds a NUL character"),
        ({"key": "\ud800"}, "lone surrogate"),
        ({"partition_key": 1.0}, "partition_key is 1.0"),
        ({"tenant": "a\x00"}, "tenant 'a\\x00' holds a NUL"),
        ({"tenant": ""}, "tenant is empty"),
        ({"id": "5"}, "event id '5' is not a UUID"),
        ({"id": 5}, "event id 5 is not a UUID"),
        ({"id": "a.b\r\nX: y"}, "event id 'a.b\\r\\nX: y' is not a UUID"),
        ({"id": ""}, "event id '' is not a UUID"),
        ({"headers": {"X-A": "a\nb"}}, "the value of header 'X-A' cannot be sent"),
        ({"headers": [("X-A", "b")]}, "headers are list; give a mapping"),
        ({"metadata": "text"}, "metadata is 'text'; give a mapping"),
        ({"metadata": [("a", 1)]}, "give a mapping"),
        ({"metadata": {"a": object()}}, "builtins.object, which has no JSON form"),
        ({"metadata": {"a": float("nan")}}, "$.a is nan"),
        ({"idempotency_key": ""}, "idempotency_key is empty"),
        ({"idempotency_key": False}, "idempotency_key is False of type bool"),
        ({"idempotency_key": "k" * 256}, "has 256 bytes, the limit is 255"),
        ({"delay": "1s", "at": NOON}, "both delay= and at= are given"),
        ({"lock": True}, "lock=True locks the event's key, but it has none"),
        ({"content_type": "image/png\n"}, "is not a media type"),
        ({"content_type": "image/png"}, "the data of 'teapot.filled' is NoneType, but 'image/png'"),
        ({"data_subject": 1.5}, "data_subject is 1.5"),
    ],
    ids=lambda value: shown(value)[:40],
)
def test_an_option_outside_the_grammar_is_refused(options: Any, problem: str) -> None:
    with pytest.raises(InvalidEventError) as refused:
        record(**options)

    assert problem in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("delay", ["1 minute", -1, float("nan"), 10**400, True])
def test_a_delay_that_is_no_duration_is_refused(delay: Any) -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        record(delay=delay)


def test_an_object_and_data_beside_it_are_refused() -> None:
    with pytest.raises(InvalidEventError, match="emit got a Filled and data beside it; give the"):
        record(declared()(1), {"pot": 1})


def test_what_is_no_event_is_refused_with_both_remedies() -> None:
    with pytest.raises(ConfigError, match=r'(?s)dict is not an event class; decorate.*emit\(tx, "'):
        record({"pot": 1})


def test_the_version_of_a_class_is_not_given_again() -> None:
    with pytest.raises(InvalidEventError, match="whose class says 2; leave it out"):
        record(declared(version=2)(1), version=2)


def test_an_event_does_not_cause_itself() -> None:
    with pytest.raises(InvalidEventError, match="names itself as its cause"):
        record(id=UUID(int=5), causation=UUID(int=5))


def test_what_is_derived_from_a_class_is_checked_like_an_option() -> None:
    wrong: Any = [1]
    cls = declared(key="pot")

    with pytest.raises(InvalidEventError, match=r"key of 'teapot\.filled' is \[1\] of type list"):
        record(cls(wrong))


@pytest.mark.parametrize("name", [Text(NAME), OldName.FILLED])
def test_a_name_of_a_derived_type_is_recorded_as_plain_text(name: str) -> None:
    found = record(name)

    assert found.event_type == NAME
    assert type(found.event_type) is str


def test_every_text_of_a_record_is_plain() -> None:
    text = Text("a")
    found = record(
        NAME,
        {text: text},
        key=text,
        partition_key=text,
        entity=(text, text),
        tenant=text,
        correlation_id=text,
        request_id=text,
        source=text,
        idempotency_key=text,
        data_subject=text,
        actor=Actor(type=text, id=text, name=text),
        content_type=Text("application/json"),
        headers={text: text},
    )

    texts = [value for value in msgspec.structs.asdict(found).values() if isinstance(value, str)]
    assert {type(value) for value in texts} == {str}
    assert json.loads(msgspec.json.encode(found))["ordering_key"] == "a"


def test_ids_and_times_of_a_record_are_plain() -> None:
    driver_uuid = pgproto.UUID(str(UUID(int=5)))
    found = record(
        id=driver_uuid,
        causation=pgproto.UUID(str(UUID(int=6))),
        at=Moment(2026, 1, 31, tzinfo=UTC),
        occurred_at=Moment(2026, 1, 31, tzinfo=UTC),
    )

    assert {type(found.event_id), type(found.causation_id)} == {UUID}
    assert {type(found.available_at), type(found.occurred_at)} == {datetime}
    assert found.event_id == UUID(int=5)


def test_what_the_caller_changes_after_emit_changes_nothing() -> None:
    data: dict[str, Any] = {"pots": [1]}
    headers, metadata = {"X-A": "1"}, {"a": [1]}
    person = Actor(type="user", id="1", metadata={"roles": ["a"]})
    found = record(NAME, data, headers=headers, metadata=metadata, actor=person)

    data["pots"].append(2)
    headers["X-A"] = "2"
    metadata["a"].append(2)

    assert (found.payload, found.headers, found.metadata) == (
        '{"pots":[1]}',
        '{"X-A":"1"}',
        '{"a":[1]}',
    )


def test_a_draft_can_be_emitted_again_and_is_another_event() -> None:
    draft = Draft(NAME, {"pot": 1}, {"key": 1, "metadata": {"a": 1}})
    options = dict(draft.options)

    first, second = (RECORDER.emission(draft, NOWHERE) for _ in range(2))

    assert first.record.event_id != second.record.event_id
    assert draft.options == options


def test_mappings_of_any_kind_are_options() -> None:
    found = record(headers=MappingProxyType({"X-A": "b"}), metadata=MappingProxyType({"a": 1}))

    assert (found.headers, found.metadata) == ('{"X-A":"b"}', '{"a":1}')


@pytest.mark.parametrize("empty", [{}, MappingProxyType({})])
def test_empty_headers_and_metadata_are_none(empty: Mapping[str, str]) -> None:
    found = record(headers=empty, metadata=empty)

    assert (found.headers, found.metadata) == (None, None)


@pytest.mark.requirement("OO-EM-08")
@pytest.mark.parametrize(
    ("data", "content_type", "stored"),
    [
        ({"a": 1}, None, '{"a":1}'),
        ([1], "application/json", "[1]"),
        ("text", None, '"text"'),
        (b' {"b" : 1.0, "a":1E2}\n', "application/json", ' {"b" : 1.0, "a":1E2}\n'),
        (bytearray(b"[]"), "application/vnd.a+json", "[]"),
        (b"\x00\xff", "image/png", b"\x00\xff"),
        (bytearray(b"\x00"), "application/octet-stream", b"\x00"),
        (memoryview(b"abcd")[::2], "application/octet-stream", b"ac"),
        ("hällo\x00", "text/plain; charset=utf-8", "hällo\x00".encode()),
        (b"", "application/octet-stream", b""),
        ("", "text/plain", b""),
        (b"not JSON at all", "text/plain", b"not JSON at all"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_payload_is_json_text_or_opaque_bytes(
    data: object, content_type: str | None, stored: str | bytes
) -> None:
    found = record(NAME, data, content_type=content_type)

    assert found.payload == (stored if isinstance(stored, str) else None)
    assert found.payload_bytes == (stored if isinstance(stored, bytes) else None)
    assert found.content_type == (content_type or "application/json")


@pytest.mark.parametrize("data", [b"a", bytearray(b"a"), memoryview(b"a")], ids=type)
def test_bytes_have_to_say_what_they_are(data: object) -> None:
    with pytest.raises(InvalidEventError, match=r"bytes; say what they are, .* content_type="):
        record(NAME, data)


@pytest.mark.parametrize(
    ("data", "content_type", "problem"),
    [
        ({"a": 1}, "image/png", "is dict, but 'image/png' is not JSON; give bytes or text"),
        ("\ud800", "text/plain", "holds a lone surrogate at 0"),
        (b"{", "application/json", "is not JSON at character 1"),
        (b"", "application/json", "is not JSON at character 0"),
        (b"\xff", "application/json", "is not UTF-8 at byte 0"),
        (float("nan"), "application/json", "is nan, which JSON cannot say"),
    ],
)
def test_data_that_is_not_what_its_content_type_says_is_refused(
    data: object, content_type: str, problem: str
) -> None:
    with pytest.raises(EncodingError, match=problem):
        record(NAME, data, content_type=content_type)


@pytest.mark.parametrize(
    ("make", "content_type"),
    [
        (lambda size: "x" * (size - 2), None),
        (lambda size: b'"' + b"x" * (size - 2) + b'"', "application/json"),
        (lambda size: "ü" * (size // 2) + "x" * (size % 2), "text/plain"),
        (bytes, "application/octet-stream"),
    ],
    ids=["data", "JSON text", "text", "bytes"],
)
def test_a_payload_has_at_most_256_kib(
    make: Callable[[int], Any], content_type: str | None
) -> None:
    record(NAME, make(PAYLOAD_BYTES_MAX), content_type=content_type)

    with pytest.raises(
        EventTooLargeError, match="262145 bytes, the limit is 262144; store"
    ) as large:
        record(NAME, make(PAYLOAD_BYTES_MAX + 1), content_type=content_type)

    assert (large.value.size_bytes, large.value.limit_bytes) == (262_145, 262_144)


def test_the_limit_of_payloads_can_be_set() -> None:
    recorder = Recorder(namespace="shop", new_id=IDS, payload_bytes_max=10)

    with pytest.raises(
        EventTooLargeError, match=r"11 bytes, the limit is 10; .* payload_bytes_max"
    ):
        recorder.emission(Draft(NAME, "x" * 9), NOWHERE)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"metadata": {"a": "x" * 16_384}}, "the metadata"),
        ({"actor": Actor(type="a", id="1", metadata={"a": "x" * 16_384})}, "the actor's metadata"),
        ({"headers": {"X-A": "x" * 16_384}}, "the headers"),
    ],
)
def test_what_stands_beside_the_payload_is_small(options: Any, what: str) -> None:
    with pytest.raises(
        EventTooLargeError, match=f"{what} has .* the limit is 16384; put data into"
    ):
        record(**options)


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ({"$sealed": "v1.x"}, None),
        ({"a": [{"$sealed": 1}]}, None),
        (b'{"a": {"$sealed" : "x"}}', "application/json"),
        (b'{"a": {"\\u0024sealed": "x"}}', "application/json"),
    ],
)
def test_what_looks_like_an_encrypted_value_is_refused(data: object, content_type: Any) -> None:
    with pytest.raises(InvalidEventError, match=r"has a field '\$sealed', which marks encrypted"):
        record(NAME, data, content_type=content_type)


def test_the_mark_of_encrypted_values_may_stand_in_text() -> None:
    data = {"note": '"$sealed":', "list": ["$sealed"]}

    assert json.loads(str(record(NAME, data).payload)) == data


@pytest.mark.requirement("OO-EM-19")
def test_metadata_stays_apart_from_headers() -> None:
    found = record(headers={"X-A": "1"}, metadata={"build": {"number": 7}})

    assert json.loads(str(found.headers)) == {"X-A": "1"}
    assert json.loads(str(found.metadata)) == {"build": {"number": 7}}


def test_the_trace_context_is_metadata_and_the_callers_own_wins() -> None:
    recorder = Recorder(
        namespace="shop", new_id=IDS, trace=lambda: {"traceparent": "t", "tracestate": "s"}
    )

    plain = recorder.emission(Draft(NAME), NOWHERE).record
    mine = recorder.emission(Draft(NAME, None, {"metadata": {"traceparent": "m"}}), NOWHERE).record

    assert json.loads(str(plain.metadata)) == {"traceparent": "t", "tracestate": "s"}
    assert json.loads(str(mine.metadata)) == {"traceparent": "m", "tracestate": "s"}


@pytest.mark.requirement("CAN-28", "CAN-60")
def test_an_event_has_the_correlation_of_its_origin_else_its_own_id() -> None:
    origin = Origin(correlation_id="chain", tenant="acme", actor=Actor.parse("user:1"))
    inside = RECORDER.emission(Draft(NAME), origin).record

    assert (inside.correlation_id, inside.tenant_id, inside.actor_id) == ("chain", "acme", "1")
    outside = record()
    assert outside.correlation_id == str(outside.event_id)


@pytest.mark.requirement("CAN-62", "CAN-89")
def test_a_correction_names_the_event_that_it_corrects() -> None:
    wrong = emission(NAME, {"pot": 1}, correlation_id="chain").reference
    correction = record("teapot.corrected", {"pot": 2}, causation=wrong)

    assert (correction.causation_id, correction.correlation_id) == (wrong.id, "chain")


@pytest.mark.requirement("NEV-27")
def test_an_actor_may_be_given_in_short() -> None:
    found = record(actor="staff:123")

    assert (found.actor_type, found.actor_id, found.actor_name) == ("staff", "123", None)


@pytest.mark.requirement("OO-EM-33")
@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC),
        datetime(2040, 1, 1, tzinfo=UTC),
        datetime(2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
    ],
    ids=str,
)
def test_moments_are_kept_to_the_microsecond_and_in_utc(moment: datetime) -> None:
    found = record(at=moment, occurred_at=moment)

    assert found.available_at == found.occurred_at == moment
    assert found.available_at is not None
    assert found.available_at.tzinfo is UTC


@pytest.mark.parametrize("name", ["at", "occurred_at"])
@pytest.mark.parametrize(
    "moment",
    [
        *(datetime(2026, 1, 31), datetime.now(), "2026-01-31", 1_800_000_000, float("nan")),  # noqa: DTZ001, DTZ005
        NOON.date(),
    ],
    ids=lambda moment: type(moment).__name__,
)
def test_a_moment_without_a_time_zone_is_refused(name: str, moment: object) -> None:
    with pytest.raises(InvalidEventError, match=f"{name} is .* which has no time zone; give an"):
        record(**{name: moment})


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=UTC),  # a driver writes it as minus infinity
        datetime.max.replace(tzinfo=UTC),  # and this as infinity
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_a_moment_that_utc_does_not_have_is_refused(moment: datetime) -> None:
    with pytest.raises(InvalidEventError, match="which no database can hold in UTC"):
        record(at=moment)


def test_a_delay_stays_a_duration_because_the_databases_clock_decides() -> None:
    found = record(delay=timedelta(days=400, microseconds=1))

    assert found.available_after_us == 400 * 86_400 * 1_000_000 + 1
    assert found.available_at is None


def digest(*arguments: Any, **options: Any) -> str | None:
    return record(*arguments, idempotency_key="k", **options).body_digest


def test_an_event_without_a_key_or_id_of_the_callers_own_has_no_digest() -> None:
    found = emission()

    assert found.record.body_digest is None
    assert not found.guarded
    assert not found.needs_answer


def test_the_same_body_has_the_same_digest_and_another_body_another() -> None:
    same = digest(NAME, {"a": 1})

    assert digest(NAME, {"a": 1}, headers={"X-A": "b"}, tenant="acme", key=1) == same
    others = {
        digest(NAME, {"a": 2}),
        digest("teapot.emptied", {"a": 1}),
        digest(NAME, {"a": 1}, version=2),
        digest(NAME, b'{"a": 1}', content_type="application/json"),
        digest(NAME, b'{"a":1}', content_type="text/plain"),
    }
    assert same not in others
    assert len(others) == 5


def test_an_id_of_the_callers_own_is_guarded_like_a_key() -> None:
    found = emission(NAME, {}, id=UUID(int=5))

    assert found.record.idempotency_key is None
    assert found.guarded


@pytest.mark.requirement("CAN-53", "CAN-55")
def test_a_derived_key_is_entity_type_and_hash_of_the_payload() -> None:
    found = record("order.placed", {"id": 42}, key=42, idempotency_key=True)

    assert re.fullmatch(r"order:42:order\.placed:[0-9a-f]{32}", str(found.idempotency_key))
    assert str(found.idempotency_key).endswith(str(found.body_digest))


@pytest.mark.requirement("CAN-53")
def test_a_derived_key_is_the_same_for_the_same_event_and_only_for_it() -> None:
    def key(*arguments: Any, **options: Any) -> str | None:
        return record(*arguments, idempotency_key=True, **options).idempotency_key

    same = key(NAME, {"a": 1}, key=1)

    assert key(NAME, {"a": 1}, key=1) == same
    assert key(NAME, {"a": 1}) == "::teapot.filled:" + str(digest(NAME, {"a": 1}))
    others = [key(NAME, {"a": 2}, key=1), key(NAME, {"a": 1}, key=2), key("a.b", {"a": 1}, key=1)]
    assert same not in others


@given(st.text("abü:", min_size=1, max_size=120), st.text("abü:", min_size=1, max_size=120))
@settings(max_examples=50)
def test_a_derived_key_always_fits(entity_type: str, entity_id: str) -> None:
    found = record("a" * 200, {}, entity=(entity_type, entity_id), idempotency_key=True)

    assert len(str(found.idempotency_key).encode()) <= 255
    assert str(found.idempotency_key).endswith(str(found.body_digest))


def test_a_long_derived_key_is_hashed_not_cut() -> None:
    keys = {
        record("a" * 200, {}, key="k" * 100 + end, idempotency_key=True).idempotency_key
        for end in "xy"
    }

    assert len(keys) == 2


@pytest.mark.parametrize(
    ("options", "needs_answer"),
    [
        ({}, False),
        ({"key": 1}, False),
        ({"delay": 1}, False),
        ({"idempotency_key": "k"}, True),
        ({"id": UUID(int=5)}, True),
        ({"key": 1, "entity_version": 0}, True),
        ({"key": 1, "lock": True}, True),
        ({"key": 1, "lock": False}, False),
    ],
    ids=str,
)
def test_what_needs_an_answer_of_the_database_says_so(options: Any, needs_answer: bool) -> None:
    assert emission(**options).needs_answer is needs_answer


@dataclass(frozen=True)
class Paid:
    order_id: int
    who: str
    card: str | None = "4242"
    address: dict[str, str] = field(default_factory=lambda: {"city": "Berlin"})


def sensitive(cls: type = Paid, **options: Any) -> Any:
    names = {"sensitive": ("card", "address"), "data_subject": "who"}
    return event("order.paid_up", **{**names, **options})(cls)


def seal(value: bytes, name: str) -> str:
    return f"{name}={value.hex()}"


def test_sensitive_fields_are_replaced_by_what_seal_returns() -> None:
    found = emission(sensitive()(1, "me"))

    sealed = json.loads(str(found.sealed(seal, b"k" * 32).payload))

    assert found.sensitive == ("card", "address")
    assert found.needs_answer
    assert sealed == {
        "order_id": 1,
        "who": "me",
        "card": {payloads.SEALED: "card=" + b'"4242"'.hex()},
        "address": {payloads.SEALED: "address=" + b'{"city":"Berlin"}'.hex()},
    }


def test_what_is_none_is_not_sealed() -> None:
    found = emission(sensitive()(1, "me", card=None))

    assert json.loads(str(found.sealed(seal, b"k" * 32).payload))["card"] is None


def test_the_digest_of_sensitive_data_is_keyed() -> None:
    found = emission(sensitive()(1, "me"), idempotency_key="k")
    digests = [found.sealed(seal, key).body_digest for key in (b"k" * 32, b"k" * 32, b"j" * 32)]

    assert digests[0] == digests[1]
    assert len({found.record.body_digest, *digests}) == 3


def test_without_a_key_sensitive_data_leaves_no_digest() -> None:
    assert emission(sensitive()(1, "me")).sealed(seal, b"k" * 32).body_digest is None


def test_sensitive_data_of_nobody_is_refused() -> None:
    nobody: Any = None

    with pytest.raises(InvalidEventError, match=r"data_subject of 'order\.paid_up' is None"):
        record(sensitive()(1, nobody))


def test_sensitive_data_has_no_derived_key() -> None:
    with pytest.raises(
        InvalidEventError, match="would hold a hash of them; give an idempotency_key"
    ):
        record(sensitive()(1, "me"), idempotency_key=True)


def test_a_name_and_data_do_not_go_around_the_class_that_declares_what_is_sensitive() -> None:
    sensitive()

    with pytest.raises(InvalidEventError, match=r"so it is emitted as an object of Paid, not as a"):
        record("order.paid_up", {"card": "4242"})


class Renamed(msgspec.Struct, rename="camel"):
    who: str
    card_number: str | None = "4242"


class Flat(msgspec.Struct, array_like=True):
    who: str
    card_number: str = "4242"


class Omitted(msgspec.Struct, omit_defaults=True):
    who: str
    card_number: str = "4242"


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(serialize_by_alias=True, populate_by_name=True)
    who: str
    card_number: str = pydantic.Field("4242", alias="cardNumber")


@pytest.mark.parametrize("cls", [Renamed, Flat, Omitted, Aliased])
def test_a_sensitive_field_that_is_written_under_another_name_is_refused_not_leaked(
    cls: type,
) -> None:
    hidden = sensitive(cls, sensitive=["card_number"])

    with pytest.raises(InvalidEventError, match=r"'card_number' .* would not be encrypted; do not"):
        record(hidden(who="me"))


@pytest.mark.parametrize("cls", [Renamed])
def test_a_renamed_field_that_is_none_has_nothing_to_hide(cls: type) -> None:
    hidden = sensitive(cls, sensitive=["card_number"])

    assert record(hidden(who="me", card_number=None)).payload == '{"who":"me","cardNumber":null}'


def test_a_refusal_of_a_huge_value_says_so_in_a_short_message() -> None:
    huge: Iterator[dict[str, Any]] = iter(
        [{"key": "k" * 10**6}, {"id": "i" * 10**6}, {"tenant": "t" * 10**6}, {"at": "a" * 10**6}]
    )
    for options in huge:
        with pytest.raises(InvalidEventError) as refused:
            record(**options)
        assert len(str(refused.value)) < 300
