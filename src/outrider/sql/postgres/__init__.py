"""PostgreSQL 14 and newer."""

from __future__ import annotations

from typing import Any

from outrider.sql.dialect import Dialect, load_queries


def dialect(schema: str | None) -> Dialect:
    """Return PostgreSQL's dialect, bound to *schema*."""
    return Dialect(
        name="postgres",
        schema=schema,
        queries=load_queries("postgres", schema),
        bulk=True,
        locks_keys=True,
        transactional_ddl=True,
        write=_write,
        row=tuple,
        pattern=_regex,
        prelude=(f'CREATE SCHEMA IF NOT EXISTS "{schema}";',) if schema else (),
    )


def _write(params: dict[str, Any]) -> dict[str, Any]:
    # Every driver of PostgreSQL takes UUID, datetime and bytes as they are.
    return params


def _regex(pattern: str) -> str:
    return "^" + pattern.replace(".", r"\.").replace("*", ".*") + "$"
