from __future__ import annotations

from outrider.connections import KNOWN
from tests.contract.page import COMMAND, PAGE, render, suites


def test_the_page_lists_exactly_the_kinds_that_the_suite_runs() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), f"out of date; run {COMMAND}"


def test_the_suite_runs_every_kind_that_outrider_knows() -> None:
    assert {suite.kind.recognised for suite in suites()} == set(KNOWN)
