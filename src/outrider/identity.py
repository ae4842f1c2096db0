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

_COUNTER_MAX = 0xFFF
_RANDOM_MASK = (1 << 62) - 1


class UuidV7:
    """A source of increasing UUIDv7; safe to share between threads."""

    __slots__ = ("_counter", "_lock", "_milliseconds", "_pid", "_random")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._milliseconds = 0
        self._counter = 0
        self._pid = 0
        self._random: Iterator[int] = iter(())

    def __call__(self) -> UUID:
        """Return the next id."""
        now = time.time_ns() // 1_000_000
        with self._lock:
            random = next(self._random, None) if self._pid == os.getpid() else None
            if random is None:
                # Drawn in bulk, because a system call for each id costs as much as the rest. A
                # forked child draws its own, or it would hand out its parent's ids.
                self._pid = os.getpid()
                self._random = iter(memoryview(os.urandom(8 * 128)).cast("Q"))
                random = next(self._random)
            if now > self._milliseconds:
                self._milliseconds, self._counter = now, next(self._random, 0) & 0x7FF
            elif self._counter < _COUNTER_MAX:
                self._counter += 1
            else:
                self._milliseconds += 1
                self._counter = 0
            milliseconds, counter = self._milliseconds, self._counter
        return UUID(
            int=(milliseconds & 0xFFFFFFFFFFFF) << 80
            | 0x7 << 76
            | counter << 64
            | 0b10 << 62
            | random & _RANDOM_MASK
        )
