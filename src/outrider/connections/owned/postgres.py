"""PostgreSQL, by psycopg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from outrider.connections import Connection, Lookup
from outrider.errors import ConfigError, SchemaMismatchError, StoreError, StoreUnavailableError
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan
from outrider.urls import DatabaseUrl

T = TypeVar("T")

CONNECT_SECONDS_MAX = 10

# What a server says that is going away, full, or busy with somebody else's locks.
_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.ReadOnlySqlTransaction,
)
_OUTDATED = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
)


@contextmanager
def connect(
    url: DatabaseUrl,
    schema: str | None,
    *,
    create: bool,  # noqa: ARG001 - who runs a server creates its databases
) -> Iterator[PostgresConnection]:
    """Open *url*; what its parameters or the environment say wins over our defaults."""
    given = _conninfo(url)
    with _translated(url.shown, given.get("password")):
        connection = psycopg.connect(**_defaults() | given, autocommit=True, prepare_threshold=None)
    with connection:
        adapter = Lookup(schema=schema, refuse_autocommit=False).sync(connection)
        yield PostgresConnection(connection, adapter, url.shown)


@dataclass(frozen=True, slots=True)
class PostgresConnection:
    """A psycopg connection in autocommit mode; each run opens its own transaction on it."""

    _tx: psycopg.Connection[Any]
    _adapter: Connection
    _shown: str

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's."""
        return self._adapter.dialect

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* in one transaction, READ COMMITTED whatever the role's default is."""
        return self._run(plan, read_only=None)

    def read(self, plan: Plan[T]) -> T:
        """Run *plan* in one transaction, READ ONLY."""
        return self._run(plan, read_only=True)

    def _run(self, plan: Plan[T], *, read_only: bool | None) -> T:
        with _translated(self._shown, None):
            self._tx.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            self._tx.read_only = read_only
            with self._tx.transaction():
                return self._adapter.run(plan)


def _defaults() -> dict[str, Any]:
    return {
        "fallback_application_name": "outrider",
        "connect_timeout": CONNECT_SECONDS_MAX,
        # A server in SQL_ASCII would otherwise answer in bytes.
        "client_encoding": "UTF8",
    }


def _conninfo(url: DatabaseUrl) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(f"postgresql://{url.rest}"))
    except psycopg.ProgrammingError:
        # The driver's message quotes what it could not read.
        raise ConfigError(
            f"libpq cannot read the parameters of the URL {url.shown}; it knows those of "
            "PostgreSQL's manual, like sslmode and connect_timeout"
        ) from None


@contextmanager
def _translated(shown: str, password: object) -> Iterator[None]:
    try:
        yield
    except _PASSING as error:
        raise StoreUnavailableError(
            f"the database {shown} cannot be used now: {_said(error, password)}\n"
            "  fix: see that the server runs, accepts writes and can be reached from here, "
            "then try again"
        ) from error
    except _OUTDATED as error:
        raise SchemaMismatchError(
            f"the database {shown} lacks something of Outrider's: {_said(error, password)}\n"
            "  fix: outrider migrate (with --schema, if the tables are in a schema of their own)"
        ) from error
    except errors.InsufficientPrivilege as error:
        raise StoreError(
            f"the database {shown} forbids this: {_said(error, password)}\n"
            "  fix: connect as a role that may do it, or let the owner of the tables grant it"
        ) from error
    except psycopg.Error as error:
        raise StoreError(
            f"the database {shown} refused a statement: {_said(error, password)}"
        ) from error


def _said(error: psycopg.Error, password: object) -> str:
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return text.replace(str(password), "***") if password else text
