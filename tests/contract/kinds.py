"""The kinds of connections that the suite runs, in the words of docs/reference/connections.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One way in which an application hands over its transaction."""

    title: str
    recognised: str
    """The qualified name of the class; subclasses count too."""
    commits_by_itself: str
    write: str


_SQLALCHEMY = "the isolation level is AUTOCOMMIT, wherever it was set"
_SQLALCHEMY_SYNC = f"{_SQLALCHEMY}; on SQLite also `isolation_level=None` without a BEGIN"

SQLITE3 = Kind(
    title="sqlite3",
    recognised="sqlite3.Connection",
    commits_by_itself="`isolation_level=None` or `autocommit=True`, and nothing has begun",
    write="outbox.emit(connection, event)",
)
CONNECTION = Kind(
    title="SQLAlchemy Connection",
    recognised="sqlalchemy.engine.base.Connection",
    commits_by_itself=_SQLALCHEMY_SYNC,
    write="outbox.emit(connection, event)",
)
SESSION = Kind(
    title="SQLAlchemy Session",
    recognised="sqlalchemy.orm.session.Session",
    commits_by_itself=_SQLALCHEMY_SYNC,
    write="outbox.emit(session, event)",
)
SCOPED_SESSION = Kind(
    title="SQLAlchemy scoped_session",
    recognised="sqlalchemy.orm.scoping.scoped_session",
    commits_by_itself=_SQLALCHEMY_SYNC,
    write="outbox.emit(session, event)",
)
ASYNC_CONNECTION = Kind(
    title="SQLAlchemy AsyncConnection",
    recognised="sqlalchemy.ext.asyncio.engine.AsyncConnection",
    commits_by_itself=_SQLALCHEMY,
    write="await outbox.aemit(connection, event)",
)
ASYNC_SESSION = Kind(
    title="SQLAlchemy AsyncSession",
    recognised="sqlalchemy.ext.asyncio.session.AsyncSession",
    commits_by_itself=_SQLALCHEMY,
    write="await outbox.aemit(session, event)",
)
ASYNC_SCOPED_SESSION = Kind(
    title="SQLAlchemy async_scoped_session",
    recognised="sqlalchemy.ext.asyncio.scoping.async_scoped_session",
    commits_by_itself=_SQLALCHEMY,
    write="await outbox.aemit(session, event)",
)
UNAWAITED_SESSION = Kind(
    title="SQLAlchemy AsyncSession, without await",
    recognised="sqlalchemy.ext.asyncio.session.AsyncSession",
    commits_by_itself=f"{_SQLALCHEMY}; refused at the flush",
    write="outbox.emit(session, event)",
)
UNAWAITED_SCOPED_SESSION = Kind(
    title="SQLAlchemy async_scoped_session, without await",
    recognised="sqlalchemy.ext.asyncio.scoping.async_scoped_session",
    commits_by_itself=f"{_SQLALCHEMY}; refused at the flush",
    write="outbox.emit(session, event)",
)
PSYCOPG = Kind(
    title="psycopg",
    recognised="psycopg.Connection",
    commits_by_itself="`autocommit=True`, and nothing has begun",
    write="outbox.emit(connection, event)",
)
PSYCOPG_ASYNC = Kind(
    title="psycopg, async",
    recognised="psycopg.AsyncConnection",
    commits_by_itself="`autocommit=True`, and nothing has begun",
    write="await outbox.aemit(connection, event)",
)
ASYNCPG = Kind(
    title="asyncpg",
    recognised="asyncpg.connection.Connection",
    commits_by_itself="nothing has begun",
    write="await outbox.aemit(connection, event)",
)
ASYNCPG_PROXY = Kind(
    title="asyncpg, from a pool",
    recognised="asyncpg.pool.PoolConnectionProxy",
    commits_by_itself="nothing has begun",
    write="await outbox.aemit(connection, event)",
)
