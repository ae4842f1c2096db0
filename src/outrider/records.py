"""A draft becomes a record: the row of the log as it will be written, checked and complete.

Pure: nothing here knows a database. Whatever the caller got wrong is refused here, before the
first statement, so a refused emit leaves the transaction exactly as it was.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from outrider import grammar, payloads
from outrider.durations import duration
from outrider.errors import ConfigError, EncodingError, EventTooLargeError, InvalidEventError
from outrider.event_types import DECLARED, VERSION_MAX, EventType
from outrider.events import Draft, EmitOptions, EventRef, Origin

METADATA_BYTES_MAX = 16 * 1024
PAYLOAD_BYTES_MAX = 256 * 1024
ENTITY_VERSION_MAX = 2**63 - 1
_OPTIONS = EmitOptions.__optional_keys__

Seal: TypeAlias = Callable[[bytes, str], str]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the log, as an INSERT sees it: its fields are the statement's parameters."""

    event_id: UUID
    tenant_id: str
    namespace: str
    event_type: str
    schema_version: int
    entity_type: str | None
    entity_id: str | None
    entity_version: int | None
    ordering_key: str | None
    partition_key: str | None
    payload: str | None
    payload_bytes: bytes | None
    content_type: str
    headers: str | None
    metadata: str | None
    correlation_id: str
    causation_id: UUID | None
    request_id: str | None
    idempotency_key: str | None
    body_digest: str | None
    actor_type: str | None
    actor_id: str | None
    actor_name: str | None
    actor_metadata: str | None
    source: str | None
    action_id: UUID | None
    action_name: str | None
    action_params: str | None
    action_started_at: datetime | None
    action_completed_at: datetime | None
    data_subject: str | None
    keep_seconds: int | None
    occurred_at: datetime | None
    available_at: datetime | None
    available_after_us: int | None

    @property
    def reference(self) -> EventRef:
        """The identity of the event."""
        return EventRef(id=self.event_id, type=self.event_type, correlation_id=self.correlation_id)


class Emission(msgspec.Struct, frozen=True, kw_only=True):
    """A record, and how it is to be written."""

    record: Record
    lock: bool = False
    sensitive: tuple[str, ...] = ()

    @property
    def guarded(self) -> bool:
        """Say whether a conflict with an earlier event is possible, and so must be looked for."""
        record = self.record
        return record.body_digest is not None or record.entity_version is not None

    @property
    def needs_answer(self) -> bool:
        """Say whether something has to be asked of the database to write it."""
        return self.guarded or self.lock or bool(self.sensitive)

    @property
    def reference(self) -> EventRef:
        """The identity of the event, known before it is written."""
        return self.record.reference

    def sealed(self, seal: Seal, digest_key: bytes) -> Record:
        """Return the record with its sensitive fields encrypted by *seal*.

        The digest is keyed: once the key is erased it says nothing about the data either.
        """
        record = self.record
        assert record.payload is not None
        body = payloads.load(record.payload.encode())
        for field in self.sensitive:
            if body.get(field) is not None:
                body[field] = {payloads.SEALED: seal(payloads.dump(body[field]), field)}
        changes: dict[str, Any] = {"payload": payloads.dump(body).decode()}
        if record.body_digest is not None:
            changes["body_digest"] = _digest(record, record.payload.encode(), digest_key)
        return msgspec.structs.replace(record, **changes)


class Recorder(msgspec.Struct, frozen=True, kw_only=True):
    """Makes records: one per outbox, with what all its events share."""

    namespace: str
    new_id: Callable[[], UUID]
    payload_bytes_max: int = PAYLOAD_BYTES_MAX
    trace: Callable[[], Mapping[str, str]] | None = None

    def emission(self, draft: Draft, origin: Origin) -> Emission:
        """Check *draft* and return what to write."""
        options = draft.options
        if unknown := options.keys() - _OPTIONS:
            raise _unknown_option(min(unknown))
        declared, data = _declaration(draft)
        origin = origin.with_options(options)
        name = declared.name if declared else grammar.event_type(str(draft.event))
        key = _key(options, declared, data)
        entity = _entity(options, declared, data, name, key)
        content_type, text, raw = self._payload(options, data, name)
        event_id = _event_id(options, self.new_id)
        if origin.causation_id == event_id:
            raise InvalidEventError(
                f"event {event_id} names itself as its cause; leave causation out, or name another"
            )
        record = Record(
            event_id=event_id,
            tenant_id=origin.tenant,
            namespace=self.namespace,
            event_type=name,
            schema_version=_version(options, declared),
            entity_type=entity[0] if entity else None,
            entity_id=entity[1] if entity else None,
            entity_version=_entity_version(options, entity),
            ordering_key=key,
            partition_key=_optional_key(options, "partition_key") or key,
            payload=text,
            payload_bytes=raw,
            content_type=content_type,
            headers=_headers(options),
            metadata=self._metadata(options),
            correlation_id=origin.correlation_id or str(event_id),
            causation_id=origin.causation_id,
            request_id=origin.request_id,
            idempotency_key=None,
            body_digest=None,
            actor_type=origin.actor.type if origin.actor else None,
            actor_id=origin.actor.id if origin.actor else None,
            actor_name=origin.actor.name if origin.actor else None,
            actor_metadata=_actor_metadata(origin),
            source=origin.source,
            action_id=None,
            action_name=None,
            action_params=None,
            action_started_at=None,
            action_completed_at=None,
            data_subject=_data_subject(options, declared, data),
            keep_seconds=_keep_seconds(options, declared),
            occurred_at=_instant(options, "occurred_at"),
            available_at=_instant(options, "at"),
            available_after_us=_delay(options),
        )
        emission = Emission(
            record=_identified(record, options, declared),
            lock=bool(options.get("lock")),
            sensitive=declared.sensitive if declared else (),
        )
        _check_emission(emission)
        return emission

    def _payload(
        self, options: EmitOptions, data: object, name: str
    ) -> tuple[str, str | None, bytes | None]:
        content_type = options.get("content_type")
        if content_type is None:
            if isinstance(data, bytes | bytearray | memoryview):
                raise InvalidEventError(
                    f"the data of {name!r} is bytes; say what they are, for example "
                    'content_type="image/png"'
                )
            content_type = payloads.JSON_TYPE
        else:
            grammar.content_type(content_type)
        body, text = _body(data, content_type, name)
        if len(body) > self.payload_bytes_max:
            raise EventTooLargeError(
                f"the payload of {name!r}",
                len(body),
                self.payload_bytes_max,
                "store the data elsewhere and emit a reference, or raise payload_bytes_max",
            )
        return (content_type, body.decode(), None) if text else (content_type, None, body)

    def _metadata(self, options: EmitOptions) -> str | None:
        metadata = dict(options.get("metadata") or {})
        if self.trace is not None:
            metadata = {**self.trace(), **metadata}
        if not metadata:
            return None
        text = payloads.encode(metadata)
        if len(text) > METADATA_BYTES_MAX:
            raise EventTooLargeError(
                "the metadata", len(text), METADATA_BYTES_MAX, "put data into the payload"
            )
        return text.decode()


def _declaration(draft: Draft) -> tuple[EventType | None, object]:
    if isinstance(draft.event, str):
        return None, draft.data
    if draft.data is not None:
        raise InvalidEventError(
            f"emit got a {type(draft.event).__qualname__} and data beside it; "
            "give the event object alone, or a name and data"
        )
    return DECLARED.of(draft.event), draft.event


def _body(data: object, content_type: str, name: str) -> tuple[bytes, bool]:
    """Return the payload's bytes, and whether they are JSON text."""
    if payloads.is_json(content_type):
        if isinstance(data, bytes | bytearray | memoryview):
            # Text that somebody else wrote is checked, then kept byte for byte.
            body = bytes(data)
            payloads.load(body)
            return body, True
        return payloads.encode(data), True
    if isinstance(data, str):
        try:
            return data.encode(), False
        except UnicodeEncodeError as error:
            raise EncodingError(
                f"the text of {name!r} holds a lone surrogate at {error.start}"
            ) from error
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), False
    raise EncodingError(
        f"the data of {name!r} is {type(data).__name__}, but {content_type!r} is not JSON; "
        "give bytes or text"
    )


def _key(options: EmitOptions, declared: EventType | None, data: object) -> str | None:
    if "key" in options:
        return _optional_key(options, "key")
    if declared is None or declared.key is None:
        return None
    value = declared.key(data)
    return None if value is None else grammar.key(value, f"key of {declared.name!r}")


def _entity(
    options: EmitOptions,
    declared: EventType | None,
    data: object,
    name: str,
    key: str | None,
) -> tuple[str, str] | None:
    if (given := options.get("entity")) is not None:
        if not isinstance(given, tuple) or len(given) != 2:  # noqa: PLR2004 - a pair
            raise InvalidEventError(f"entity is {given!r}; give a pair: ('order', 42)")
        return grammar.key(given[0], "entity type"), grammar.key(given[1], "entity id")
    if declared is not None and declared.entity is not None and declared.entity_type is not None:
        return declared.entity_type, grammar.key(declared.entity(data), f"entity of {name!r}")
    return (name.partition(".")[0], key) if key is not None else None


def _version(options: EmitOptions, declared: EventType | None) -> int:
    if (version := options.get("version")) is None:
        return declared.version if declared else 1
    if declared is not None:
        raise InvalidEventError(
            f"version= is given for {declared.name!r}, whose class says {declared.version}; "
            "leave it out"
        )
    return _bounded_int(version, "version", 1, VERSION_MAX)


def _entity_version(options: EmitOptions, entity: tuple[str, str] | None) -> int | None:
    if (version := options.get("entity_version")) is None:
        return None
    if entity is None:
        raise InvalidEventError(
            f"entity_version is {version!r} but the event has no entity; give entity= or key="
        )
    return _bounded_int(version, "entity_version", 0, ENTITY_VERSION_MAX)


def _bounded_int(value: object, what: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidEventError(f"{what} is {value!r}; give an integer from {low} to {high}")
    return value


def _event_id(options: EmitOptions, new_id: Callable[[], UUID]) -> UUID:
    given = options.get("id")
    if given is None:
        return new_id()
    try:
        return given if isinstance(given, UUID) else UUID(given)
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidEventError(f"event id {given!r:.60} is not a UUID") from error


def _headers(options: EmitOptions) -> str | None:
    given = options.get("headers")
    return payloads.dump(grammar.headers(given)).decode() if given else None


def _actor_metadata(origin: Origin) -> str | None:
    if origin.actor is None or origin.actor.metadata is None:
        return None
    return payloads.encode(dict(origin.actor.metadata)).decode()


def _data_subject(options: EmitOptions, declared: EventType | None, data: object) -> str | None:
    if "data_subject" in options:
        return _optional_key(options, "data_subject")
    if declared is None or declared.data_subject is None:
        return None
    return grammar.key(declared.data_subject(data), f"data_subject of {declared.name!r}")


def _keep_seconds(options: EmitOptions, declared: EventType | None) -> int | None:
    keep = options.get("keep")
    span = duration(keep) if keep is not None else declared.keep if declared else None
    return None if span is None else int(span.total_seconds())


def _delay(options: EmitOptions) -> int | None:
    if (delay := options.get("delay")) is None:
        return None
    if "at" in options:
        raise InvalidEventError("both delay= and at= are given; give one")
    span = duration(delay)
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def _instant(options: EmitOptions, name: str) -> datetime | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidEventError(
            f"{name} is {value!r}, which has no time zone; give an aware datetime, "
            "for example datetime.now(UTC)"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidEventError(
            f"{name} is {value!r}, which no database can hold in UTC"
        ) from error


def _optional_key(options: EmitOptions, name: str) -> str | None:
    value = options.get(name)
    return None if value is None else grammar.key(value, name)


def _identified(record: Record, options: EmitOptions, declared: EventType | None) -> Record:
    """Add the idempotency key, and the digest that tells a repetition from a mistake."""
    given = options.get("idempotency_key")
    if given is None and "id" not in options:
        return record
    body = record.payload.encode() if record.payload is not None else record.payload_bytes or b""
    digest = _digest(record, body, b"")
    if given is None:
        return msgspec.structs.replace(record, body_digest=digest)
    if given is not True:
        key = grammar.key(given, "idempotency_key")
    elif declared is not None and declared.sensitive:
        raise InvalidEventError(
            f"{declared.name!r} has sensitive fields, and a derived key would hold a hash of them; "
            "give an idempotency_key of your own"
        )
    else:
        key = _derived_key(record, digest)
    return msgspec.structs.replace(record, idempotency_key=key, body_digest=digest)


def _derived_key(record: Record, digest: str) -> str:
    """Return ``entity_type:entity_id:event_type:hash(payload)``, the form the Canon recommends."""
    subject = f"{record.entity_type or ''}:{record.entity_id or ''}:{record.event_type}"
    if len(subject.encode()) + 1 + len(digest) > grammar.KEY_BYTES_MAX:
        subject = hashlib.blake2b(subject.encode(), digest_size=16).hexdigest()
    return f"{subject}:{digest}"


def _digest(record: Record, body: bytes, key: bytes) -> str:
    head = f"{record.event_type}\n{record.schema_version}\n{record.content_type}\n".encode()
    return hashlib.blake2b(head + body, digest_size=16, key=key).hexdigest()


def _check_emission(emission: Emission) -> None:
    record = emission.record
    if emission.lock and record.ordering_key is None:
        raise InvalidEventError("lock=True locks the event's key, but it has none; give key=")
    if emission.sensitive and record.data_subject is None:
        raise InvalidEventError(
            f"{record.event_type!r} has sensitive fields but this event's data_subject is None"
        )


def _unknown_option(name: str) -> ConfigError:
    near = difflib.get_close_matches(name, _OPTIONS, n=1)
    hint = (
        f"; did you mean {near[0]!r}?" if near else f"; options are {', '.join(sorted(_OPTIONS))}"
    )
    return ConfigError(f"emit has no option {name!r}{hint}")
