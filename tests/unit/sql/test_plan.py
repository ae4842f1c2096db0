"""A plan ends when it says so, and is closed whatever a driver does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outrider.sql.plan import Plan, Rows, Step, run, run_async
from outrider.sql.statement import Query, Statement

STEP = Statement(Query("q", "SELECT 1"), {})
Run = Callable[[Plan[Any], Callable[[Step], Rows]], Any]


class DriverError(Exception):
    pass


def twice(log: list[object]) -> Plan[str]:
    try:
        log.append((yield STEP))
        log.append((yield STEP))
    finally:
        log.append("closed")
    return "done"


async def awaited(plan: Plan[Any], execute: Callable[[Step], Rows]) -> object:
    async def execute_async(step: Step) -> Rows:
        return execute(step)

    return await run_async(plan, execute_async)


async def plainly(plan: Plan[Any], execute: Callable[[Step], Rows]) -> object:
    return run(plan, execute)


both = pytest.mark.parametrize("runs", [plainly, awaited], ids=["sync", "async"])


@both
async def test_a_plan_is_sent_the_rows_of_each_statement_and_returns_its_result(runs: Any) -> None:
    log: list[object] = []
    answers = iter([[{"n": 1}], []])

    assert await runs(twice(log), lambda _step: next(answers)) == "done"
    assert log == [[{"n": 1}], [], "closed"]


@both
async def test_a_plan_without_statements_returns_its_result(runs: Any) -> None:
    def nothing(steps: list[Step]) -> Plan[int]:
        yield from steps
        return 7

    assert await runs(nothing([]), lambda _step: pytest.fail("executed")) == 7


@both
async def test_a_drivers_error_closes_the_plan_and_passes_on(runs: Any) -> None:
    log: list[object] = []
    error = DriverError("gone")

    def fail(_step: Step) -> Rows:
        raise error

    with pytest.raises(DriverError) as raised:
        await runs(twice(log), fail)

    assert raised.value is error
    assert log == ["closed"]


def test_a_drivers_stop_iteration_is_not_the_plans_end() -> None:
    log: list[object] = []

    def stop(_step: Step) -> Rows:
        raise StopIteration("a driver's")

    with pytest.raises(StopIteration, match="a driver's"):
        run(twice(log), stop)

    assert log == ["closed"]


async def test_an_async_drivers_stop_iteration_is_not_the_plans_end() -> None:
    log: list[object] = []

    async def stop(_step: Step) -> Rows:
        raise StopIteration("a driver's")

    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_async(twice(log), stop)

    assert log == ["closed"]


@both
async def test_an_error_of_the_plan_itself_passes_on(runs: Any) -> None:
    def broken() -> Plan[None]:
        yield STEP
        raise LookupError("of the plan")

    with pytest.raises(LookupError, match="of the plan"):
        await runs(broken(), lambda _step: [])


@both
async def test_a_cancelled_statement_closes_the_plan(runs: Any) -> None:
    log: list[object] = []

    def cancel(_step: Step) -> Rows:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await runs(twice(log), cancel)

    assert log == ["closed"]
