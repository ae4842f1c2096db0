"""Statements executed by hand leave the same rows as emit, in every style a driver speaks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text

from outrider import Draft, Outbox, UnsupportedConnectionError, event
from outrider.testing.contracts.callers import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outrider.sql.statement import ParamStyle

Statements = list[tuple[str, Any]]

TIME = datetime(2026, 3, 29, 1, 30, 0, 123_456, tzinfo=UTC)
EVENTS = [
    Draft(
        "test_order.placed", {"text": "'%s' :name $1 {0} ü \\", "n": 2**70}, {"occurred_at": TIME}
    ),
    Draft(
        "test_image.stored",
        bytes(range(256)),
        {"content_type": "image/png", "at": TIME + timedelta(days=1), "occurred_at": TIME},
    ),
    Draft(
        "test_order.placed",
        {"n": 1},
        {
            "key": "é ",
            "headers": {"x-a": "%s"},
            "metadata": {"%": ":m"},
            "occurred_at": TIME,
            "tenant": "acme",
            "actor": "user:42",
            "keep": "1d",
        },
    ),
]
GUARDED = [
    Draft(
        "test_order.placed", {"n": n}, {"idempotency_key": f"k{n}", "key": "o", "occurred_at": TIME}
    )
    for n in range(3)
]
LOCKED = [Draft("test_order.placed", {}, {"key": "o", "lock": True, "occurred_at": TIME})]


def with_sqlite3(url: str, statements: Statements) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        for sql, params in statements:
            connection.execute(sql, params)
        connection.commit()


def with_psycopg(url: str, statements: Statements) -> None:
    with psycopg.connect(url) as connection:
        for sql, params in statements:
            connection.execute(sql.encode(), params)


def with_psycopg_in_the_client(url: str, statements: Statements) -> None:
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        for sql, params in statements:
            connection.execute(sql.encode(), params)


def with_psycopg_raw(url: str, statements: Statements) -> None:
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
        for sql, params in statements:
            connection.execute(sql.encode(), params)


async def with_asyncpg(url: str, statements: Statements) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            for sql, params in statements:
                await connection.execute(sql, *params)
    finally:
        await connection.close()


def with_sqlalchemy_text(url: str, statements: Statements) -> None:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for sql, params in statements:
            connection.execute(text(sql), params)
    engine.dispose()


@pytest.mark.parametrize("drafts", [EVENTS, EVENTS[:1], GUARDED, GUARDED[:1], LOCKED])
@pytest.mark.parametrize(
    ("dialect", "style", "execute"),
    [
        ("sqlite", "qmark", with_sqlite3),
        ("sqlite", "named", with_sqlite3),
        ("sqlite", "named", with_sqlalchemy_text),
        ("postgres", "format", with_psycopg),
        ("postgres", "pyformat", with_psycopg),
        ("postgres", "format", with_psycopg_in_the_client),
        ("postgres", "numeric_dollar", with_psycopg_raw),
        ("postgres", "numeric_dollar", with_asyncpg),
        ("postgres", "named", with_sqlalchemy_text),
    ],
)
async def test_statements_executed_by_hand_leave_the_rows_of_emit(
    request: pytest.FixtureRequest,
    dialect: str,
    style: ParamStyle,
    execute: Callable[[str, Statements], Any],
    drafts: Sequence[Draft],
) -> None:
    url: str = request.getfixturevalue(f"migrated_{dialect}_url")
    emitted = rows_after_emit(url, drafts)

    await settled(execute(url, an_outbox().statements(dialect, style, drafts)))

    assert rows_in(url) == emitted
    assert len(emitted) == len(drafts)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_guarded_statement_writes_nothing_where_it_conflicts(
    request: pytest.FixtureRequest, dialect: str
) -> None:
    url: str = request.getfixturevalue(f"migrated_{dialect}_url")
    style: ParamStyle = "qmark" if dialect == "sqlite" else "format"
    execute = with_sqlite3 if dialect == "sqlite" else with_psycopg
    outbox = Outbox(namespace="shop")

    execute(url, outbox.statements(dialect, style, GUARDED[:2]))
    execute(url, outbox.statements(dialect, style, GUARDED))

    assert [row["idempotency_key"] for row in rows_in(url)] == ["k0", "k1", "k2"]


def test_events_whose_key_must_be_read_first_are_refused() -> None:
    @event("test_person.named", sensitive=("name",), data_subject="person_id")
    @dataclass(frozen=True)
    class PersonNamed:
        person_id: str
        name: str

    with pytest.raises(UnsupportedConnectionError, match=r"emit\(\)"):
        Outbox(namespace="shop").statements("sqlite", "qmark", [PersonNamed("1", "Ada")])


def an_outbox() -> Outbox:
    """Answer an outbox whose ids are always the same ones."""
    numbers = count(1)
    return Outbox(namespace="shop", new_id=lambda: UUID(int=next(numbers)))


def rows_after_emit(url: str, drafts: Sequence[Draft]) -> list[dict[str, Any]]:
    with connect(url) as connection:
        an_outbox().emit_many(connection, drafts)
        rows = selected(connection)
        connection.rollback()
    return rows


def rows_in(url: str) -> list[dict[str, Any]]:
    with connect(url) as connection:
        return selected(connection)


def connect(url: str) -> Any:
    if url.startswith("sqlite:"):
        return closing(sqlite3.connect(url.removeprefix("sqlite:///")))
    return psycopg.connect(url)


def selected(connection: Any) -> list[dict[str, Any]]:
    """Answer what was written; positions and the time of writing differ between two tries."""
    cursor = connection.execute("SELECT * FROM outbox_events ORDER BY position")
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [
        {name: value for name, value in row.items() if name not in {"position", "created_at"}}
        for row in rows
    ]
