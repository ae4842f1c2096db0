"""Events as CloudEvents 1.0."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from outrider.cloudevents import attributes, structured
from outrider.events import ActionRef, Actor, Event

ID = UUID("0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e")
CAUSE = UUID("0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6d")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

BARE: Event[Any] = Event(
    position=42,
    id=ID,
    type="order.placed",
    version=1,
    data={"order_id": 42},
    content_type="application/json",
    payload=b'{"order_id":42}',
    key=None,
    partition_key=None,
    tenant=None,
    namespace="shop",
    entity=None,
    entity_version=None,
    headers={"x-secret": "inside"},
    metadata={"internal": 1},
    correlation_id=str(ID),
    causation_id=None,
    request_id=None,
    idempotency_key=None,
    actor=None,
    source=None,
    action=None,
    data_subject=None,
    keep_seconds=None,
    time=NOON,
    created_at=NOON.replace(microsecond=7),
    available_at=None,
)
FULL = replace(
    BARE,
    version=2,
    key="42",
    partition_key="p",
    tenant="acme",
    entity=("order", "42"),
    metadata={"traceparent": "00-a-b-01", "tracestate": "x=1", "internal": 1},
    causation_id=CAUSE,
    request_id="r",
    idempotency_key="k",
    actor=Actor(type="user", id="7", name="Anna"),
    source="import",
    action=ActionRef(id=CAUSE, name="checkout", params="{}", started_at=NOON, completed_at=NOON),
)


def test_a_bare_event_has_what_every_cloudevent_has_and_nothing_empty() -> None:
    assert structured(BARE, BARE.data) == {
        "specversion": "1.0",
        "id": str(ID),
        "source": "shop",
        "type": "order.placed",
        "time": "2026-01-31T12:00:00.000000Z",
        "datacontenttype": "application/json",
        "schemaversion": 1,
        "sequence": "0000000000000000042",
        "recordedtime": "2026-01-31T12:00:00.000007Z",
        "correlationid": str(ID),
        "data": {"order_id": 42},
    }


def test_what_cloudevents_has_no_word_for_is_an_extension() -> None:
    found = attributes(FULL)

    assert {name: found[name] for name in found.keys() - attributes(BARE).keys()} == {
        "subject": "order/42",
        "partitionkey": "p",
        "causationid": str(CAUSE),
        "requestid": "r",
        "idempotencykey": "k",
        "tenantid": "acme",
        "origin": "import",
        "authtype": "user",
        "authid": "7",
        "actionid": str(CAUSE),
        "traceparent": "00-a-b-01",
        "tracestate": "x=1",
    }
    assert found["schemaversion"] == 2


def test_names_and_values_are_of_the_specification() -> None:
    for name, value in attributes(FULL).items():
        assert re.fullmatch(r"[a-z0-9]{1,20}", name)
        assert value not in {"", None}


def test_the_key_stands_in_for_a_partition_key() -> None:
    assert attributes(replace(FULL, partition_key=None))["partitionkey"] == "42"


def test_sequences_sort_as_text() -> None:
    positions = [1, 9, 10, 99, 2**63 - 1]

    texts = [str(attributes(replace(BARE, position=number))["sequence"]) for number in positions]

    assert texts == sorted(texts)
    assert len({len(text) for text in texts}) == 1


@pytest.mark.parametrize("data", [b"", b"\x00\xff"])
def test_bytes_travel_as_base64(data: bytes) -> None:
    found = structured(replace(BARE, content_type="image/png"), data)

    assert found["data_base64"] == {b"": "", b"\x00\xff": "AP8="}[data]
    assert "data" not in found


def test_a_payload_that_is_null_is_still_there() -> None:
    assert structured(BARE, None)["data"] is None
