"""Compare two ways of doing a thing: interleaved rounds, medians, one ratio.

Both ways run in the same process on the same connection, turn by turn, and whoever goes first
changes each round, so that a busy machine, a checkpoint or a growing table hits both alike.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SLICE_SECONDS = 0.25
CALIBRATION_UNITS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way of doing a thing: prepare some units of work outside the clock, then do them."""

    prepare: Callable[[int], Any]
    do: Callable[[Any], None]


class Barrier(Protocol):
    """What lets several writers start a turn together."""

    def wait(self) -> object:
        """Wait until all are here."""
        ...


@dataclass(frozen=True, slots=True)
class Turns:
    """Rates of both ways, in units per second, round by round."""

    subject: Sequence[float]
    yardstick: Sequence[float]


def take_turns(subject: Way, yardstick: Way, seconds: float, barrier: Barrier) -> Turns:
    """Run both ways for about *seconds* and return their rates per round."""
    units = max(1, int(_rate(yardstick, CALIBRATION_UNITS) * SLICE_SECONDS))
    _rate(subject, CALIBRATION_UNITS)
    rounds = max(3, int(seconds / (2 * SLICE_SECONDS)))
    rates: dict[str, list[float]] = {"subject": [], "yardstick": []}
    ways = [("subject", subject), ("yardstick", yardstick)]
    for _ in range(rounds):
        ways.reverse()
        for name, way in ways:
            barrier.wait()
            rates[name].append(_rate(way, units))
    return Turns(rates["subject"], rates["yardstick"])


def compared(writers: Sequence[Turns], *, units_each: int = 1) -> Mapping[str, float]:
    """Add up what the writers did and return ``rate``, ``yardstick`` and ``ratio``."""
    subject = [sum(rates) for rates in zip(*(turns.subject for turns in writers), strict=True)]
    yardstick = [sum(rates) for rates in zip(*(turns.yardstick for turns in writers), strict=True)]
    ratios = [a / b for a, b in zip(subject, yardstick, strict=True)]
    return {
        "rate": round(statistics.median(subject) * units_each, 1),
        "yardstick": round(statistics.median(yardstick) * units_each, 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_worst": round(min(ratios), 3),
        "ratio_best": round(max(ratios), 3),
        "rounds": len(ratios),
    }


def _rate(way: Way, units: int) -> float:
    work = way.prepare(units)
    gc.collect()
    started = time.perf_counter()
    way.do(work)
    return units / (time.perf_counter() - started)
