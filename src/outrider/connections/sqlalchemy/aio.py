"""SQLAlchemy's AsyncConnection and AsyncSession.

They are shells around sync ones, so their plans run by the sync adapter inside ``run_sync``.
An AsyncSession also takes events without an await: as mapped objects that its next flush
inserts, savepoints and rollbacks included.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias, TypeVar

import msgspec
from sqlalchemy import Column, Connection, FetchedValue, MetaData, Table, event, text
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import registry

from outrider.connections import not_in_transaction
from outrider.connections.sqlalchemy.sync import (
    REMEDY,
    SessionConnection,
    SqlalchemyConnection,
    dialect_of,
    unbound,
)
from outrider.records import Record
from outrider.sql.dialect import Dialect
from outrider.sql.emit import params
from outrider.sql.plan import Plan

T = TypeVar("T")
AnyAsyncSession: TypeAlias = AsyncSession | async_scoped_session[Any]


class AsyncSqlalchemyConnection:
    """An AsyncConnection."""

    remedy = f"async {REMEDY}"

    def __init__(self, tx: AsyncConnection, schema: str | None) -> None:
        self._tx = tx
        self._schema = schema

    @property
    def dialect(self) -> Dialect:
        """The dialect of the connection's engine."""
        return dialect_of(self._tx.dialect, self._schema)

    async def autocommits(self) -> bool:
        """Say what the sync adapter says."""
        return await self._tx.run_sync(
            lambda tx: SqlalchemyConnection(tx, self._schema).autocommits()
        )

    async def run(self, plan: Plan[T]) -> T:
        """Run *plan* by the sync adapter."""
        return await self._tx.run_sync(lambda tx: SqlalchemyConnection(tx, self._schema).run(plan))


class AsyncSessionConnection:
    """An AsyncSession, or an async_scoped_session, that is awaited."""

    remedy = f"async {REMEDY}"

    def __init__(self, tx: AnyAsyncSession, schema: str | None) -> None:
        self._tx = tx
        self._schema = schema

    @property
    def dialect(self) -> Dialect:
        """The dialect of the session's engine."""
        return _session_dialect(self._tx, self._schema)

    async def autocommits(self) -> bool:
        """Say what the sync adapter says."""
        return await _session(self._tx).run_sync(
            lambda tx: SessionConnection(tx, self._schema).autocommits()
        )

    async def run(self, plan: Plan[T]) -> T:
        """Run *plan* by the sync adapter."""
        return await _session(self._tx).run_sync(
            lambda tx: SessionConnection(tx, self._schema).run(plan)
        )


class SessionUnitOfWork:
    """An AsyncSession that takes events without an await."""

    def __init__(self, tx: AnyAsyncSession, schema: str | None, refuse_autocommit: bool) -> None:  # noqa: FBT001 - a factory's arguments have no names
        self._tx = tx
        self._schema = schema
        self._refuse_autocommit = refuse_autocommit

    @property
    def dialect(self) -> Dialect:
        """The dialect of the session's engine."""
        return _session_dialect(self._tx, self._schema)

    def add(self, record: Record) -> None:
        """Add *record* as an object that the next flush inserts."""
        pending = _pending(self._schema)(self.dialect, record)
        pending.refuse_autocommit = self._refuse_autocommit
        self._tx.add(pending)


def _session(tx: AnyAsyncSession) -> AsyncSession:
    session: AsyncSession = tx() if isinstance(tx, async_scoped_session) else tx
    return session


def _session_dialect(tx: AnyAsyncSession, schema: str | None) -> Dialect:
    try:
        return dialect_of(tx.get_bind(_pending(schema)).dialect, schema)
    except UnboundExecutionError as error:
        raise unbound() from error


@cache
def _pending(schema: str | None) -> Any:
    """Return the class whose objects are rows of the log of *schema*.

    Its columns have no type: values are already as the driver wants them, and the database
    knows its own columns. What is None is left to the database, defaults included.
    """

    class PendingEvent:
        refuse_autocommit = True

        def __init__(self, dialect: Dialect, record: Record) -> None:
            values = params(dialect, record)
            after = values.pop("available_after_us")
            if after is not None:
                instant = text(f"({dialect['instant_after'].text})")
                values["available_at"] = instant.bindparams(available_after_us=after)
            for name, value in values.items():
                if value is not None:
                    setattr(self, name, value)

    names = [field.name for field in msgspec.structs.fields(Record)]
    columns: list[Column[Any]] = [
        # The database says when something occurred if nobody else does.
        Column(name, server_default=FetchedValue() if name == "occurred_at" else None)
        for name in names
        if name != "available_after_us"
    ]
    table = Table("outbox_events", MetaData(schema=schema), *columns)
    registry().map_imperatively(
        PendingEvent, table, primary_key=[table.c.event_id], eager_defaults=False
    )

    @event.listens_for(PendingEvent, "before_insert")
    def check(_mapper: Any, connection: Connection, pending: PendingEvent) -> None:
        if pending.refuse_autocommit and SqlalchemyConnection(connection, schema).autocommits():
            raise not_in_transaction(connection, f"async {REMEDY}")

    return PendingEvent
