"""The nouns of the log: what is emitted, where it comes from, and what is read back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar
from uuid import UUID

import msgspec

from outrider import grammar
from outrider.durations import Duration
from outrider.errors import InvalidEventError, shown

E = TypeVar("E")
Json: TypeAlias = Mapping[str, Any]


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who caused an event: a person, an agent or a system."""

    type: str
    id: str
    name: str | None = None
    metadata: Json | None = None

    def __post_init__(self) -> None:
        for name in ("type", "id") if self.name is None else ("type", "id", "name"):
            # Drivers want text, and an id is often given as the integer that it is.
            text = grammar.key(getattr(self, name), f"actor {name}")
            msgspec.structs.force_setattr(self, name, text)

    @classmethod
    def parse(cls, text: str) -> Actor:
        """Read the short form ``kind:id``.

        >>> Actor.parse("user:42")
        Actor(type='user', id='42', name=None, metadata=None)
        """
        kind, separator, identity = text.partition(":")
        if not (separator and kind and identity):
            raise InvalidEventError(f"{text!r} is not an actor; write 'kind:id', like 'user:42'")
        return cls(type=kind, id=identity)


class EventRef(msgspec.Struct, frozen=True, kw_only=True):
    """What ``emit`` returns: the event's identity, known before the commit."""

    id: UUID
    type: str
    correlation_id: str
    duplicate: bool = False
    """True when the idempotency key was used before; ``id`` is then the original's."""


class ActionRef(msgspec.Struct, frozen=True, kw_only=True):
    """The business action an event belongs to."""

    id: UUID
    name: str
    params: str
    started_at: datetime
    completed_at: datetime


class Event(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    """An event as it stands in the log, its payload decoded to the newest version."""

    position: int
    id: UUID
    type: str
    version: int
    data: E
    content_type: str
    payload: bytes
    key: str | None
    partition_key: str | None
    tenant: str | None
    namespace: str
    entity: tuple[str, str] | None
    entity_version: int | None
    headers: Mapping[str, str]
    metadata: Json
    correlation_id: str
    causation_id: UUID | None
    request_id: str | None
    idempotency_key: str | None
    actor: Actor | None
    source: str | None
    action: ActionRef | None
    data_subject: str | None
    keep_seconds: int | None
    time: datetime
    created_at: datetime
    available_at: datetime | None


Cause: TypeAlias = UUID | EventRef | Event[Any]


class EmitOptions(TypedDict, total=False):
    """What can be said of one event beside its data."""

    id: UUID | str
    version: int
    content_type: str
    key: object
    partition_key: object
    entity: tuple[str, object]
    entity_version: int
    headers: Mapping[str, str]
    metadata: Json
    idempotency_key: str | Literal[True]
    delay: Duration
    at: datetime
    occurred_at: datetime
    keep: Duration
    data_subject: object
    lock: bool
    correlation_id: str
    causation: Cause
    actor: Actor | str
    tenant: str
    request_id: str
    source: str


class OriginOptions(TypedDict, total=False):
    """What ``outbox.context`` accepts."""

    correlation_id: str
    causation: Cause
    actor: Actor | str
    tenant: str
    request_id: str
    source: str


class Draft(msgspec.Struct, frozen=True):
    """An event with its options, before it is emitted."""

    event: object
    data: object = None
    options: EmitOptions = msgspec.field(default_factory=EmitOptions)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where events come from: who, why and on whose behalf."""

    correlation_id: str | None = None
    causation_id: UUID | None = None
    actor: Actor | None = None
    tenant: str = ""
    request_id: str | None = None
    source: str | None = None

    def with_options(self, options: OriginOptions | EmitOptions) -> Origin:
        """Return this origin with what *options* name replaced."""
        if not options:
            return self
        changes: dict[str, Any] = {}
        if (cause := options.get("causation")) is not None:
            changes |= _caused_by(cause, self)
        for name in ("correlation_id", "request_id", "source"):
            if (value := options.get(name)) is not None:
                changes[name] = grammar.key(value, name)
        if (tenant := options.get("tenant")) is not None:
            changes["tenant"] = grammar.key(tenant, "tenant")
        if (actor := options.get("actor")) is not None:
            changes["actor"] = _acting(actor)
        return msgspec.structs.replace(self, **changes) if changes else self


def _caused_by(cause: Cause, origin: Origin) -> dict[str, Any]:
    if isinstance(cause, UUID):
        # A root event is its own correlation, so its id is the best guess for the chain's.
        return {
            "causation_id": plain_uuid(cause),
            "correlation_id": origin.correlation_id or str(cause),
        }
    if not isinstance(cause, EventRef | Event):
        raise InvalidEventError(
            f"causation is {shown(cause)}; give an event, what emit() returned, or a UUID"
        )
    return {"causation_id": plain_uuid(cause.id), "correlation_id": cause.correlation_id}


def _acting(actor: Actor | str) -> Actor:
    if isinstance(actor, str):
        return Actor.parse(actor)
    if not isinstance(actor, Actor):
        raise InvalidEventError(f"actor is {shown(actor)}; give 'kind:id', or an Actor")
    return actor


def plain_uuid(value: UUID) -> UUID:
    """Return *value* as a UUID itself: drivers have subclasses that other drivers refuse."""
    return value if type(value) is UUID else UUID(int=value.int)


NOWHERE = Origin()
_origin: ContextVar[Origin] = ContextVar("outrider_origin", default=NOWHERE)


def current_origin() -> Origin:
    """Return where events emitted here and now come from."""
    return _origin.get()


@contextmanager
def originating(options: OriginOptions) -> Iterator[Origin]:
    """Let every event emitted inside come from here; nested uses add to the outer ones."""
    origin = _origin.get().with_options(options)
    token = _origin.set(origin)
    try:
        yield origin
    finally:
        _origin.reset(token)
