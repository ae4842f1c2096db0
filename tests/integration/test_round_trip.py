"""Whatever event can be said arrives as it was said, on both databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider import Actor, Draft, Event, Outbox, payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60)
names = texts.filter(lambda text: text != payloads.SEALED)
keys = texts.filter(lambda text: 0 < len(text.encode()) <= 200)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
instants = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - the strategy adds the zone
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001 - the same
    timezones=st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone),
)
headers = st.dictionaries(
    st.from_regex(r"x-[a-z0-9!#$%&'*+.^_`|~]{1,20}", fullmatch=True),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.just("\t")).map(str.strip),
    max_size=4,
)
actors = st.builds(
    Actor,
    type=keys,
    id=keys,
    name=st.none() | keys,
    metadata=st.none() | st.dictionaries(names, json_values, max_size=3),
)
options = st.fixed_dictionaries(
    {},
    optional={
        "key": keys,
        "partition_key": keys,
        "tenant": keys,
        "request_id": keys,
        "source": keys,
        "correlation_id": keys,
        "causation": st.uuids(),
        "actor": actors,
        "headers": headers,
        "metadata": st.dictionaries(names, json_values, max_size=4),
        "occurred_at": instants,
        "at": instants,
        "keep": st.timedeltas(timedelta(), timedelta(days=36_525)),
        "version": st.integers(1, 2**31 - 1),
        "entity_version": st.integers(0, 2**63 - 1),
        "idempotency_key": keys,
        "data_subject": keys,
    },
)
documents = st.tuples(json_values, st.none())
raw = st.tuples(st.binary(max_size=300), st.sampled_from(["image/png", "text/plain; charset=x"]))
written = st.tuples(
    json_values.map(lambda value: b" " + payloads.encode(value) + b"\n"),
    st.sampled_from(["application/json", "application/cloudevents+json; v=1"]),
)
delays = st.none() | st.timedeltas(timedelta(), timedelta(days=36_525))


@st.composite
def drafts(draw: st.DrawFn) -> list[Draft]:
    made = []
    for n in range(draw(st.integers(1, 4))):
        data, content_type = draw(documents | raw | written)
        said: dict[str, Any] = draw(options)
        if content_type is not None:
            said["content_type"] = content_type
        if "entity_version" in said:
            said["entity"] = ("thing", f"{n}")
        if "idempotency_key" in said:
            said["idempotency_key"] = f"{n}{said['idempotency_key']}"
        if (delay := draw(delays)) is not None:
            said.pop("at", None)
            said["delay"] = delay
        made.append(Draft("test_thing.happened", data, said))  # type: ignore[arg-type]
    return made


@pytest.fixture(params=["sqlite", "postgres"])
def connection(request: pytest.FixtureRequest) -> Iterator[Any]:
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    opened: Any = (
        closing(sqlite3.connect(url.removeprefix("sqlite:///")))
        if request.param == "sqlite"
        else psycopg.connect(url)
    )
    with opened as connection:
        yield connection


@pytest.mark.requirement("OO-EM-08", "OO-EM-09", "EKB-29")
@settings(
    max_examples=150,
    deadline=None,
    # One connection serves all examples: each ends with a rollback.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(said=drafts(), together=st.booleans())
def test_every_event_arrives_as_it_was_emitted(
    connection: Any, said: list[Draft], together: bool
) -> None:
    numbers = count(1)
    outbox = Outbox(namespace="shop", new_id=lambda: UUID(int=next(numbers)))
    try:
        if together:
            outbox.emit_many(connection, said)
        else:
            for draft in said:
                outbox.emit(connection, draft.event, draft.data, **draft.options)
        events = outbox.read(connection)
        rows = stored(connection)
    finally:
        connection.rollback()

    assert len(events) == len(rows) == len(said)
    for draft, event, row in zip(said, events, rows, strict=True):
        check_payload(draft, event, row)
        check_times(draft, event, row)
        check_the_rest(draft, event)


def check_payload(draft: Draft, event: Event[Any], row: tuple[Any, ...]) -> None:
    is_bytes = isinstance(draft.data, bytes)
    expected = draft.data if isinstance(draft.data, bytes) else payloads.encode(draft.data)
    text, blob = row[:2]
    assert event.payload == expected
    assert (bytes(blob) if text is None else text.encode()) == expected
    assert event.content_type == draft.options.get("content_type", "application/json")
    if not is_bytes:
        assert repr(event.data) == repr(draft.data)


def check_times(draft: Draft, event: Event[Any], row: tuple[Any, ...]) -> None:
    at = draft.options.get("at")
    if (delay := draft.options.get("delay")) is not None:
        assert isinstance(delay, timedelta)
        at = event.created_at + delay
    assert event.available_at == at
    assert event.time == draft.options.get("occurred_at", event.created_at)
    assert row[2:] == (microseconds(event.time), microseconds(event.available_at))


def check_the_rest(draft: Draft, event: Event[Any]) -> None:
    said = draft.options
    key = said.get("key")
    assert event.key == key
    assert event.partition_key == said.get("partition_key", key)
    assert event.entity == said.get("entity", None if key is None else ("test_thing", key))
    assert event.entity_version == said.get("entity_version")
    assert event.tenant == said.get("tenant")
    assert event.request_id == said.get("request_id")
    assert event.source == said.get("source")
    assert event.causation_id == said.get("causation")
    assert event.correlation_id == said.get("correlation_id", str(said.get("causation", event.id)))
    assert event.actor == said.get("actor")
    assert list(event.headers.items()) == list(said.get("headers", {}).items())
    assert repr(event.metadata) == repr(said.get("metadata", {}))
    assert event.version == said.get("version", 1)
    assert event.idempotency_key == said.get("idempotency_key")
    assert event.data_subject == said.get("data_subject")
    keep = said.get("keep")
    assert event.keep_seconds == (
        int(keep.total_seconds()) if isinstance(keep, timedelta) else None
    )


def stored(connection: Any) -> list[tuple[Any, ...]]:
    """Answer payloads and times as the database itself holds them."""
    if isinstance(connection, sqlite3.Connection):
        columns = "payload, payload_bytes, occurred_at, available_at"
    else:
        columns = (
            "payload::text, payload_bytes, (extract(epoch FROM occurred_at) * 1000000)::bigint,"
            " (extract(epoch FROM available_at) * 1000000)::bigint"
        )
    cursor = connection.execute(f"SELECT {columns} FROM outbox_events ORDER BY position")  # noqa: S608 - no input
    return list(cursor.fetchall())


def microseconds(time: datetime | None) -> int | None:
    return None if time is None else (time - EPOCH) // MICROSECOND
