"""Follow the log by position, and still show events that commit late.

A position is drawn when an event is written, and seen when its transaction commits, so events do
not appear in the order of their positions::

    seen       1 2 3 . 5 6 . 8        <- 4 and 7: in flight, or rolled back for ever
    next look        ^-----------     <- from the first position in the window not seen yet

A reader that only asks for positions after the newest would never see 4 and 7. This one looks
again at a bounded window behind the newest and remembers which of its positions it has shown. A
transaction that stays open while the log grows by more than the window is missed all the same:
following is for looking; a subscription is for not missing anything.
"""

from __future__ import annotations

from outrider.filters import Filter
from outrider.log.export import PAGE_EVENTS, newest
from outrider.sql import read
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan, Row

WINDOW_POSITIONS = 1_000


class Tail:
    """A place in the log that moves forward; its plans are run by the caller, one at a time."""

    def __init__(self, where: Filter, *, window: int = WINDOW_POSITIONS) -> None:
        self._where = where
        self._window = window
        self._newest = 0
        self._seen: set[int] = set()
        self.behind = True
        """More is there already: look again without waiting."""

    def skip(self, dialect: Dialect) -> Plan[None]:
        """Begin at the end: what is visible now is not shown, what commits from now on is."""
        self._newest = yield from newest(dialect)
        after = self._floor
        while True:
            rows = yield from read.forward(dialect, self._where, after, PAGE_EVENTS)
            self._seen.update(row["position"] for row in rows)
            if len(rows) < PAGE_EVENTS:
                break
            after = rows[-1]["position"]
        self._newest = max(self._newest, *self._seen, 0)
        self.behind = False

    def look(self, dialect: Dialect) -> Plan[list[Row]]:
        """Return events not shown yet, by position."""
        top = yield from newest(dialect)
        after = self._newest if self.behind else self._first_unseen() - 1
        fresh: list[Row] = []
        while not fresh:
            rows = yield from read.forward(dialect, self._where, after, PAGE_EVENTS)
            fresh += [row for row in rows if row["position"] not in self._seen]
            self.behind = len(rows) == PAGE_EVENTS
            if not self.behind:
                # Nothing up to here is left but what has not committed yet.
                self._newest = max(self._newest, top)
                break
            after = rows[-1]["position"]
        self._remember(fresh)
        return fresh

    @property
    def _floor(self) -> int:
        return max(0, self._newest - self._window)

    def _first_unseen(self) -> int:
        position = self._floor + 1
        while position in self._seen:
            position += 1
        return position

    def _remember(self, rows: list[Row]) -> None:
        self._seen.update(row["position"] for row in rows)
        if rows:
            self._newest = max(self._newest, rows[-1]["position"])
        self._seen = {position for position in self._seen if position > self._floor}
