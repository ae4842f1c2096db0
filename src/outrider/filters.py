"""The filter language: ``type:order.* key:42 tenant:acme since:2h``.

One language for the command line, the API and the dashboard. A filter is qualifiers separated
by spaces, all of which must hold::

    filter    = [ term *( spaces term ) ]
    term      = qualifier ":" ( plain / quoted )
    plain     = one or more characters, no space, not beginning with a quotation mark
    quoted    = '"' *( any character but '"' and backslash / backslash any character ) '"'

Unknown qualifiers are errors with the nearest known one, never ignored: a filter that is read
in part selects more than was asked for.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from outrider import grammar
from outrider.durations import duration
from outrider.errors import ConfigError, OutriderError, shown

LENGTH_MAX = 4_096

_NAME = re.compile(r"([a-z_]+):")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"(?!\S)', re.DOTALL)
_PLAIN = re.compile(r'[^\s"]\S*')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PATTERN = re.compile(r"[A-Za-z0-9_.*]{1,200}")
_DATE = re.compile(r"[0-9]{4}-")


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What an event must be to be selected; None selects any.

    ``str()`` writes it as ``parse`` reads it.

    >>> str(Filter(type="order.*", key="a b"))
    'type:order.* key:"a b"'
    """

    id: UUID | None = None
    type: str | None = None
    """A type, or a pattern in which ``*`` stands for any run of characters."""
    tenant: str | None = None
    key: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    idempotency_key: str | None = None
    request_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    action_id: UUID | None = None
    source: str | None = None
    namespace: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __str__(self) -> str:
        return " ".join(
            f"{name}:{_written(getattr(self, qualifier.field))}"
            for name, qualifier in QUALIFIERS.items()
            if qualifier.field and getattr(self, qualifier.field) is not None
        )


class Qualifier(msgspec.Struct, frozen=True, kw_only=True):
    """One qualifier, as its reference page tells it."""

    read: Callable[[str, datetime], Mapping[str, Any]]
    """Return the fields of the Filter that a value sets; the moment is now."""
    field: str = ""
    """The one field it sets; empty for a short form of others."""
    example: str
    says: str


def parse(text: str, *, now: datetime | None = None) -> Filter:
    """Read a filter as people write it; *now* is what durations count back from.

    >>> found = parse("type:order.* entity:order/42")
    >>> found.type, found.entity_type, found.entity_id
    ('order.*', 'order', '42')
    """
    if len(text) > LENGTH_MAX:
        raise ConfigError(
            f"the filter has {len(text)} characters, the limit is {LENGTH_MAX}; select less at once"
        )
    now = now or datetime.now(UTC)
    found: dict[str, Any] = {}
    for at, name, value in _terms(text):
        qualifier = QUALIFIERS.get(name)
        if qualifier is None:
            raise _wrong(at, f"there is no qualifier {name!r}", _nearest(name))
        try:
            changes = qualifier.read(value, now)
        except (ValueError, OverflowError, OutriderError) as error:
            raise _wrong(at, f"{name}:{shown(value)} is wrong", str(error)) from error
        if twice := changes.keys() & found.keys():
            said = min(twice)
            raise _wrong(at, f"{name}: says {said} a second time", "say each once")
        found |= changes
    return Filter(**found)


def _terms(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the terms, each with the place of its first character."""
    at = 0
    end = len(text.rstrip())
    while at < end:
        if text[at].isspace():
            at += 1
            continue
        start = at
        name = _NAME.match(text, at)
        if name is None:
            rest = text[at:end].split(maxsplit=1)[0]
            raise _wrong(
                at, f"{shown(rest)} is no qualifier:value", 'write type:order.* or key:"a b"'
            )
        at = name.end()
        value = _QUOTED.match(text, at) or _PLAIN.match(text, at)
        if value is None:
            raise _wrong(at, *_no_value(text, at))
        quoted = value.re is _QUOTED
        yield start, name[1], _ESCAPED.sub(r"\1", value[1]) if quoted else value[0]
        at = value.end()


def _no_value(text: str, at: int) -> tuple[str, str]:
    if text[at : at + 1] == '"':
        return "the quoted value does not end, or does not end with its mark", (
            'write key:"a b", with \\" for a quotation mark inside'
        )
    return "the value is missing", "write it right after the colon, or leave the qualifier out"


def _wrong(at: int, problem: str, remedy: str) -> ConfigError:
    return ConfigError(f"filter, character {at + 1}: {problem}; {remedy}")


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, QUALIFIERS, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(QUALIFIERS)}"


def _written(value: object) -> str:
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    if _PLAIN.fullmatch(text):
        return text
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


def _type(value: str, _now: datetime) -> Mapping[str, Any]:
    if not _PATTERN.fullmatch(value):
        raise ValueError(
            "a type has letters, digits, '_' and '.', a pattern also '*', at most 200 characters"
        )
    return {"type": value}


def _tenant(value: str, _now: datetime) -> Mapping[str, Any]:
    return {"tenant": grammar.key(value, "tenant") if value else ""}


def _entity(value: str, _now: datetime) -> Mapping[str, Any]:
    kind, separator, identity = value.partition("/")
    found = {"entity_type": grammar.key(kind, "entity type")}
    return found | ({"entity_id": grammar.key(identity, "entity id")} if separator else {})


def _actor(value: str, _now: datetime) -> Mapping[str, Any]:
    kind, separator, identity = value.partition(":")
    found = {"actor_type": grammar.key(kind, "actor type")}
    return found | ({"actor_id": grammar.key(identity, "actor id")} if separator else {})


def _key(name: str) -> Callable[[str, datetime], Mapping[str, Any]]:
    return lambda value, _now: {name: grammar.key(value, name)}


def _id(name: str) -> Callable[[str, datetime], Mapping[str, Any]]:
    return lambda value, _now: {name: _uuid(value)}


def _uuid(value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError as error:
        raise ValueError("it is not a UUID") from error


def _moment(name: str) -> Callable[[str, datetime], Mapping[str, Any]]:
    return lambda value, now: {name: _instant(value, now)}


def _instant(value: str, now: datetime) -> datetime:
    """Read a moment: a duration ago, or an ISO 8601 time (UTC where it names no zone)."""
    if not _DATE.match(value):
        return now - duration(value)
    try:
        at = datetime.fromisoformat(value)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("write 2026-01-31, 2026-01-31T12:00:00Z, or a duration like 2h") from error


QUALIFIERS: Mapping[str, Qualifier] = {
    "id": Qualifier(
        field="id",
        read=_id("id"),
        example="id:0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e",
        says="the event with this id",
    ),
    "type": Qualifier(
        field="type",
        read=_type,
        example="type:order.*",
        says="the event type; `*` stands for any run of characters, dots included",
    ),
    "tenant": Qualifier(
        field="tenant",
        read=_tenant,
        example="tenant:acme",
        says='the tenant; `tenant:""` selects events without one',
    ),
    "key": Qualifier(
        field="key", read=_key("key"), example='key:"a b"', says="the ordering key, byte for byte"
    ),
    "entity": Qualifier(
        read=_entity,
        example="entity:order/42",
        says="the entity's type and id, separated at the first `/`; `entity:order` selects all "
        "orders",
    ),
    "entity_type": Qualifier(
        field="entity_type",
        read=_key("entity_type"),
        example="entity_type:order",
        says="the entity's type alone, for types with a `/`",
    ),
    "entity_id": Qualifier(
        field="entity_id",
        read=_key("entity_id"),
        example="entity_id:42",
        says="the entity's id alone",
    ),
    "correlation": Qualifier(
        field="correlation_id",
        read=_key("correlation_id"),
        example="correlation:0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e",
        says="the correlation id: everything that followed from one cause",
    ),
    "causation": Qualifier(
        field="causation_id",
        read=_id("causation_id"),
        example="causation:0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e",
        says="the id of the event that caused it",
    ),
    "idempotency": Qualifier(
        field="idempotency_key",
        read=_key("idempotency_key"),
        example="idempotency:checkout-17",
        says="the idempotency key",
    ),
    "request": Qualifier(
        field="request_id", read=_key("request_id"), example="request:r-81", says="the request id"
    ),
    "actor": Qualifier(
        read=_actor,
        example="actor:user:42",
        says="who caused it, type and id separated at the first `:`; `actor:user` selects all "
        "users",
    ),
    "actor_type": Qualifier(
        field="actor_type",
        read=_key("actor_type"),
        example="actor_type:user",
        says="the actor's type alone, for types with a `:`",
    ),
    "actor_id": Qualifier(
        field="actor_id",
        read=_key("actor_id"),
        example="actor_id:42",
        says="the actor's id alone",
    ),
    "action": Qualifier(
        field="action_id",
        read=_id("action_id"),
        example="action:0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e",
        says="the id of the action it belongs to",
    ),
    "source": Qualifier(
        field="source", read=_key("source"), example="source:import", says="the source it names"
    ),
    "namespace": Qualifier(
        field="namespace",
        read=_key("namespace"),
        example="namespace:shop",
        says="the service that wrote it",
    ),
    "since": Qualifier(
        field="since",
        read=_moment("since"),
        example="since:2h",
        says="stored at this moment or later: a duration ago, or an ISO 8601 time (UTC where it "
        "names no zone)",
    ),
    "until": Qualifier(
        field="until",
        read=_moment("until"),
        example="until:2026-01-31T12:00:00Z",
        says="stored before this moment, written like `since:`",
    ),
}
"""Every qualifier, by its name."""
