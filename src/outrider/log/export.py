"""The log as plain JSON: pages by position, and one event as a document with stable keys.

Application classes play no part here, so what is shown is what was stored: neither typed nor
brought to a newer version, sensitive values masked, every digit of every number kept.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from outrider import payloads
from outrider.cloudevents import rfc3339
from outrider.errors import EncodingError
from outrider.events import ActionRef, Event
from outrider.filters import Filter
from outrider.log.events import event_of, masked
from outrider.sql import read
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan, Row

T = TypeVar("T")
PAGE_EVENTS = 250


def newest(dialect: Dialect) -> Plan[int]:
    """Return the highest position that is visible; 0 for an empty log."""
    rows = yield from read.backward(dialect, Filter(), None, 1)
    position: int = rows[0]["position"] if rows else 0
    return position


def rows_between(
    run: Callable[[Plan[list[Row]]], list[Row]],
    dialect: Dialect,
    where: Filter,
    after: int,
    until: int,
) -> Iterator[Row]:
    """Yield the rows after one position up to another, a page at a time.

    Each page is a transaction of its own, so a long export holds back no vacuum.
    """
    while True:
        rows = run(read.forward(dialect, where, after, PAGE_EVENTS))
        for row in rows:
            if row["position"] > until:
                return
            yield row
        if len(rows) < PAGE_EVENTS:
            return
        after = rows[-1]["position"]


def plain_event(row: Row) -> Event[Any]:
    """Return the event of *row*; its data is plain JSON with what is sensitive masked, or bytes."""
    return event_of(row, _plain_data(row))


def document(event: Event[Any]) -> dict[str, Any]:
    """Return an event with plain data as a JSON object. Its keys are always all there."""
    binary = isinstance(event.data, bytes)
    return {
        "position": event.position,
        "id": str(event.id),
        "type": event.type,
        "version": event.version,
        "time": rfc3339(event.time),
        "created_at": rfc3339(event.created_at),
        "available_at": None if event.available_at is None else rfc3339(event.available_at),
        "tenant": event.tenant,
        "namespace": event.namespace,
        "key": event.key,
        "partition_key": event.partition_key,
        "entity": _entity(event),
        "correlation_id": event.correlation_id,
        "causation_id": None if event.causation_id is None else str(event.causation_id),
        "request_id": event.request_id,
        "idempotency_key": event.idempotency_key,
        "actor": _actor(event),
        "source": event.source,
        "action": None if event.action is None else _action(event.action),
        "data_subject": event.data_subject,
        "keep_seconds": event.keep_seconds,
        "headers": dict(event.headers),
        "metadata": dict(event.metadata),
        "content_type": event.content_type,
        "data": None if binary else event.data,
        "data_base64": base64.b64encode(event.data).decode() if binary else None,
    }


FIELDS = (
    *("position", "id", "type", "version", "time", "created_at", "available_at", "tenant"),
    *("namespace", "key", "partition_key", "entity", "correlation_id", "causation_id"),
    *("request_id", "idempotency_key", "actor", "source", "action", "data_subject"),
    *("keep_seconds", "headers", "metadata", "content_type", "data", "data_base64"),
)
"""The keys of a document, in their order."""


def _plain_data(row: Row) -> Any:
    if row["payload"] is None:
        return bytes(row["payload_bytes"])
    text: str = row["payload"]
    try:
        return masked(_exact(text))
    except EncodingError:
        # Somebody wrote it past emit: no strict JSON, but still there to be looked at.
        return text.encode(errors="replace")


def _exact(text: str) -> Any:
    """Read JSON text with every digit: a float of Python's would drop some."""
    payloads.load(text.encode())
    return json.loads(text, parse_float=Decimal)


def _entity(event: Event[Any]) -> Mapping[str, Any] | None:
    if event.entity is None:
        return None
    kind, identity = event.entity
    return {"type": kind, "id": identity, "version": event.entity_version}


def _actor(event: Event[Any]) -> Mapping[str, Any] | None:
    if event.actor is None:
        return None
    return {
        "type": event.actor.type,
        "id": event.actor.id,
        "name": event.actor.name,
        "metadata": None if event.actor.metadata is None else dict(event.actor.metadata),
    }


def _action(action: ActionRef) -> Mapping[str, Any]:
    return {
        "id": str(action.id),
        "name": action.name,
        "params": _json_or_text(action.params),
        "started_at": rfc3339(action.started_at),
        "completed_at": rfc3339(action.completed_at),
    }


def _json_or_text(text: str | None) -> Any:
    try:
        return None if text is None else masked(_exact(text))
    except EncodingError:
        return text
