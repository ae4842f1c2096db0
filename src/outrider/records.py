"""A draft becomes a record: the row of the log as it will be written, checked and complete.

Pure: nothing here knows a database. Whatever the caller got wrong is refused here, before the
first statement, so a refused emit leaves the transaction exactly as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from outrider import grammar, payloads
from outrider.errors import (
    EncodingError,
    EventTooLargeError,
    InvalidEventError,
    shown,
)
from outrider.event_types import DECLARED, EventType
from outrider.events import NOWHERE, Draft, EmitOptions, EventRef, Origin
from outrider.options import optional_key, said

METADATA_BYTES_MAX = 16 * 1024
PAYLOAD_BYTES_MAX = 256 * 1024
_SEALED_KEY = f'"{payloads.SEALED}":'.encode()

Seal: TypeAlias = Callable[[bytes, str], str]


class Record(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One row of the log, as an INSERT sees it: its fields are `emit`'s parameters, in order."""

    event_id: UUID
    tenant_id: str
    namespace: str
    event_type: str
    schema_version: int
    entity_type: str | None = None
    entity_id: str | None = None
    entity_version: int | None = None
    ordering_key: str | None = None
    partition_key: str | None = None
    payload: str | None = None
    payload_bytes: bytes | None = None
    content_type: str
    headers: str | None = None
    metadata: str | None = None
    correlation_id: str
    causation_id: UUID | None = None
    request_id: str | None = None
    idempotency_key: str | None = None
    body_digest: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    actor_metadata: str | None = None
    source: str | None = None
    action_id: UUID | None = None
    action_name: str | None = None
    action_params: str | None = None
    action_started_at: datetime | None = None
    action_completed_at: datetime | None = None
    data_subject: str | None = None
    keep_seconds: int | None = None
    occurred_at: datetime | None = None
    available_at: datetime | None = None
    available_after_us: int | None = None

    @property
    def reference(self) -> EventRef:
        """The identity of the event."""
        return EventRef(id=self.event_id, type=self.event_type, correlation_id=self.correlation_id)


class Emission(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
        # `guarded` spelled out: this is asked of every event, between two commits.
        record = self.record
        return (
            record.body_digest is not None
            or record.entity_version is not None
            or self.lock
            or bool(self.sensitive)
        )

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
    trace: Callable[[], Mapping[str, str] | None] | None = None

    def emission(self, draft: Draft, origin: Origin) -> Emission:
        """Check *draft* and return what to write."""
        options = draft.options
        declared, data = _declaration(draft)
        name = declared.name if declared else grammar.event_type(draft.event)
        key = _key(options, declared, data)
        entity_type, entity_id = _entity(options, declared, data, name, key)
        content_type, text, raw = self._payload(options, data, name)
        event_id = self.new_id()
        version = declared.version if declared else _newest_version(name)
        partition_key = key
        # Most events have no options, no origin and no trace, and then nothing is looked at:
        # what a call costs is felt here, between two commits.
        extras = _declared(declared, data) if declared and declared.says_more else {}
        if options:
            extras |= said(options, declared, entity_type)
            event_id = extras.pop("event_id", event_id)
            version = extras.pop("schema_version", version)
            partition_key = extras.pop("partition_key", key)
            origin = origin.with_options(options)
        if origin is not NOWHERE:
            extras |= _origin(origin, event_id)
        trace = self.trace() if self.trace else None
        if options or trace:
            extras["metadata"] = _metadata(options, trace)
        record = Record(
            event_id=event_id,
            tenant_id=origin.tenant,
            namespace=self.namespace,
            event_type=name,
            schema_version=version,
            entity_type=entity_type,
            entity_id=entity_id,
            ordering_key=key,
            partition_key=partition_key,
            payload=text,
            payload_bytes=raw,
            content_type=content_type,
            correlation_id=origin.correlation_id or str(event_id),
            **extras,
        )
        sensitive = declared.sensitive if declared else ()
        if sensitive:
            _check_sensitive(sensitive, data, record)
        if not options:
            return Emission(record=record, sensitive=sensitive)
        record = _identified(record, options, sensitive=bool(sensitive))
        return Emission(record=record, lock=_lock(options, record), sensitive=sensitive)

    def _payload(
        self, options: EmitOptions, data: object, name: str
    ) -> tuple[str, str | None, bytes | None]:
        content_type = options.get("content_type")
        if content_type is not None:
            content_type = grammar.content_type(content_type)
            body, text = _body(data, content_type, name)
        elif isinstance(data, bytes | bytearray | memoryview):
            raise InvalidEventError(
                f"the data of {name!r} is bytes; say what they are, for example "
                'content_type="image/png"'
            )
        else:
            content_type, body, text = payloads.JSON_TYPE, payloads.encode(data), True
        if len(body) > self.payload_bytes_max:
            raise EventTooLargeError(
                f"the payload of {name!r}",
                len(body),
                self.payload_bytes_max,
                "store the data elsewhere and emit a reference, or raise payload_bytes_max",
            )
        if not text:
            return content_type, None, body
        if _SEALED_KEY in body:
            raise _reserved(name)
        return content_type, body.decode(), None


def small_json(data: object, what: str) -> str:
    """Return *data* as JSON text that is small enough to stand beside the payload."""
    text = payloads.encode(data)
    if len(text) > METADATA_BYTES_MAX:
        raise EventTooLargeError(what, len(text), METADATA_BYTES_MAX, "put data into the payload")
    return text.decode()


def _metadata(options: EmitOptions, trace: Mapping[str, str] | None) -> str | None:
    given = options.get("metadata")
    if given is not None and not isinstance(given, Mapping):
        raise InvalidEventError(f"metadata is {shown(given)}; give a mapping")
    metadata = {**(trace or {}), **(given or {})}
    return small_json(metadata, "the metadata") if metadata else None


def _declaration(draft: Draft) -> tuple[EventType | None, object]:
    if isinstance(draft.event, str):
        named = DECLARED.named(draft.event)
        if named is not None and named.sensitive:
            raise InvalidEventError(
                f"{named.name!r} has sensitive fields, so it is emitted as an object of "
                f"{named.cls.__qualname__}, not as a name and data"
            )
        return None, draft.data
    if draft.data is not None:
        raise InvalidEventError(
            f"emit got a {type(draft.event).__qualname__} and data beside it; "
            "give the event object alone, or a name and data"
        )
    return DECLARED.of(draft.event), draft.event


def _newest_version(name: str) -> int:
    # Data given by name is in the newest shape too, or readers would upcast it once more.
    known = DECLARED.named(name)
    return known.version if known else 1


def _body(data: object, content_type: str, name: str) -> tuple[bytes, bool]:
    """Return the payload's bytes, and whether they are JSON text."""
    if payloads.is_json(content_type):
        if isinstance(data, bytes | bytearray | memoryview):
            # Text that somebody else wrote is checked, then kept byte for byte.
            body = bytes(data)
            if _SEALED_KEY in payloads.dump(payloads.load(body)):
                raise _reserved(name)
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


def _reserved(name: str) -> InvalidEventError:
    return InvalidEventError(
        f"the payload of {name!r} has a field {payloads.SEALED!r}, which marks encrypted "
        "values; give the field another name"
    )


def _check_sensitive(sensitive: Sequence[str], data: object, record: Record) -> None:
    assert record.data_subject is not None
    body = payloads.load((record.payload or "null").encode())
    for field in sensitive:
        if not isinstance(body, dict) or (field not in body and getattr(data, field) is not None):
            raise InvalidEventError(
                f"field {field!r} of {record.event_type!r} is sensitive, but the payload does not "
                "show it under its name, so it would not be encrypted; do not rename, alias, omit "
                "or flatten it"
            )


def _key(options: EmitOptions, declared: EventType | None, data: object) -> str | None:
    if "key" in options:
        return optional_key(options, "key")
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
) -> tuple[str, str] | tuple[None, None]:
    if (given := options.get("entity")) is not None:
        if not isinstance(given, tuple) or len(given) != 2:  # noqa: PLR2004 - a pair
            raise InvalidEventError(f"entity is {shown(given)}; give a pair: ('order', 42)")
        return grammar.key(given[0], "entity type"), grammar.key(given[1], "entity id")
    if declared is not None and declared.entity is not None and declared.entity_type is not None:
        return declared.entity_type, grammar.key(declared.entity(data), f"entity of {name!r}")
    return (None, None) if key is None else (name.partition(".")[0], key)


def _origin(origin: Origin, event_id: UUID) -> dict[str, Any]:
    if origin.causation_id == event_id:
        raise InvalidEventError(
            f"event {event_id} names itself as its cause; leave causation out, or name another"
        )
    found: dict[str, Any] = {
        "causation_id": origin.causation_id,
        "request_id": origin.request_id,
        "source": origin.source,
    }
    if (actor := origin.actor) is not None:
        found |= {"actor_type": actor.type, "actor_id": actor.id, "actor_name": actor.name}
        if actor.metadata is not None:
            found["actor_metadata"] = small_json(dict(actor.metadata), "the actor's metadata")
    return found


def _declared(declared: EventType, data: object) -> dict[str, Any]:
    """Return what the event's class says of a record."""
    found: dict[str, Any] = {}
    if declared.keep is not None:
        found["keep_seconds"] = int(declared.keep.total_seconds())
    if declared.data_subject is not None:
        subject = declared.data_subject(data)
        found["data_subject"] = grammar.key(subject, f"data_subject of {declared.name!r}")
    return found


def _identified(record: Record, options: EmitOptions, *, sensitive: bool) -> Record:
    """Add the idempotency key, and the digest that tells a repetition from a mistake."""
    given = options.get("idempotency_key")
    if given is None and options.get("id") is None:
        return record
    body = record.payload.encode() if record.payload is not None else record.payload_bytes or b""
    digest = _digest(record, body, b"")
    if given is None:
        return msgspec.structs.replace(record, body_digest=digest)
    if given is not True:
        key = grammar.key(given, "idempotency_key")
    elif sensitive:
        raise InvalidEventError(
            f"{record.event_type!r} has sensitive fields, and a derived key would hold a hash of "
            "them; give an idempotency_key of your own"
        )
    else:
        key = _derived_key(record, digest)
    return msgspec.structs.replace(record, idempotency_key=key, body_digest=digest)


def _derived_key(record: Record, digest: str) -> str:
    """Return ``entity_type:entity_id:event_type:hash(payload)``."""
    subject = f"{record.entity_type or ''}:{record.entity_id or ''}:{record.event_type}"
    if len(subject.encode()) + 1 + len(digest) > grammar.KEY_BYTES_MAX:
        subject = hashlib.blake2b(subject.encode(), digest_size=16).hexdigest()
    return f"{subject}:{digest}"


def _digest(record: Record, body: bytes, key: bytes) -> str:
    head = f"{record.event_type}\n{record.schema_version}\n{record.content_type}\n".encode()
    return hashlib.blake2b(head + body, digest_size=16, key=key).hexdigest()


def _lock(options: EmitOptions, record: Record) -> bool:
    lock = bool(options.get("lock"))
    if lock and record.ordering_key is None:
        raise InvalidEventError("lock=True locks the event's key, but it has none; give key=")
    return lock
