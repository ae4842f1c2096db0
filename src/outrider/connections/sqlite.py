"""The standard library's sqlite3."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any, TypeVar

from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named
from outrider.sql.plan import Plan, Rows, Step, run
from outrider.sql.statement import Batch, Placed

T = TypeVar("T")


class SqliteConnection:
    """A sqlite3 connection."""

    remedy = "connection.execute('BEGIN'), or connect without isolation_level=None"

    def __init__(self, tx: sqlite3.Connection, schema: str | None) -> None:
        self._tx = tx
        self.dialect: Dialect = dialect_named("sqlite", schema)

    def autocommits(self) -> bool:
        """Say whether neither the driver nor the caller has opened a transaction."""
        if self._tx.in_transaction:
            return False
        if (
            sys.version_info >= (3, 12)
            and self._tx.autocommit != sqlite3.LEGACY_TRANSACTION_CONTROL
        ):
            return bool(self._tx.autocommit)
        return self._tx.isolation_level is None

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* on cursors of our own."""
        return run(plan, self.execute)

    def execute(self, step: Step) -> Rows:
        """Execute *step* on a cursor of our own."""
        if isinstance(step, Placed):
            # It returns no rows, so no factory has anything to shape.
            self._tx.execute(*step.bind("qmark"))
            return ()
        cursor = self._tx.cursor()
        cursor.row_factory = None
        if isinstance(step, Batch):
            cursor.executemany(*step.bind("qmark"))
            return ()
        cursor.execute(*step.bind("qmark"))
        if cursor.description is None:
            return ()
        columns = [column[0] for column in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in self._fetched(cursor)]

    def _fetched(self, cursor: sqlite3.Cursor) -> list[tuple[Any, ...]]:
        # The caller's factories shape the caller's rows and texts, not ours; that of texts is
        # set on the connection alone.
        factory, self._tx.text_factory = self._tx.text_factory, str
        try:
            return cursor.fetchall()
        finally:
            self._tx.text_factory = factory
