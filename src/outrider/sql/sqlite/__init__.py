"""SQLite 3.37 and newer: STRICT tables, times as integer microseconds, ids as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

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
        pattern=str,  # GLOB's own form
    )


def _write(params: dict[str, Any]) -> dict[str, Any]:
    # sqlite3 itself writes a bool as 0 or 1.
    for name, value in params.items():
        kind = type(value)
        if kind is datetime:
            params[name] = (value - _EPOCH) // _MICROSECOND
        elif kind is UUID:
            params[name] = str(value)
    return params
