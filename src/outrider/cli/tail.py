"""``outrider events tail``."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import click

from outrider.cli.commands import Command
from outrider.cli.database import Database, database_options
from outrider.cli.failures import DONE
from outrider.cli.output import (
    ABSENT,
    cell,
    json_text,
    painted,
    print_line,
    safe,
    shortened,
)
from outrider.cli.parameters import where_option
from outrider.durations import duration
from outrider.events import Event
from outrider.filters import Filter
from outrider.log.export import document, plain_event
from outrider.log.tail import WINDOW_POSITIONS, Tail

_DATA_MAX = 120


@click.command(
    cls=Command,
    examples=(
        "outrider events tail",
        "outrider events tail --where 'type:order.*' --jsonl | jq -c '[.type, .data]'",
        "outrider events tail --from-start --count 100",
    ),
    help=f"""Follow the log: print events as they are committed, until interrupted.

    Positions are drawn when an event is written and seen when its transaction commits, so a long
    transaction's events come late, with a lower position. The newest {WINDOW_POSITIONS} positions
    are looked at again each time and late events printed then. What commits later than that is
    not seen here: to miss nothing, subscribe.""",
)
@where_option
@click.option("--from-start", is_flag=True, help="Begin at the first event, not at the end.")
@click.option(
    "--interval",
    type=duration,
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="How long to wait between two looks.",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N events.")
@click.option("--jsonl", is_flag=True, help="Write one JSON object per event and line.")
@database_options
def tail(
    database: Database,
    *,
    where: Filter,
    from_start: bool,
    interval: timedelta,
    count: int | None,
    jsonl: bool,
) -> int:
    """Follow the log."""
    place = Tail(where)
    left = count
    with database.open() as connection:
        if not from_start:
            connection.read(place.skip(connection.dialect))
        while True:
            for row in connection.read(place.look(connection.dialect)):
                event = plain_event(row)
                print_line(json_text(document(event)) if jsonl else _line(event))
                if left is not None:
                    left -= 1
                    if left == 0:
                        return DONE
            if not place.behind:
                time.sleep(interval.total_seconds())


def _line(event: Event[Any]) -> str:
    told = document(event)
    data = f"{len(event.data)} bytes" if isinstance(event.data, bytes) else json_text(event.data)
    return "  ".join(
        (
            str(event.position),
            told["created_at"],
            painted(safe(event.type), bold=True),
            shortened(safe(cell(event.key))) if event.key else ABSENT,
            shortened(safe(data), _DATA_MAX),
        )
    )
