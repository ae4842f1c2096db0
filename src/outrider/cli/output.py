"""What leaves on stdout: text that no terminal obeys, and JSON.

Whatever comes out of the log was written by strangers. On a terminal a key may hold escape
sequences that rewrite lines above it, a line break that fakes a row, or a bidirectional override
that turns a name around. So human output shows everything that is not printable as an escape.
"""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TextIO

import click
import msgspec

VERSION = 1
"""Of the documents of ``--json``: keys are added, never renamed."""

ABSENT = "-"
CELL_MAX = 60
_LINES = 2

_encoder = msgspec.json.Encoder(decimal_format="number")
# Escaped in JSON too: valid either way, and harmless on a terminal.
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_NOT_ASCII = re.compile("[^\x20-\x7e]")


def safe(text: str) -> str:
    r"""Return *text* with everything escaped that is not printable.

    >>> print(safe("a\x1b[2Jb\nc"))
    a\x1b[2Jb\nc
    """
    return text if text.isprintable() else "".join(map(_printable, text))


def safe_lines(text: str) -> str:
    """Return *text* with everything escaped that is neither printable nor the end of a line."""
    return "\n".join(map(safe, text.split("\n")))


def shortened(text: str, length: int = CELL_MAX) -> str:
    """Return *text*, cut where it is too long."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def json_text(value: Any) -> str:
    """Return *value* as JSON in one line; integers and decimals keep every digit."""
    text = _encoder.encode(value).decode()
    unsafe = _UNSAFE if _speaks_unicode(sys.stdout) else _NOT_ASCII
    return unsafe.sub(lambda found: json.dumps(found[0])[1:-1], text)


def json_pretty(value: Any) -> str:
    """Return *value* as JSON over several lines, safe on a terminal."""
    return safe_lines(msgspec.json.format(_encoder.encode(value), indent=_LINES).decode())


def print_line(text: str) -> None:
    """Write one line of data to stdout."""
    click.echo(text, color=_colours(sys.stdout))


def print_json(document: Mapping[str, Any]) -> None:
    """Write the one document of a command that was given ``--json``."""
    click.echo(json_text({"v": VERSION, "ok": True, **document}))


def print_note(text: str) -> None:
    """Write what is not data to stderr."""
    click.echo(safe_lines(text), err=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write *rows* in columns as wide as they need."""
    lines = [[shortened(safe(cell)) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(headings, *lines, strict=True)]
    print_line(painted(_aligned(headings, widths), bold=True))
    for line in lines:
        print_line(_aligned(line, widths))


def cell(value: Any) -> str:
    """Return *value* as it stands in a table: not yet safe."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return str(value)
    return _encoder.encode(value).decode()


def painted(text: str, *, bold: bool = False, colour: str | None = None) -> str:
    """Return *text* in a colour, where stdout shows colours."""
    if not _colours(sys.stdout):
        return text
    return click.style(text, bold=bold, fg=colour)


def _colours(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _speaks_unicode(stream: TextIO) -> bool:
    return (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf")


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", errors="backslashreplace").decode()


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        text + " " * (width - _width(text)) for text, width in zip(cells, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(character)
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )
