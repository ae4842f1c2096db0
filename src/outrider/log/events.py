"""Rows of the log become events: decoded, in clear, brought to the newest version, typed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from outrider import payloads
from outrider.errors import ConfigError, EncodingError
from outrider.event_types import DECLARED, EventTypes
from outrider.events import ActionRef, Actor, Event
from outrider.filters import Filter
from outrider.sql.dialect import Dialect
from outrider.sql.keys import Sealer, Subject, context_of, find_keys
from outrider.sql.plan import Plan, Row
from outrider.sql.read import PAGE_EVENTS_MAX

MASK = "•••"
Page: TypeAlias = Callable[[Dialect, Filter, int, int], Plan[list[Row]]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def events_of(
    dialect: Dialect,
    page: Page,
    where: Filter,
    position: int,
    *,
    limit: int,
    sealer: Sealer | None,
) -> Plan[list[Event[Any]]]:
    """Read a page of the log as events."""
    if not 1 <= limit <= PAGE_EVENTS_MAX:
        raise ConfigError(
            f"limit is {limit}; read between 1 and {PAGE_EVENTS_MAX} events at a time, and go on "
            "after the position of the last"
        )
    rows = yield from page(dialect, where, position, limit)
    keys: Mapping[Subject, bytes] = {}
    subjects = {(r["tenant_id"], r["data_subject"]) for r in rows if r["data_subject"] is not None}
    if subjects and sealer is not None:
        keys = yield from find_keys(dialect, subjects)
    return [event_of(row, data_of(row, keys, sealer)) for row in rows]


def data_of(row: Row, keys: Mapping[Subject, bytes], sealer: Sealer | None) -> Any:
    """Return the payload decoded: typed where its class is declared, else as plain data.

    A sensitive value whose key was erased is None, and its event stays plain data.
    """
    if row["payload"] is None:
        return bytes(row["payload_bytes"])
    plain = payloads.load(row["payload"].encode())
    sealed = _sealed_fields(plain)
    if not sealed:
        return typed(row, plain)
    key = keys.get((row["tenant_id"], row["data_subject"]))
    if key is None or sealer is None:
        return {**plain, **dict.fromkeys(sealed)}
    for field, value in sealed.items():
        text = sealer.open(key, context_of(_uuid(row["event_id"]), field), value)
        plain[field] = payloads.load(text)
    try:
        return typed(row, plain)
    except EncodingError:
        # The reason may quote a value, and this one was encrypted.
        raise EncodingError(
            f"event {row['event_id']} does not fit its class, and the reason is not shown because "
            "it may hold personal data; declare an @upcast, or emit a new version"
        ) from None


def event_of(row: Row, data: Any) -> Event[Any]:
    """Return the event of *row* with *data* as its data."""
    return Event(
        position=row["position"],
        id=_uuid(row["event_id"]),
        type=row["event_type"],
        version=row["schema_version"],
        data=data,
        content_type=row["content_type"],
        payload=payload_of(row),
        key=row["ordering_key"],
        partition_key=row["partition_key"],
        tenant=row["tenant_id"] or None,
        namespace=row["namespace"],
        entity=(row["entity_type"], row["entity_id"]) if row["entity_type"] else None,
        entity_version=row["entity_version"],
        headers=_json(row["headers"]),
        metadata=_json(row["metadata"]),
        correlation_id=row["correlation_id"],
        causation_id=_uuid(row["causation_id"]) if row["causation_id"] else None,
        request_id=row["request_id"],
        idempotency_key=row["idempotency_key"],
        actor=_actor(row),
        source=row["source"],
        action=_action(row),
        data_subject=row["data_subject"],
        keep_seconds=row["keep_seconds"],
        time=_time(row["occurred_at"]),
        created_at=_time(row["created_at"]),
        available_at=_time(row["available_at"]) if row["available_at"] is not None else None,
    )


def payload_of(row: Row) -> bytes:
    """Return the payload as it was emitted, byte for byte."""
    if row["payload"] is not None:
        text: str = row["payload"]
        return text.encode()
    return bytes(row["payload_bytes"])


def typed(row: Row, plain: Any, types: EventTypes = DECLARED) -> Any:
    """Return decoded JSON as the declared class, upcast to its version; else as it is."""
    version, data = types.upcast(row["event_type"], row["schema_version"], plain)
    declared = types.named(row["event_type"])
    if declared is None or version != declared.version:
        return data
    try:
        return payloads.convert(data, declared.cls)
    except ValueError as error:  # msgspec's and pydantic's own are ValueErrors
        raise EncodingError(
            f"event {row['event_id']} does not fit {declared.cls.__qualname__} "
            f"(version {version}): {error}; declare an @upcast, or emit a new version"
        ) from error


def masked(plain: Any) -> Any:
    """Return decoded JSON with every encrypted value masked, for screens, exports and logs."""
    if isinstance(plain, dict):
        if _is_sealed(plain):
            return MASK
        return {name: masked(value) for name, value in plain.items()}
    return [masked(value) for value in plain] if isinstance(plain, list) else plain


def _sealed_fields(plain: Any) -> dict[str, str]:
    if not isinstance(plain, dict):
        return {}
    return {name: value[payloads.SEALED] for name, value in plain.items() if _is_sealed(value)}


def _is_sealed(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {payloads.SEALED}


def _actor(row: Row) -> Actor | None:
    if row["actor_type"] is None:
        return None
    metadata = row["actor_metadata"]
    return Actor(
        type=row["actor_type"],
        id=row["actor_id"],
        name=row["actor_name"],
        metadata=None if metadata is None else _json(metadata),
    )


def _action(row: Row) -> ActionRef | None:
    if row["action_id"] is None:
        return None
    return ActionRef(
        id=_uuid(row["action_id"]),
        name=row["action_name"],
        params=row["action_params"],
        started_at=_time(row["action_started_at"]),
        completed_at=_time(row["action_completed_at"]),
    )


def _json(text: str | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = payloads.load(text.encode()) if text else {}
    return found


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _uuid(value: UUID | str) -> UUID:
    # asyncpg returns a subclass that is slower to compare; everybody gets the same one.
    return UUID(str(value))
