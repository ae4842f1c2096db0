"""psycopg 3, sync and async."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import dict_row

from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named
from outrider.sql.plan import Plan, Rows, Step, run, run_async
from outrider.sql.statement import Batch

T = TypeVar("T")


class PsycopgConnection:
    """A psycopg connection; our cursors are our own class, whatever factory the caller set."""

    remedy = "with connection.transaction(): …, or connect without autocommit=True"

    def __init__(self, tx: psycopg.Connection[Any], schema: str | None) -> None:
        self._tx = tx
        self.dialect: Dialect = dialect_named("postgres", schema)

    def autocommits(self) -> bool:
        """Say whether autocommit is on and no transaction is open."""
        if self._tx.autocommit and _in_pipeline(self._tx):
            with self._tx.pipeline():  # whose end waits until the status is known
                pass
        return _autocommits(self._tx)

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* on cursors of our own."""
        return run(plan, self.execute)

    def execute(self, step: Step) -> Rows:
        """Execute *step* on a cursor of our own."""
        with psycopg.Cursor(self._tx, row_factory=dict_row) as cursor:
            if isinstance(step, Batch):
                sql, rows = step.bind("format")
                cursor.executemany(sql, rows)
                return ()
            sql, params = step.bind("format")
            cursor.execute(sql, params)
            if _in_pipeline(self._tx):
                # The end of an inner one synchronises; before that there is no answer.
                with self._tx.pipeline():
                    pass
            return cursor.fetchall() if cursor.description else ()


class AsyncPsycopgConnection:
    """A psycopg async connection."""

    remedy = "async with connection.transaction(): …, or connect without autocommit=True"

    def __init__(self, tx: psycopg.AsyncConnection[Any], schema: str | None) -> None:
        self._tx = tx
        self.dialect: Dialect = dialect_named("postgres", schema)

    async def autocommits(self) -> bool:
        """Say whether autocommit is on and no transaction is open."""
        if self._tx.autocommit and _in_pipeline(self._tx):
            async with self._tx.pipeline():
                pass
        return _autocommits(self._tx)

    async def run(self, plan: Plan[T]) -> T:
        """Run *plan* on cursors of our own."""
        return await run_async(plan, self._execute)

    async def _execute(self, step: Step) -> Rows:
        async with psycopg.AsyncCursor(self._tx, row_factory=dict_row) as cursor:
            if isinstance(step, Batch):
                sql, rows = step.bind("format")
                await cursor.executemany(sql, rows)
                return ()
            sql, params = step.bind("format")
            await cursor.execute(sql, params)
            if _in_pipeline(self._tx):
                async with self._tx.pipeline():
                    pass
            return await cursor.fetchall() if cursor.description else ()


# Anything else, like a command under way in a pipeline, does not say that there is a transaction.
_OPEN = {TransactionStatus.INTRANS, TransactionStatus.INERROR}


def _autocommits(tx: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return tx.autocommit and tx.info.transaction_status not in _OPEN


def _in_pipeline(tx: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return tx.info.pipeline_status != PipelineStatus.OFF
