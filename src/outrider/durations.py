"""Durations as people write them: ``"30s"``, ``"10m"``, ``"1h30m"``, ``"7d"``, ``90``, ISO 8601."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from outrider.errors import ConfigError, shown

Duration: TypeAlias = str | float | timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_PLAIN = re.compile(r"\d{1,12}(?:\.\d+)?", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+", re.ASCII)
_ISO = re.compile(
    r"P(?!$)(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?"
    r"(?:T(?!$)(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_LONGEST = timedelta(days=36_525)


def duration(value: Duration) -> timedelta:
    """Return *value* as a timedelta between zero and a hundred years.

    >>> duration("1h30m")
    datetime.timedelta(seconds=5400)
    >>> duration("PT5M") == duration(300) == duration("5m")
    True
    """
    found = value if isinstance(value, timedelta) else _parse(value)
    if not timedelta() <= found <= _LONGEST:
        raise _refused(value)
    return found


def _parse(value: str | float) -> timedelta:
    if isinstance(value, str):
        seconds = _seconds(value.strip())
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(value)
    else:
        seconds = value
    # NaN compares with nothing, and an integer may be larger than any float.
    if not 0 <= seconds <= _LONGEST.total_seconds():
        raise _refused(value)
    return timedelta(seconds=seconds)


def _seconds(text: str) -> float:
    if _PLAIN.fullmatch(text):
        return float(text)
    if _WHOLE.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if iso := _ISO.fullmatch(text):
        return sum(float(n) * _UNITS[unit] for unit, n in iso.groupdict().items() if n)
    raise _refused(text)


def _refused(value: object) -> ConfigError:
    return ConfigError(
        f"{shown(value)} is not a duration; write '30s', '10m', '1h30m', '7d', seconds, a "
        "timedelta or ISO 8601, from zero to a hundred years"
    )
