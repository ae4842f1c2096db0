"""Run a plan on a connection that belongs to somebody else.

An adapter never opens, begins, commits, rolls back, closes or configures anything. It is found
by the qualified name of the connection's class or of one of its bases, so no driver is imported
before the application itself has imported it, and subclasses work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from outrider.errors import NotInTransactionError, UnsupportedConnectionError
from outrider.records import Record
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan, Rows, Step

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

    def execute(self, step: Step) -> Rows:
        """Execute one statement of a plan."""
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


class Adapters(msgspec.Struct, frozen=True, kw_only=True):
    """The adapters of one class of connections, by the world it belongs to.

    Ours are written ``module:class`` and imported with the first connection of that class.
    """

    sync: Factory | str | None = None
    aio: Factory | str | None = None
    unit: UnitFactory | str | None = None


_SESSION = Adapters(sync="sqlalchemy.sync:SessionConnection")
_ASYNC_SESSION = Adapters(
    aio="sqlalchemy.aio:AsyncSessionConnection", unit="sqlalchemy.aio:SessionUnitOfWork"
)
_ASYNCPG = Adapters(aio="asyncpg:AsyncpgConnection")

KNOWN: Mapping[str, Adapters] = {
    "sqlite3.Connection": Adapters(sync="sqlite:SqliteConnection"),
    "psycopg.Connection": Adapters(sync="psycopg:PsycopgConnection"),
    "psycopg.AsyncConnection": Adapters(aio="psycopg:AsyncPsycopgConnection"),
    "asyncpg.connection.Connection": _ASYNCPG,
    "asyncpg.pool.PoolConnectionProxy": _ASYNCPG,
    "sqlalchemy.engine.base.Connection": Adapters(sync="sqlalchemy.sync:SqlalchemyConnection"),
    "sqlalchemy.orm.session.Session": _SESSION,
    "sqlalchemy.orm.scoping.scoped_session": _SESSION,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": Adapters(
        aio="sqlalchemy.aio:AsyncSqlalchemyConnection"
    ),
    "sqlalchemy.ext.asyncio.session.AsyncSession": _ASYNC_SESSION,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _ASYNC_SESSION,
}


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """Finds the adapter of a connection."""

    schema: str | None = None
    known: Mapping[str, Adapters] = msgspec.field(default_factory=lambda: KNOWN)
    refuse_autocommit: bool = True
    _found: dict[type, _Found] = msgspec.field(default_factory=dict)

    def sync(self, tx: object) -> Connection:
        """Return the adapter of a connection that blocks."""
        found = self._found.get(type(tx)) or self._find(tx)
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
        found = self._found.get(type(tx)) or self._find(tx)
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
        found = self._found.get(type(tx)) or self._find(tx)
        if found.unit is None:
            return None
        unit: UnitOfWork = found.unit(tx, self.schema, self.refuse_autocommit)
        return unit

    def _find(self, tx: object) -> _Found:
        for cls in type(tx).__mro__:
            if known := self.known.get(_path(cls)):
                found = _Found(_loaded(known.sync), _loaded(known.aio), _loaded(known.unit))
                self._found[type(tx)] = found
                return found
        raise UnsupportedConnectionError(
            f"{_path(type(tx))} is no connection that Outrider knows; known are "
            f"{', '.join(sorted(self.known))}.\n  fix: hand over one of these, register an adapter "
            "(outbox.register), or execute outbox.statements(...) yourself"
        )


class _Found(NamedTuple):
    """Adapters that were imported."""

    sync: Callable[..., Any] | None
    aio: Callable[..., Any] | None
    unit: Callable[..., Any] | None


def _loaded(adapter: Callable[..., Any] | str | None) -> Callable[..., Any] | None:
    if not isinstance(adapter, str):
        return adapter
    module, _, name = adapter.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), name)
    return loaded


def not_in_transaction(tx: object, remedy: str) -> NotInTransactionError:
    """Return the error for a connection that would commit the event by itself."""
    return NotInTransactionError(
        "the connection is in autocommit mode outside a transaction, so the event would be "
        "stored without your data, or your data without the event.\n"
        f"  connection: {_path(type(tx))}\n  fix:        {remedy}"
    )


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
