"""A plan is an operation without I/O: it yields statements, is sent rows, returns a result.

Written once, it runs on every driver, sync and async::

    plan  --- Statement or Batch --->  execute  ---> driver
          <---------- rows ----------            <---

``execute`` stays outside the ``try``: a driver that raises StopIteration must not pass for
the plan's own end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from outrider.sql.statement import Batch, Placed, Statement

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]
Rows: TypeAlias = Sequence[Row]
Step: TypeAlias = Statement | Placed | Batch
Plan: TypeAlias = Generator[Step, Rows, T]


def run(plan: Plan[T], execute: Callable[[Step], Rows]) -> T:
    """Run *plan*, each of its statements by *execute*."""
    rows: Any = None
    try:
        while True:
            try:
                step = plan.send(rows)
            except StopIteration as stop:
                result: T = stop.value
                return result
            rows = execute(step)
    finally:
        plan.close()


async def run_async(plan: Plan[T], execute: Callable[[Step], Awaitable[Rows]]) -> T:
    """Run *plan*, each of its statements by awaiting *execute*."""
    rows: Any = None
    try:
        while True:
            try:
                step = plan.send(rows)
            except StopIteration as stop:
                result: T = stop.value
                return result
            rows = await execute(step)
    finally:
        plan.close()
