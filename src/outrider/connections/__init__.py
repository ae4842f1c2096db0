"""Run a plan on a connection that belongs to somebody else.

An adapter never opens, begins, commits, rolls back, closes or configures anything. It is found
by the qualified name of the connection's class or of one of its bases, so no driver is imported
before the application itself has imported it, and subclasses work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeAlias, TypeVar

from outrider.errors import NotInTransactionError, UnsupportedConnectionError
from outrider.records import Record
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan

T = TypeVar("T")


class Connection(Protocol):
    """A connection of a driver that blocks."""

    remedy: str
    """How to open a transaction on it."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the database behind it."""
        ...

    def autocommits(self) -> bool:
        """Say whether a write now would commit by itself."""
        ...

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* within the transaction that is open on it."""
        ...


class AsyncConnection(Protocol):
    """A connection of a driver that is awaited."""

    remedy: str

    @property
    def dialect(self) -> Dialect:
        """The dialect of the database behind it."""
        ...

    async def autocommits(self) -> bool:
        """Say whether a write now would commit by itself."""
        ...

    async def run(self, plan: Plan[T]) -> T:
        """Run *plan* within the transaction that is open on it."""
        ...


class UnitOfWork(Protocol):
    """An async session that writes records together with its own objects, without an await."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the database behind it."""
        ...

    def add(self, record: Record) -> None:
        """Let *record* be written with the session's next flush."""
        ...


Factory: TypeAlias = Callable[[Any, "str | None"], Any]
UnitFactory: TypeAlias = Callable[[Any, "str | None", bool], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """The adapters of one class of connections, by the world it belongs to."""

    sync: Factory | None = None
    aio: Factory | None = None
    unit: UnitFactory | None = None


def _lazy(module: str, name: str) -> Callable[..., Any]:
    @cache
    def adapter() -> Any:
        return getattr(import_module(f"outrider.connections.{module}"), name)

    def make(*arguments: Any) -> Any:
        return adapter()(*arguments)

    return make


_SESSION = Adapters(sync=_lazy("sqlalchemy.sync", "SessionConnection"))
_ASYNC_SESSION = Adapters(
    aio=_lazy("sqlalchemy.aio", "AsyncSessionConnection"),
    unit=_lazy("sqlalchemy.aio", "SessionUnitOfWork"),
)
_ASYNCPG = Adapters(aio=_lazy("asyncpg", "AsyncpgConnection"))

KNOWN: Mapping[str, Adapters] = {
    "sqlite3.Connection": Adapters(sync=_lazy("sqlite", "SqliteConnection")),
    "psycopg.Connection": Adapters(sync=_lazy("psycopg", "PsycopgConnection")),
    "psycopg.AsyncConnection": Adapters(aio=_lazy("psycopg", "AsyncPsycopgConnection")),
    "asyncpg.connection.Connection": _ASYNCPG,
    "asyncpg.pool.PoolConnectionProxy": _ASYNCPG,
    "sqlalchemy.engine.base.Connection": Adapters(
        sync=_lazy("sqlalchemy.sync", "SqlalchemyConnection")
    ),
    "sqlalchemy.orm.session.Session": _SESSION,
    "sqlalchemy.orm.scoping.scoped_session": _SESSION,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": Adapters(
        aio=_lazy("sqlalchemy.aio", "AsyncSqlalchemyConnection")
    ),
    "sqlalchemy.ext.asyncio.session.AsyncSession": _ASYNC_SESSION,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _ASYNC_SESSION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Finds the adapter of a connection."""

    schema: str | None = None
    known: Mapping[str, Adapters] = field(default_factory=lambda: KNOWN)
    refuse_autocommit: bool = True
    _found: dict[type, Adapters] = field(default_factory=dict, init=False, repr=False)

    def sync(self, tx: object) -> Connection:
        """Return the adapter of a connection that blocks."""
        found = self._adapters(tx)
        if found.sync is None:
            raise UnsupportedConnectionError(
                f"{_path(type(tx))} is an async connection, and without an await nothing would "
                "happen.\n  fix: the method with the prefix a: await outbox.aemit(connection, …)"
            )
        connection: Connection = found.sync(tx, self.schema)
        if self.refuse_autocommit and connection.autocommits():
            raise not_in_transaction(tx, connection.remedy)
        return connection

    async def aio(self, tx: object) -> AsyncConnection:
        """Return the adapter of a connection that is awaited."""
        found = self._adapters(tx)
        if found.aio is None:
            raise UnsupportedConnectionError(
                f"{_path(type(tx))} is a connection that blocks, and cannot be awaited.\n"
                "  fix: the method without the prefix a: outbox.emit(connection, …)"
            )
        connection: AsyncConnection = found.aio(tx, self.schema)
        if self.refuse_autocommit and await connection.autocommits():
            raise not_in_transaction(tx, connection.remedy)
        return connection

    def unit(self, tx: object) -> UnitOfWork | None:
        """Return the unit of work of *tx*, if it has one."""
        found = self._adapters(tx)
        if found.unit is None:
            return None
        unit: UnitOfWork = found.unit(tx, self.schema, self.refuse_autocommit)
        return unit

    def _adapters(self, tx: object) -> Adapters:
        if (known := self._found.get(type(tx))) is not None:
            return known
        for cls in type(tx).__mro__:
            if found := self.known.get(_path(cls)):
                self._found[type(tx)] = found
                return found
        raise UnsupportedConnectionError(
            f"{_path(type(tx))} is no connection that Outrider knows; known are "
            f"{', '.join(sorted(self.known))}.\n  fix: hand over one of these, register an adapter "
            "(outbox.register), or execute outbox.statements(...) yourself"
        )


def not_in_transaction(tx: object, remedy: str) -> NotInTransactionError:
    """Return the error for a connection that would commit the event by itself."""
    return NotInTransactionError(
        "the connection is in autocommit mode outside a transaction, so the event would be "
        "stored without your data, or your data without the event.\n"
        f"  connection: {_path(type(tx))}\n  fix:        {remedy}"
    )


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
