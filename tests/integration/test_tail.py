"""Following the log: events that commit late, gaps, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any, TypeVar

import psycopg
import pytest

from outrider import Draft, Filter, Outbox
from outrider.connections.owned import OwnedConnection, connect
from outrider.filters import parse
from outrider.log.export import PAGE_EVENTS, newest, rows_between
from outrider.log.tail import Tail
from outrider.sql import read
from outrider.sql.migrate import migrate
from outrider.sql.plan import Plan

T = TypeVar("T")

outbox = Outbox(namespace="shop")


class Log:
    """A log with a reader, and writers that commit when they are told to."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url = url
        self._stack = stack
        self.reader: OwnedConnection = stack.enter_context(connect(url))
        self.reader.run(migrate(self.reader.dialect))

    def writer(self) -> psycopg.Connection[Any]:
        return self._stack.enter_context(psycopg.connect(self._url))

    def emit(self, count: int = 1, name: str = "order.placed") -> None:
        with psycopg.connect(self._url) as tx:
            outbox.emit_many(tx, [Draft(name, {}) for _ in range(count)])

    def look(self, tail: Tail) -> list[int]:
        return [row["position"] for row in self.reader.read(tail.look(self.reader.dialect))]

    def skip(self, tail: Tail) -> None:
        self.reader.read(tail.skip(self.reader.dialect))


@pytest.fixture
def log(postgres_url: str) -> Iterator[Log]:
    with ExitStack() as stack:
        yield Log(postgres_url, stack)


@pytest.mark.parametrize("where", ["", "type:order.*"])
def test_an_event_that_commits_late_is_shown_late(log: Log, where: str) -> None:
    tail = Tail(parse(where))
    slow = log.writer()
    outbox.emit(slow, "order.placed", {})
    log.emit(2)

    before = log.look(tail)
    slow.commit()

    assert before == [2, 3]
    assert log.look(tail) == [1]
    assert log.look(tail) == []


def test_what_is_there_at_the_start_is_not_shown_but_what_commits_later_is(log: Log) -> None:
    tail = Tail(Filter())
    slow = log.writer()
    log.emit(2)
    outbox.emit(slow, "order.placed", {})
    log.emit(2)
    log.skip(tail)

    nothing = log.look(tail)
    slow.commit()
    log.emit()

    assert nothing == []
    assert log.look(tail) == [3, 6]


def test_a_position_that_was_rolled_back_hides_nothing(log: Log) -> None:
    tail = Tail(Filter())
    slow = log.writer()
    outbox.emit(slow, "order.placed", {})
    slow.rollback()
    log.emit()

    assert log.look(tail) == [2]
    log.emit()
    assert log.look(tail) == [3]


def test_a_window_is_bounded(log: Log) -> None:
    tail = Tail(Filter(), window=5)
    slow = log.writer()
    outbox.emit(slow, "order.placed", {})
    log.emit(5)
    assert log.look(tail) == [2, 3, 4, 5, 6]

    log.emit()
    assert log.look(tail) == [7]
    slow.commit()

    assert log.look(tail) == []
    assert len(tail._seen) <= 5


def test_a_window_moves_with_the_log_not_with_what_matches(log: Log) -> None:
    tail = Tail(parse("type:cart.*"), window=5)
    log.emit(20)

    assert log.look(tail) == []
    assert tail._first_unseen() == 16


def test_a_long_log_is_followed_in_pages_from_its_start(log: Log) -> None:
    tail = Tail(Filter())
    log.emit(PAGE_EVENTS + 1)

    first, behind = log.look(tail), tail.behind
    second = log.look(tail)

    assert (len(first), behind) == (PAGE_EVENTS, True)
    assert (second, tail.behind) == ([PAGE_EVENTS + 1], False)


def test_a_full_page_of_what_was_shown_does_not_stop_it(log: Log) -> None:
    tail = Tail(Filter(), window=3 * PAGE_EVENTS)
    slow = log.writer()
    outbox.emit(slow, "order.placed", {})
    log.emit(2 * PAGE_EVENTS)
    log.skip(tail)

    log.emit()

    assert log.look(tail) == [2 * PAGE_EVENTS + 2]
    slow.commit()
    while not (late := log.look(tail)):
        assert tail.behind
    assert late == [1]


def test_an_export_ends_where_the_log_ended_when_it_began(log: Log) -> None:
    log.emit(3)
    until = log.reader.read(newest(log.reader.dialect))
    log.emit(3)

    rows = rows_between(log.reader.read, log.reader.dialect, Filter(), 0, until)

    assert [row["position"] for row in rows] == [1, 2, 3]


def test_an_export_holds_one_page_at_a_time(log: Log) -> None:
    log.emit(3 * PAGE_EVENTS)
    pages = 0

    def counted(plan: Plan[T]) -> T:
        nonlocal pages
        pages += 1
        return log.reader.read(plan)

    rows = rows_between(counted, log.reader.dialect, Filter(), 0, 3 * PAGE_EVENTS)

    assert len(list(islice(rows, PAGE_EVENTS))) == PAGE_EVENTS
    assert pages == 1
    assert len(list(rows)) == 2 * PAGE_EVENTS


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_page_is_read_along_the_log_and_not_sorted(log: Log, direction: str) -> None:
    log.emit(2000)
    dialect = log.reader.dialect
    plan = read.forward if direction == "forward" else read.backward
    statement = next(plan(dialect, parse("type:order.*"), 1000, 20))
    sql, params = statement.bind("pyformat")

    with log.writer() as tx:
        tx.execute("ANALYZE outbox_events")
        explained = "\n".join(row[0] for row in tx.execute(f"EXPLAIN {sql}".encode(), params))

    assert "Index Scan" in explained
    assert "outbox_events_pkey" in explained
    assert "Sort" not in explained
