"""Every kind of connection that Outrider knows, on every database it may lead to."""

from __future__ import annotations

import json
import sqlite3
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row, tuple_row

from outrider.testing.contracts.connections import (
    AsyncConnectionContract,
    ConnectionContract,
    RaceContract,
    SavepointContract,
    UnitOfWorkContract,
)
from tests.contract import callers, kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class OnSqlite:
    dialect = "sqlite"

    @pytest.fixture
    def url(self, migrated_sqlite_url: str) -> str:
        return migrated_sqlite_url


class OnPostgres:
    dialect = "postgres"
    settings: ClassVar[Sequence[str]] = (
        "SET TIME ZONE 'Asia/Kathmandu'",
        "SET DateStyle = 'SQL, DMY'",
        "SET IntervalStyle = 'sql_standard'",
        "SET bytea_output = 'escape'",
        "SET extra_float_digits = -15",
    )

    @pytest.fixture
    def url(self, migrated_postgres_url: str) -> str:
        return migrated_postgres_url


class TestSqlite3(OnSqlite, SavepointContract, ConnectionContract):
    kind = kinds.SQLITE3
    database = "SQLite"
    connect = staticmethod(callers.sqlite3_connection)
    peculiarities: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "rows": lambda tx: setattr(tx, "row_factory", sqlite3.Row),
        "dicts": lambda tx: setattr(tx, "row_factory", lambda _cursor, row: {"row": row}),
        "bytes": lambda tx: setattr(tx, "text_factory", bytes),
    }


class TestSqlalchemyConnectionOnSqlite(OnSqlite, ConnectionContract):
    kind = kinds.CONNECTION
    database = "SQLite"
    connect = staticmethod(partial(callers.sqlalchemy_connection, savepoints=False))


class TestSqlalchemyConnectionWithBegin(OnSqlite, SavepointContract, ConnectionContract):
    kind = kinds.CONNECTION
    database = "SQLite, SQLAlchemy begins"
    connect = staticmethod(callers.sqlalchemy_connection)


class TestSqlalchemySessionOnSqlite(OnSqlite, ConnectionContract):
    kind = kinds.SESSION
    database = "SQLite"
    connect = staticmethod(partial(callers.sqlalchemy_session, savepoints=False))


class TestSqlalchemySessionWithBegin(OnSqlite, SavepointContract, ConnectionContract):
    kind = kinds.SESSION
    database = "SQLite, SQLAlchemy begins"
    connect = staticmethod(callers.sqlalchemy_session)


class TestSqlalchemyScopedSessionOnSqlite(OnSqlite, SavepointContract, ConnectionContract):
    kind = kinds.SCOPED_SESSION
    database = "SQLite, SQLAlchemy begins"
    connect = staticmethod(callers.sqlalchemy_scoped_session)


class TestSqlalchemyConnection(OnPostgres, SavepointContract, RaceContract, ConnectionContract):
    kind = kinds.CONNECTION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(callers.sqlalchemy_connection)


class TestSqlalchemySession(OnPostgres, SavepointContract, RaceContract, ConnectionContract):
    kind = kinds.SESSION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(callers.sqlalchemy_session)


class TestSqlalchemyScopedSession(OnPostgres, SavepointContract, RaceContract, ConnectionContract):
    kind = kinds.SCOPED_SESSION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(callers.sqlalchemy_scoped_session)


class TestAsyncConnectionWithPsycopg(
    OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract
):
    kind = kinds.ASYNC_CONNECTION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(partial(callers.sqlalchemy_async_connection, driver="psycopg"))


class TestAsyncConnectionWithAsyncpg(
    OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract
):
    kind = kinds.ASYNC_CONNECTION
    database = "PostgreSQL by asyncpg"
    connect = staticmethod(partial(callers.sqlalchemy_async_connection, driver="asyncpg"))


class TestAsyncSessionWithPsycopg(
    OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract
):
    kind = kinds.ASYNC_SESSION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(partial(callers.sqlalchemy_async_session, driver="psycopg"))
    joins = True


class TestAsyncSessionWithAsyncpg(
    OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract
):
    kind = kinds.ASYNC_SESSION
    database = "PostgreSQL by asyncpg"
    connect = staticmethod(partial(callers.sqlalchemy_async_session, driver="asyncpg"))
    joins = True


class TestAsyncScopedSessionWithPsycopg(
    OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract
):
    kind = kinds.ASYNC_SCOPED_SESSION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(partial(callers.sqlalchemy_async_scoped_session, driver="psycopg"))
    joins = True


class TestAsyncScopedSessionWithAsyncpg(
    OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract
):
    kind = kinds.ASYNC_SCOPED_SESSION
    database = "PostgreSQL by asyncpg"
    connect = staticmethod(partial(callers.sqlalchemy_async_scoped_session, driver="asyncpg"))
    joins = True


class TestUnawaitedAsyncSessionWithPsycopg(OnPostgres, UnitOfWorkContract):
    kind = kinds.UNAWAITED_SESSION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(partial(callers.sqlalchemy_async_session, driver="psycopg"))


class TestUnawaitedAsyncSessionWithAsyncpg(OnPostgres, UnitOfWorkContract):
    kind = kinds.UNAWAITED_SESSION
    database = "PostgreSQL by asyncpg"
    connect = staticmethod(partial(callers.sqlalchemy_async_session, driver="asyncpg"))


class TestUnawaitedAsyncScopedSessionWithPsycopg(OnPostgres, UnitOfWorkContract):
    kind = kinds.UNAWAITED_SCOPED_SESSION
    database = "PostgreSQL by psycopg"
    connect = staticmethod(partial(callers.sqlalchemy_async_scoped_session, driver="psycopg"))


class TestUnawaitedAsyncScopedSessionWithAsyncpg(OnPostgres, UnitOfWorkContract):
    kind = kinds.UNAWAITED_SCOPED_SESSION
    database = "PostgreSQL by asyncpg"
    connect = staticmethod(partial(callers.sqlalchemy_async_scoped_session, driver="asyncpg"))


PSYCOPG_PECULIARITIES: Mapping[str, Callable[[Any], Any]] = {
    "tuples": lambda tx: setattr(tx, "row_factory", tuple_row),
    "dicts": lambda tx: setattr(tx, "row_factory", dict_row),
    "named tuples": lambda tx: setattr(tx, "row_factory", namedtuple_row),
    "client cursors": lambda tx: setattr(tx, "cursor_factory", psycopg.ClientCursor),
    "raw cursors": lambda tx: setattr(tx, "cursor_factory", psycopg.RawCursor),
    "prepared at once": lambda tx: setattr(tx, "prepare_threshold", 0),
    "never prepared": lambda tx: setattr(tx, "prepare_threshold", None),
}
PSYCOPG_ASYNC_PECULIARITIES: Mapping[str, Callable[[Any], Any]] = {
    **PSYCOPG_PECULIARITIES,
    "client cursors": lambda tx: setattr(tx, "cursor_factory", psycopg.AsyncClientCursor),
    "raw cursors": lambda tx: setattr(tx, "cursor_factory", psycopg.AsyncRawCursor),
}


class TestPsycopg(OnPostgres, SavepointContract, RaceContract, ConnectionContract):
    kind = kinds.PSYCOPG
    database = "PostgreSQL"
    connect = staticmethod(callers.psycopg_connection)
    peculiarities = PSYCOPG_PECULIARITIES


class TestPsycopgPool(OnPostgres, SavepointContract, RaceContract, ConnectionContract):
    kind = kinds.PSYCOPG
    database = "PostgreSQL, from a pool"
    connect = staticmethod(callers.psycopg_pooled)
    peculiarities = PSYCOPG_PECULIARITIES


class TestPsycopgAsync(OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract):
    kind = kinds.PSYCOPG_ASYNC
    database = "PostgreSQL"
    connect = staticmethod(callers.psycopg_async_connection)
    peculiarities = PSYCOPG_ASYNC_PECULIARITIES


class TestPsycopgAsyncPool(OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract):
    kind = kinds.PSYCOPG_ASYNC
    database = "PostgreSQL, from a pool"
    connect = staticmethod(callers.psycopg_async_pooled)
    peculiarities = PSYCOPG_ASYNC_PECULIARITIES


async def json_codec(tx: Any) -> None:
    for name in ("json", "jsonb"):
        await tx.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


async def uuid_codec(tx: Any) -> None:
    await tx.set_type_codec("uuid", encoder=str, decoder=str, schema="pg_catalog")


ASYNCPG_PECULIARITIES: Mapping[str, Callable[[Any], Any]] = {
    "json codec": json_codec,
    "uuid codec": uuid_codec,
}


class TestAsyncpg(OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract):
    kind = kinds.ASYNCPG
    database = "PostgreSQL"
    connect = staticmethod(callers.asyncpg_connection)
    peculiarities = ASYNCPG_PECULIARITIES


class TestAsyncpgPool(OnPostgres, SavepointContract, RaceContract, AsyncConnectionContract):
    kind = kinds.ASYNCPG_PROXY
    database = "PostgreSQL"
    connect = staticmethod(callers.asyncpg_pooled)
    peculiarities = ASYNCPG_PECULIARITIES
