"""The filter language: ``type:order.* key:42 tenant:acme since:2h``.

One language for the command line, the API and the dashboard. A filter is qualifiers separated
by spaces, all of which must hold; a value with spaces is quoted. Unknown qualifiers are errors
with the nearest known one, never ignored.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from outrider import grammar
from outrider.durations import duration
from outrider.errors import ConfigError, OutriderError

_TERM = re.compile(r'\s*([a-z_]+):(?:"((?:[^"\\]|\\.)*)"|(\S*))(?=\s|$)')
_PATTERN = re.compile(r"[A-Za-z0-9_.*]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What an event must be to be selected; None selects any."""

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


def parse(text: str, *, now: datetime | None = None) -> Filter:
    """Read a filter as people write it.

    >>> parse('type:order.* entity:order/42')
    ... # doctest: +ELLIPSIS
    Filter(type='order.*', tenant=None, key=None, entity_type='order', entity_id='42', ...)
    """
    found: dict[str, Any] = {}
    for name, value in _terms(text):
        read = _QUALIFIERS.get(name)
        if read is None:
            raise _unknown(name)
        try:
            changes = read(value, now or datetime.now(UTC))
        except (ValueError, OutriderError) as error:
            raise ConfigError(f"filter {name}:{value!r} is wrong: {error}") from error
        if twice := changes.keys() & found.keys():
            raise ConfigError(f"filter {text!r} says {min(twice)} twice; each qualifier once")
        found |= changes
    return replace(Filter(), **found)


def _terms(text: str) -> list[tuple[str, str]]:
    terms, at = [], 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TERM.match(stripped, at)
        if match is None:
            raise ConfigError(
                f"filter {text!r} cannot be read from {stripped[at:].lstrip()[:20]!r}; "
                'write qualifier:value, like type:order.* or key:"a b"'
            )
        quoted = match[2]
        value = match[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        terms.append((match[1], value))
        at = match.end()
    return terms


def _unknown(name: str) -> ConfigError:
    near = difflib.get_close_matches(name, _QUALIFIERS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_QUALIFIERS)}"
    return ConfigError(f"no filter qualifier {name!r}; {hint}")


def _type(value: str, _now: datetime) -> Mapping[str, Any]:
    if not _PATTERN.fullmatch(value):
        raise ValueError("a pattern has letters, digits, '_', '.' and '*'")
    return {"type": value}


def _entity(value: str, _now: datetime) -> Mapping[str, Any]:
    kind, separator, identity = value.partition("/")
    if not separator:
        raise ValueError("write type/id, like order/42")
    return {
        "entity_type": grammar.key(kind, "entity type"),
        "entity_id": grammar.key(identity, "entity id"),
    }


def _actor(value: str, _now: datetime) -> Mapping[str, Any]:
    kind, separator, identity = value.partition(":")
    found = {"actor_type": grammar.key(kind, "actor type")}
    return found | ({"actor_id": grammar.key(identity, "actor id")} if separator else {})


def _key(name: str) -> Callable[[str, datetime], Mapping[str, Any]]:
    return lambda value, _now: {name: grammar.key(value, name)}


def _id(name: str) -> Callable[[str, datetime], Mapping[str, Any]]:
    return lambda value, _now: {name: UUID(value)}


def _moment(name: str) -> Callable[[str, datetime], Mapping[str, Any]]:
    return lambda value, now: {name: _instant(value, now)}


def _instant(value: str, now: datetime) -> datetime:
    """Read a moment: a duration ago, or an ISO 8601 time (UTC where it names no zone)."""
    if value[:4].isdigit() and "-" in value:
        at = datetime.fromisoformat(value)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    return now - duration(value)


_QUALIFIERS: Mapping[str, Callable[[str, datetime], Mapping[str, Any]]] = {
    "type": _type,
    "tenant": _key("tenant"),
    "key": _key("key"),
    "entity": _entity,
    "correlation": _key("correlation_id"),
    "causation": _id("causation_id"),
    "idempotency": _key("idempotency_key"),
    "request": _key("request_id"),
    "actor": _actor,
    "action": _id("action_id"),
    "source": _key("source"),
    "namespace": _key("namespace"),
    "since": _moment("since"),
    "until": _moment("until"),
}
