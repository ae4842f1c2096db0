"""The filter language."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.errors import ConfigError
from outrider.filters import LENGTH_MAX, QUALIFIERS, Filter, parse

ID = UUID("0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

keys = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40
)
moments = st.datetimes(timezones=st.just(UTC))
filters = st.builds(
    Filter,
    id=st.none() | st.uuids(),
    type=st.none() | st.from_regex(r"[A-Za-z0-9_.*]{1,200}", fullmatch=True),
    tenant=st.none() | st.just("") | keys,
    key=st.none() | keys,
    entity_type=st.none() | keys,
    entity_id=st.none() | keys,
    correlation_id=st.none() | keys,
    causation_id=st.none() | st.uuids(),
    idempotency_key=st.none() | keys,
    request_id=st.none() | keys,
    actor_type=st.none() | keys,
    actor_id=st.none() | keys,
    action_id=st.none() | st.uuids(),
    source=st.none() | keys,
    namespace=st.none() | keys,
    since=st.none() | moments,
    until=st.none() | moments,
)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, now=NOW)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        (" \n\t ", {}),
        ("type:order.*", {"type": "order.*"}),
        ("  type:order.*   key:42 ", {"type": "order.*", "key": "42"}),
        ("type:*", {"type": "*"}),
        (f"id:{ID}", {"id": ID}),
        ("entity:order/42", {"entity_type": "order", "entity_id": "42"}),
        ("entity:order/a/b", {"entity_type": "order", "entity_id": "a/b"}),
        ("entity:order", {"entity_type": "order"}),
        ("entity_type:a/b entity_id:42", {"entity_type": "a/b", "entity_id": "42"}),
        ("actor:user:42", {"actor_type": "user", "actor_id": "42"}),
        ("actor:user", {"actor_type": "user"}),
        ('actor:"user:a b"', {"actor_type": "user", "actor_id": "a b"}),
        ("tenant:acme", {"tenant": "acme"}),
        ('tenant:""', {"tenant": ""}),
        (f"causation:{ID} action:{ID}", {"causation_id": ID, "action_id": ID}),
        ("correlation:c request:r", {"correlation_id": "c", "request_id": "r"}),
        ("idempotency:k source:s namespace:n", None),
    ],
)
def test_a_filter_says_what_it_selects(text: str, fields: dict[str, Any] | None) -> None:
    expected = fields or {"idempotency_key": "k", "source": "s", "namespace": "n"}

    assert parse(text) == Filter(**(expected if fields is None else fields))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"a b"', "a b"),
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', "a\\b"),
        ('"a\nb"', "a\nb"),
        ('"key:x type:y"', "key:x type:y"),
        ('a"b', 'a"b'),
        (r"a\b", r"a\b"),
        ("a:b", "a:b"),
        ("'", "'"),
        ("';DROP", "';DROP"),
        ("%s", "%s"),
        ("{0}", "{0}"),
        (":name", ":name"),
        ("ключ", "ключ"),
    ],
)
def test_values_are_taken_as_they_are_or_quoted(written: str, value: str) -> None:
    assert parse(f"key:{written} type:x") == Filter(key=value, type="x")


@pytest.mark.requirement("OO-RO-03")
@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("PT5M", NOW - timedelta(minutes=5)),
        ("0s", NOW),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T10:00:00Z", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T10:00:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T10:00:00.000001", datetime(2026, 1, 31, 10, microsecond=1, tzinfo=UTC)),
        ("2026-01-31T10:00:00+02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ('"2026-01-31 10:00"', datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_moments_are_durations_ago_or_times(text: str, moment: datetime) -> None:
    assert parse(f"since:{text}", now=NOW) == Filter(since=moment)
    assert parse(f"until:{text}", now=NOW) == Filter(until=moment)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("typ:x", 1, "no qualifier 'typ'; did you mean 'type'?"),
        ("key:1 tennant:x", 7, "no qualifier 'tennant'; did you mean 'tenant'?"),
        ("zzzz:x", 1, "known are id, type, tenant"),
        ("key:1   order", 9, "'order' is no qualifier:value"),
        ("key:1 KEY:2", 7, "'KEY:2' is no qualifier:value"),
        ("key:", 5, "the value is missing"),
        ("key: 42", 5, "the value is missing"),
        ('key:"a b', 5, "the quoted value does not end"),
        ('key:"a"b', 5, "the quoted value does not end"),
        ('key:"a\\"', 5, "the quoted value does not end"),
        ('key:""', 1, "is empty"),
        ("key:1 key:2", 7, "key: says key a second time"),
        ("entity:order/1 entity_id:2", 16, "entity_id: says entity_id a second time"),
        ("id:42", 1, "it is not a UUID"),
        ("type:order/x", 1, "a type has letters"),
        ("type:order.%", 1, "a type has letters"),
        ("type:[a-z]", 1, "a type has letters"),
        (f"type:{'*' * 201}", 1, "at most 200"),
        ("since:yesterday", 1, "is not a duration"),
        ("since:2026-13-01", 1, "a duration like 2h"),
        ("since:-2h", 1, "is not a duration"),
        ("since:0001-01-01T00:00:00+10:00", 1, "a duration like 2h"),
        ("since:200000d", 1, "is not a duration"),
        ("entity:/42", 1, "entity type is empty"),
        ("entity:order/", 1, "entity id is empty"),
        ("actor::42", 1, "actor type is empty"),
        ("key:a\x00b", 1, "NUL"),
        (f"key:{'x' * 300}", 1, "300 bytes"),
        ("state:PENDING' OR 1=1", 1, "no qualifier 'state'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: int, says: str) -> None:
    message = refusal(text)

    assert message.startswith(f"filter, character {place}: ")
    assert says in message


def test_a_filter_has_a_bounded_length() -> None:
    assert "the limit is 4096" in refusal("key:" + "%_" * LENGTH_MAX)


def test_a_bad_value_is_shown_escaped_and_short() -> None:
    message = refusal("id:" + "\x1b[2J\u202e" * 100)

    assert "\x1b" not in message
    assert "\u202e" not in message
    assert len(message) < 300


@given(filters)
def test_a_filter_is_written_as_it_is_read(selected: Filter) -> None:
    assert parse(str(selected)) == selected


def test_a_filter_in_another_zone_is_the_same_moment() -> None:
    east = datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2)))

    assert parse(str(Filter(since=east))) == Filter(since=NOW)


@given(
    st.text()
    | st.lists(
        st.sampled_from([*(f"{name}:" for name in QUALIFIERS), '"', "\\", " ", "-", "1"])
    ).map("".join)
    | st.tuples(st.sampled_from(list(QUALIFIERS)), st.text()).map(":".join)
)
@example("since:9999-12-31T23:59:59-23:59")
@example("since:0000-00-00")
@example("since:²²²²-")
@example("since:" + "9" * 400)
@example("since:1e400")
@example("since:nan")
@example("key:\ud800")
@example("id:{urn:uuid:}")
@example('key:"\\')
def test_no_input_is_answered_with_anything_but_a_filter_or_a_refusal(text: str) -> None:
    refused = ""
    try:
        found = parse(text)
    except ConfigError as error:
        refused = str(error)

    if refused:
        assert refused.startswith("filter, character ")
    else:
        assert parse(str(found)) == found


def test_every_field_can_be_said_and_every_example_is_accepted() -> None:
    said = {qualifier.field for qualifier in QUALIFIERS.values()} - {""}

    assert said == set(Filter.__struct_fields__)
    for qualifier in QUALIFIERS.values():
        assert parse(qualifier.example) != Filter()
