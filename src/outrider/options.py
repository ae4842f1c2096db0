"""What a caller says of one event beside its data: checked, and as columns of its record."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from outrider import grammar, payloads
from outrider.durations import duration
from outrider.errors import ConfigError, InvalidEventError, shown
from outrider.event_types import VERSION_MAX, EventType
from outrider.events import EmitOptions

ENTITY_VERSION_MAX = 2**63 - 1
_OPTIONS = EmitOptions.__optional_keys__
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# asyncpg writes the very first and the very last moment as infinities, which nobody reads back.
_FIRST = datetime.min.replace(tzinfo=UTC) + timedelta(microseconds=1)
_LAST = datetime.max.replace(tzinfo=UTC) - timedelta(microseconds=1)


def said(
    options: EmitOptions, declared: EventType | None, entity_type: str | None
) -> dict[str, Any]:
    """Return what the caller's options say of a record, without what they leave open."""
    if unknown := options.keys() - _OPTIONS:
        raise _unknown_option(min(unknown))
    said = {
        "event_id": _event_id(options),
        "schema_version": _version(options, declared),
        "partition_key": optional_key(options, "partition_key"),
        "entity_version": _entity_version(options, entity_type),
        "headers": _headers(options),
        "data_subject": optional_key(options, "data_subject"),
        "keep_seconds": _keep_seconds(options),
        "occurred_at": _instant(options, "occurred_at"),
        "available_at": _instant(options, "at"),
        "available_after_us": _delay(options),
    }
    return {name: value for name, value in said.items() if value is not None}


def optional_key(options: EmitOptions, name: str) -> str | None:
    """Return the option *name* as a key, if it is given."""
    value = options.get(name)
    return None if value is None else grammar.key(value, name)


def plain_utc(value: datetime) -> datetime:
    """Return *value* in UTC as a datetime itself: drivers and encoders refuse subclasses."""
    return _EPOCH + (value - _EPOCH)


def _version(options: EmitOptions, declared: EventType | None) -> int | None:
    if (version := options.get("version")) is None:
        return None
    if declared is not None:
        raise InvalidEventError(
            f"version= is given for {declared.name!r}, whose class says {declared.version}; "
            "leave it out"
        )
    return _bounded_int(version, "version", 1, VERSION_MAX)


def _entity_version(options: EmitOptions, entity_type: str | None) -> int | None:
    if (version := options.get("entity_version")) is None:
        return None
    if entity_type is None:
        raise InvalidEventError(
            f"entity_version is {shown(version)} but the event has no entity; give entity= or key="
        )
    return _bounded_int(version, "entity_version", 0, ENTITY_VERSION_MAX)


def _bounded_int(value: object, what: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidEventError(f"{what} is {shown(value)}; give an integer from {low} to {high}")
    return value


def _event_id(options: EmitOptions) -> UUID | None:
    given = options.get("id")
    if given is None or type(given) is UUID:
        return given
    try:
        return UUID(str(given))
    except ValueError as error:
        raise InvalidEventError(f"event id {shown(given)} is not a UUID") from error


def _headers(options: EmitOptions) -> str | None:
    given = options.get("headers")
    return payloads.dump(grammar.headers(given)).decode() if given else None


def _keep_seconds(options: EmitOptions) -> int | None:
    keep = options.get("keep")
    return None if keep is None else int(duration(keep).total_seconds())


def _delay(options: EmitOptions) -> int | None:
    if (delay := options.get("delay")) is None:
        return None
    if options.get("at") is not None:
        raise InvalidEventError("both delay= and at= are given; give one")
    span = duration(delay)
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def _instant(options: EmitOptions, name: str) -> datetime | None:
    value = options.get(name)
    if value is None:
        return None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise InvalidEventError(
            f"{name} is {shown(value)}, which has no time zone; give an aware datetime, "
            "for example datetime.now(UTC)"
        )
    try:
        instant = plain_utc(value)
    except OverflowError:
        instant = None
    if instant is None or not _FIRST <= instant <= _LAST:
        raise InvalidEventError(f"{name} is {shown(value)}, which no database can hold in UTC")
    return instant


def _unknown_option(name: str) -> ConfigError:
    near = difflib.get_close_matches(name, _OPTIONS, n=1)
    hint = (
        f"; did you mean {near[0]!r}?" if near else f"; options are {', '.join(sorted(_OPTIONS))}"
    )
    return ConfigError(f"emit has no option {name!r}{hint}")
