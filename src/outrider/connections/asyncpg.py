"""asyncpg: a connection, or a pool's proxy of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named
from outrider.sql.plan import Plan, Rows, Step, run_async
from outrider.sql.statement import Batch

if TYPE_CHECKING:
    import asyncpg
    import asyncpg.pool

    Tx: TypeAlias = asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]

T = TypeVar("T")


class AsyncpgConnection:
    """An asyncpg connection."""

    remedy = "async with connection.transaction(): …"

    def __init__(self, tx: Tx, schema: str | None) -> None:
        self._tx = tx
        self.dialect: Dialect = dialect_named("postgres", schema)

    async def autocommits(self) -> bool:
        """Say whether no transaction is open; asyncpg commits each statement then."""
        return not self._tx.is_in_transaction()

    async def run(self, plan: Plan[T]) -> T:
        """Run *plan* on the connection."""
        return await run_async(plan, self._execute)

    async def _execute(self, step: Step) -> Rows:
        if isinstance(step, Batch):
            sql, rows = step.bind("numeric_dollar")
            await self._tx.executemany(sql, rows)
            return ()
        sql, params = step.bind("numeric_dollar")
        found: Rows = await self._tx.fetch(sql, *params)
        return found
