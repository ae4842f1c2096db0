"""SQLAlchemy's Connection, Session and scoped_session."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from outrider.errors import UnsupportedConnectionError
from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named
from outrider.sql.plan import Plan, Rows, Step, run

T = TypeVar("T")
AnySession: TypeAlias = Session | scoped_session[Any]

REMEDY = "with engine.begin() as connection: …, without isolation_level='AUTOCOMMIT'"
_DIALECTS = {"postgresql": "postgres"}


class SqlalchemyConnection:
    """A Connection; statements go to the driver as they are, without compiling anything."""

    remedy = REMEDY

    def __init__(self, tx: Connection, schema: str | None) -> None:
        self._tx = tx
        self._schema = schema

    @property
    def dialect(self) -> Dialect:
        """The dialect of the connection's engine."""
        return dialect_of(self._tx.dialect, self._schema)

    def autocommits(self) -> bool:
        """Say whether the isolation level is AUTOCOMMIT, wherever that was set."""
        if (level := self._tx.get_execution_options().get("isolation_level")) is not None:
            return bool(level == "AUTOCOMMIT")
        if self._tx.dialect.name == "sqlite":
            return self._sqlite_autocommits()
        driver: Any = self._tx.connection.dbapi_connection
        return bool(driver.autocommit)

    def _sqlite_autocommits(self) -> bool:
        # The driver's own object: SQLAlchemy's around aiosqlite's does not say all of this.
        driver: Any = self._tx.connection.driver_connection
        by_itself = sys.version_info >= (3, 12) and getattr(driver, "autocommit", None) is True
        return (by_itself or driver.isolation_level is None) and not self._has_begun(driver)

    def _has_begun(self, driver: Any) -> bool:
        # SQLAlchemy begins with the first statement; on SQLite, where an application may emit
        # its own BEGIN at that moment, only then can be seen whether there is a transaction.
        if self._tx.in_transaction():
            return bool(driver.in_transaction)
        transaction = self._tx.begin()
        if not driver.in_transaction:
            transaction.rollback()
        return bool(driver.in_transaction)

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* by ``exec_driver_sql``."""
        return run(plan, self.execute)

    def execute(self, step: Step) -> Rows:
        """Execute *step* as the driver takes it, without compiling anything."""
        style: Any = self._tx.dialect.paramstyle
        sql, bound = step.bind(style)
        result = self._tx.exec_driver_sql(sql, bound)
        return [dict(row) for row in result.mappings()] if result.returns_rows else ()


class SessionConnection(SqlalchemyConnection):
    """A Session, or a scoped_session: its connection, within its transaction."""

    def __init__(self, tx: AnySession, schema: str | None) -> None:
        try:
            connection = tx.connection()
        except UnboundExecutionError as error:
            raise unbound() from error
        super().__init__(connection, schema)


def dialect_of(dialect: Any, schema: str | None) -> Dialect:
    """Return our dialect for one of SQLAlchemy's."""
    name = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    return dialect_named(_DIALECTS.get(name, name), schema)


def unbound() -> UnsupportedConnectionError:
    """Return the error for a session without an engine for the log."""
    return UnsupportedConnectionError(
        "the session binds its classes one by one and has no engine for the outbox.\n"
        "  fix: give it a bind of its own, sessionmaker(engine, binds={…}), to the same engine as "
        "the business tables"
    )
