"""An event of the log as a CloudEvent 1.0: its context attributes, and the structured JSON form.

What CloudEvents has no word for travels as extensions. Headers are not among them: they belong to
a transport, which sends them as its own. Internal metadata stays inside, but for the trace context.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from outrider.events import Event

SPEC_VERSION = "1.0"
STRUCTURED_TYPE = "application/cloudevents+json"
Attributes: TypeAlias = dict[str, str | int]

# A bigint has at most 19 digits; with leading zeros sequences sort as text.
_SEQUENCE_DIGITS = 19
_TRACE = ("traceparent", "tracestate")


def attributes(event: Event[Any]) -> Attributes:
    """Return the context attributes of *event*, extensions included, without those that are absent.

    A binding in binary mode sends each as a header of its own.
    """
    found: Mapping[str, str | int | None] = {
        "specversion": SPEC_VERSION,
        "id": str(event.id),
        "source": event.namespace,
        "type": event.type,
        "subject": "/".join(event.entity) if event.entity else None,
        "time": rfc3339(event.time),
        "datacontenttype": event.content_type,
        "schemaversion": event.version,
        "sequence": f"{event.position:0{_SEQUENCE_DIGITS}d}",
        "partitionkey": event.partition_key if event.partition_key is not None else event.key,
        "recordedtime": rfc3339(event.created_at),
        "correlationid": event.correlation_id,
        "causationid": None if event.causation_id is None else str(event.causation_id),
        "requestid": event.request_id,
        "idempotencykey": event.idempotency_key,
        "tenantid": event.tenant,
        "origin": event.source,
        "authtype": event.actor.type if event.actor else None,
        "authid": event.actor.id if event.actor else None,
        "actionid": str(event.action.id) if event.action else None,
        **{name: _text(event.metadata.get(name)) for name in _TRACE},
    }
    return {name: value for name, value in found.items() if value is not None}


def structured(event: Event[Any], data: Any) -> dict[str, Any]:
    """Return *event* with *data* as one JSON object; bytes are written as base64."""
    body = (
        {"data_base64": base64.b64encode(data).decode()}
        if isinstance(data, bytes)
        else {"data": data}
    )
    return {**attributes(event), **body}


def rfc3339(moment: datetime) -> str:
    """Return *moment* in UTC with microseconds.

    >>> rfc3339(datetime(2026, 1, 31, 12, tzinfo=UTC))
    '2026-01-31T12:00:00.000000Z'
    """
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='microseconds')}Z"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
