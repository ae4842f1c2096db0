"""How an application gets a connection of each kind that Outrider knows."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Any, Self

import asyncpg
import psycopg
import psycopg_pool
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from outrider.testing.contracts.callers import Caller, settled

# --- sqlite3 ----------------------------------------------------------------------------------


class WatchedCursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        self.connection.sent.append(sql)  # type: ignore[attr-defined]
        return super().execute(sql, parameters)

    def executemany(self, sql: str, rows: Any, /) -> Self:
        self.connection.sent.append(sql)  # type: ignore[attr-defined]
        return super().executemany(sql, rows)


class WatchedConnection(sqlite3.Connection):
    """A subclass, as applications have them; it keeps what it executes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sent: list[str] = []

    def cursor(self, factory: Any = WatchedCursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.sent.append(sql)
        return super().execute(sql, parameters)


@asynccontextmanager
async def sqlite3_connection(url: str, /, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    connection = sqlite3.connect(
        url.removeprefix("sqlite:///"),
        isolation_level=None if autocommit else "DEFERRED",
        factory=WatchedConnection,
    )
    with closing(connection):
        if not autocommit:
            connection.execute("BEGIN")
        yield Caller(
            tx=connection,
            run=lambda sql: connection.execute(sql).fetchall(),
            commit=connection.commit,
            rollback=connection.rollback,
            savepoint=partial(_sqlite3_savepoint, connection),
            in_transaction=lambda: connection.in_transaction,
            statements=lambda: connection.sent,
        )
        connection.rollback()


@contextmanager
def _sqlite3_savepoint(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("SAVEPOINT here")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK TO here")
        raise
    finally:
        connection.execute("RELEASE here")


# --- psycopg ----------------------------------------------------------------------------------


@asynccontextmanager
async def psycopg_connection(url: str, /, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    with psycopg.connect(url, autocommit=autocommit) as connection:
        async with _psycopg_caller(connection, _fetched, autocommit=autocommit) as caller:
            yield caller
        connection.rollback()


@asynccontextmanager
async def psycopg_pooled(url: str, /, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    options = {"autocommit": autocommit}
    with (
        psycopg_pool.ConnectionPool(url, min_size=1, max_size=1, kwargs=options, open=True) as pool,
        pool.connection() as connection,
    ):
        async with _psycopg_caller(connection, _fetched, autocommit=autocommit) as caller:
            yield caller
        connection.rollback()


@asynccontextmanager
async def psycopg_async_connection(
    url: str, /, *, autocommit: bool = False
) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=autocommit) as connection:
        async with _psycopg_caller(connection, _afetched, autocommit=autocommit) as caller:
            yield caller
        await connection.rollback()


@asynccontextmanager
async def psycopg_async_pooled(url: str, /, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    options = {"autocommit": autocommit}
    async with (
        psycopg_pool.AsyncConnectionPool(
            url, min_size=1, max_size=1, kwargs=options, open=False
        ) as pool,
        pool.connection() as connection,
    ):
        async with _psycopg_caller(connection, _afetched, autocommit=autocommit) as caller:
            yield caller
        await connection.rollback()


@asynccontextmanager
async def _psycopg_caller(
    connection: Any, fetched: Any, *, autocommit: bool
) -> AsyncIterator[Caller]:
    if not autocommit:
        await settled(fetched(connection, "SELECT 1"))
    with tempfile.TemporaryFile() as trace:
        # libpq itself says what it sends.
        connection.pgconn.trace(trace.fileno())
        yield Caller(
            tx=connection,
            run=partial(fetched, connection),
            commit=connection.commit,
            rollback=connection.rollback,
            savepoint=connection.transaction,
            in_transaction=lambda: connection.info.transaction_status == TransactionStatus.INTRANS,
            statements=lambda: _executions(trace),
        )
        connection.pgconn.untrace()


def _fetched(connection: psycopg.Connection[Any], sql: str) -> Any:
    cursor = connection.execute(sql.encode())
    return cursor.fetchall() if cursor.description else ()


async def _afetched(connection: psycopg.AsyncConnection[Any], sql: str) -> Any:
    cursor = await connection.execute(sql.encode())
    return await cursor.fetchall() if cursor.description else ()


def _executions(trace: Any) -> list[str]:
    trace.seek(0)
    return re.findall(r"\tF\t\d+\t((?:Query|Execute)\t.*)", trace.read().decode())


# --- asyncpg ----------------------------------------------------------------------------------


@asynccontextmanager
async def asyncpg_connection(url: str, /, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    try:
        async with _asyncpg_caller(connection, autocommit=autocommit) as caller:
            yield caller
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str, /, *, autocommit: bool = False) -> AsyncIterator[Caller]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        _asyncpg_caller(connection, autocommit=autocommit) as caller,
    ):
        yield caller


@asynccontextmanager
async def _asyncpg_caller(connection: Any, *, autocommit: bool) -> AsyncIterator[Caller]:
    sent: list[str] = []

    def note(query: asyncpg.connection.LoggedQuery) -> None:
        sent.append(query.query)

    connection.add_query_logger(note)
    transaction = connection.transaction()
    if not autocommit:
        await transaction.start()
    yield Caller(
        tx=connection,
        run=connection.fetch,
        commit=transaction.commit,
        rollback=transaction.rollback,
        savepoint=connection.transaction,
        in_transaction=connection.is_in_transaction,
        statements=lambda: sent,
    )
    if connection.is_in_transaction():
        await transaction.rollback()
    connection.remove_query_logger(note)


# --- SQLAlchemy -------------------------------------------------------------------------------


@asynccontextmanager
async def sqlalchemy_connection(
    url: str, /, *, autocommit: bool = False, savepoints: bool = True
) -> AsyncIterator[Caller]:
    with (
        _engine(url, autocommit=autocommit, savepoints=savepoints) as (engine, sent),
        engine.connect() as connection,
    ):
        if not autocommit:
            connection.begin()
        yield Caller(
            tx=connection,
            run=lambda sql: _rows(connection.exec_driver_sql(sql)),
            commit=connection.commit,
            rollback=connection.rollback,
            savepoint=connection.begin_nested,
            in_transaction=connection.in_transaction,
            statements=lambda: sent,
        )


@asynccontextmanager
async def sqlalchemy_session(
    url: str, /, *, autocommit: bool = False, savepoints: bool = True
) -> AsyncIterator[Caller]:
    with (
        _engine(url, autocommit=autocommit, savepoints=savepoints) as (engine, sent),
        Session(engine) as session,
    ):
        session.connection()
        yield _session_caller(session, sent)


@asynccontextmanager
async def sqlalchemy_scoped_session(
    url: str, /, *, autocommit: bool = False, savepoints: bool = True
) -> AsyncIterator[Caller]:
    with _engine(url, autocommit=autocommit, savepoints=savepoints) as (engine, sent):
        session = scoped_session(sessionmaker(engine), scopefunc=lambda: "request")
        try:
            session.connection()
            yield _session_caller(session, sent)
        finally:
            session.remove()


@asynccontextmanager
async def sqlalchemy_async_connection(
    url: str, /, *, autocommit: bool = False, driver: str
) -> AsyncIterator[Caller]:
    async with (
        _async_engine(url, driver, autocommit=autocommit) as (engine, sent),
        engine.connect() as connection,
    ):
        if not autocommit:
            _ = await connection.begin()
        yield Caller(
            tx=connection,
            run=partial(_run_async, connection),
            commit=connection.commit,
            rollback=connection.rollback,
            savepoint=connection.begin_nested,
            in_transaction=connection.in_transaction,
            statements=lambda: sent,
        )


@asynccontextmanager
async def sqlalchemy_async_session(
    url: str, /, *, autocommit: bool = False, driver: str
) -> AsyncIterator[Caller]:
    async with (
        _async_engine(url, driver, autocommit=autocommit) as (engine, sent),
        AsyncSession(engine) as session,
    ):
        _ = await session.connection()
        yield _async_session_caller(session, sent)


@asynccontextmanager
async def sqlalchemy_async_scoped_session(
    url: str, /, *, autocommit: bool = False, driver: str
) -> AsyncIterator[Caller]:
    async with _async_engine(url, driver, autocommit=autocommit) as (engine, sent):
        session = async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: "request")
        try:
            _ = await session.connection()
            yield _async_session_caller(session, sent)
        finally:
            await session.remove()


def _session_caller(session: Session | scoped_session[Session], sent: list[str]) -> Caller:
    return Caller(
        tx=session,
        run=lambda sql: _rows(session.connection().exec_driver_sql(sql)),
        commit=session.commit,
        rollback=session.rollback,
        savepoint=session.begin_nested,
        in_transaction=session().in_transaction
        if isinstance(session, scoped_session)
        else session.in_transaction,
        statements=lambda: sent,
        flush=session.flush,
    )


def _async_session_caller(
    session: AsyncSession | async_scoped_session[AsyncSession], sent: list[str]
) -> Caller:
    async def run(sql: str) -> Any:
        return await _run_async(await session.connection(), sql)

    return Caller(
        tx=session,
        run=run,
        commit=session.commit,
        rollback=session.rollback,
        savepoint=session.begin_nested,
        in_transaction=session().in_transaction
        if isinstance(session, async_scoped_session)
        else session.in_transaction,
        statements=lambda: sent,
        flush=session.flush,
    )


@contextmanager
def _engine(url: str, *, autocommit: bool, savepoints: bool) -> Iterator[tuple[Engine, list[str]]]:
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    engine = create_engine(_sqlalchemy_url(url, "psycopg"), poolclass=NullPool, **options)
    if engine.dialect.name == "sqlite" and savepoints and not autocommit:
        _let_sqlalchemy_begin(engine)
    with _watched(engine) as sent:
        yield engine, sent
    engine.dispose()


@asynccontextmanager
async def _async_engine(
    url: str, driver: str, *, autocommit: bool
) -> AsyncIterator[tuple[AsyncEngine, list[str]]]:
    options: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"} if autocommit else {}
    engine = create_async_engine(_sqlalchemy_url(url, driver), poolclass=NullPool, **options)
    with _watched(engine.sync_engine) as sent:
        yield engine, sent
    await engine.dispose()


def _sqlalchemy_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


def _let_sqlalchemy_begin(engine: Engine) -> None:
    """Apply SQLAlchemy's own recipe for savepoints on SQLite."""

    @event.listens_for(engine, "connect")
    def leave_begin_alone(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")


@contextmanager
def _watched(engine: Engine) -> Iterator[list[str]]:
    sent: list[str] = []

    def note(*execution: Any) -> None:
        sent.append(execution[2])

    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)


async def _run_async(connection: AsyncConnection, sql: str) -> Any:
    return _rows(await connection.exec_driver_sql(sql))


def _rows(result: Any) -> Any:
    return result.fetchall() if result.returns_rows else ()
