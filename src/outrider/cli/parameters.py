"""Values of options: filters, positions, fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from outrider import filters
from outrider.cli.commands import nearest
from outrider.errors import ConfigError
from outrider.log.export import FIELDS

F = TypeVar("F", bound=Callable[..., Any])

POSITION = click.IntRange(min=0, max=2**63 - 1)


def where_option(function: F) -> F:
    """Add ``--where``; what is wrong with a filter is said before a database is opened."""
    return click.option(
        "--where",
        type=filters.parse,
        default="",
        metavar="FILTER",
        help="Which events, like 'type:order.* key:42 since:2h'; see: outrider help filters.",
    )(function)


def fields(text: str) -> tuple[str, ...]:
    """Read names of an event's fields, separated by commas."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in FIELDS:
            raise ConfigError(f"an event has no field {name!r}; {nearest(name, FIELDS)}")
    return names
