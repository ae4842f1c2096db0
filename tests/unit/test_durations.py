"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.durations import duration
from outrider.errors import ConfigError, shown

HUNDRED_YEARS = timedelta(days=36_525)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("250ms", 0.25),
        ("30s", 30),
        ("5", 5),
        ("1.5", 1.5),
        ("1.5h", 5400),
        ("10m", 600),
        ("1h30m", 5400),
        ("1h30m15s", 5415),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("365d", 31_536_000),
        (" 5m ", 300),
        ("0s", 0),
        (0, 0),
        (90, 90),
        (0.5, 0.5),
        (timedelta(minutes=3), 180),
        ("PT5M", 300),
        ("PT1.5S", 1.5),
        ("P1DT2H", 93_600),
        ("P2W", 1_209_600),
        ("P1W2D", 777_600),
        (HUNDRED_YEARS, 36_525 * 86_400),
        ("36525d", 36_525 * 86_400),
    ],
)
def test_a_duration_is_read(value: str | float | timedelta, seconds: float) -> None:
    assert duration(value) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "s", "5 s", "1h 30m", "5S", "5x", "-5s", "+5s", ".5s", "5.s", "1e3s"),
        "5,5s",
        *("P", "PT", "P1DT", "P1M", "P1Y", "P-1D", "pt5m", "PT5", "P1.5D", "1:30", "5s;", "5s\x00"),
        *("nan", "inf", "\uff11s", "\u0663s", "PT\uff11S", "P\u0663D", "9" * 400 + "s"),
        "9" * 5000 + "s",
        *(-1, -0.001, float("nan"), float("inf"), float("-inf"), 10**400, 10**5000, 1e300),
        *(True, False, None, [], {}, b"5s", 5j, timedelta(seconds=-1)),
        *(HUNDRED_YEARS + timedelta(microseconds=1), "36525d1ms", "5218w"),
    ],
    ids=shown,
)
def test_what_is_no_duration_is_refused_with_the_remedy(value: Any) -> None:
    with pytest.raises(ConfigError, match="is not a duration; write '30s'") as refused:
        duration(value)

    assert len(str(refused.value)) < 250


@given(st.timedeltas(timedelta(), HUNDRED_YEARS))
@settings(max_examples=50)
def test_a_timedelta_is_returned_as_it_is(value: timedelta) -> None:
    assert duration(value) == value


@given(st.integers(0, 400), st.integers(0, 59), st.integers(0, 59))
@settings(max_examples=50)
def test_the_short_form_and_iso_8601_agree(hours: int, minutes: int, seconds: int) -> None:
    short = duration(f"{hours}h{minutes}m{seconds}s")

    assert short == duration(f"PT{hours}H{minutes}M{seconds}S")
    assert short == timedelta(hours=hours, minutes=minutes, seconds=seconds)
