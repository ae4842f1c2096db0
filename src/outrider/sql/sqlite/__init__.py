"""SQLite 3.37 and newer: STRICT tables, times as integer microseconds, ids as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from msgspec import structs

from outrider.records import Record
from outrider.sql.dialect import Dialect, load_queries

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def dialect(schema: str | None) -> Dialect:
    """Return SQLite's dialect; *schema* names an attached database."""
    return Dialect(
        name="sqlite",
        schema=schema,
        queries=load_queries("sqlite", schema),
        bulk=False,
        locks_keys=False,
        transactional_ddl=True,
        write=_write,
        row=_row,
        pattern=str,  # GLOB's own form
    )


# The fields of a record that are no plain values; most of them are absent in most records.
_CONVERTED = tuple(
    number
    for number, field in enumerate(structs.fields(Record))
    if {UUID, datetime} & {field.type, *get_args(field.type)}
)


def _row(values: tuple[Any, ...]) -> tuple[Any, ...]:
    row = list(values)
    for number in _CONVERTED:
        if (value := row[number]) is not None:
            row[number] = _microseconds(value) if isinstance(value, datetime) else str(value)
    return tuple(row)


def _microseconds(value: datetime) -> int:
    return (value - _EPOCH) // _MICROSECOND


def _write(params: dict[str, Any]) -> dict[str, Any]:
    # sqlite3 itself writes a bool as 0 or 1.
    for name, value in params.items():
        kind = type(value)
        if kind is datetime:
            params[name] = _microseconds(value)
        elif kind is UUID:
            params[name] = str(value)
    return params
