"""Event ids: UUIDv7, increasing within a process, known before the commit.

Layout (RFC 9562): 48 bits of milliseconds, 12 bits counter, 62 random bits. The counter
starts at a random point of its lower half in each millisecond and goes up by one, so ids made
in one process sort in the order they were made; when it overflows, the millisecond is
advanced. A clock that steps back changes nothing: the last millisecond is kept.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from uuid import UUID
from weakref import WeakSet

_COUNTER_MAX = 0xFFF
_RANDOM_MASK = (1 << 62) - 1


class UuidV7:
    """A source of increasing UUIDv7; safe to share between threads."""

    __slots__ = ("__weakref__", "_counter", "_lock", "_milliseconds", "_random")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._milliseconds = 0
        self._counter = 0
        self._random: Iterator[int] = iter(())
        _sources.add(self)

    def __call__(self) -> UUID:
        """Return the next id."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            random = next(self._random, None)
            if random is None:
                # Drawn in bulk, because a system call for each id costs as much as the rest.
                self._random = iter(memoryview(os.urandom(8 * 128)).cast("Q"))
                random = next(self._random)
            if now > self._milliseconds:
                self._milliseconds, self._counter = now, next(self._random, 0) & 0x7FF
            elif self._counter < _COUNTER_MAX:
                self._counter += 1
            else:
                self._milliseconds += 1
                self._counter = 0
            upper = (self._milliseconds & 0xFFFFFFFFFFFF) << 16 | 0x7000 | self._counter
        return UUID(int=upper << 64 | 0b10 << 62 | random & _RANDOM_MASK)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._random = iter(())


# A forked child draws its own random bits, or it would hand out its parent's ids; and its lock
# may be one that another thread of the parent held.
_sources: WeakSet[UuidV7] = WeakSet()


def _forget_all() -> None:
    for source in _sources:
        source._forget()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_forget_all)
