"""``outrider events export``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click

from outrider.cli.commands import Command
from outrider.cli.database import Database, database_options
from outrider.cli.events import nothing_matches
from outrider.cli.failures import DONE, NOTHING_FOUND
from outrider.cli.output import json_text, print_note
from outrider.cli.parameters import POSITION, where_option
from outrider.cloudevents import structured
from outrider.errors import ConfigError
from outrider.events import Event
from outrider.filters import Filter
from outrider.log.export import document, newest, plain_event, rows_between

_FORMATS: Mapping[str, Callable[[Event[Any]], dict[str, Any]]] = {
    "jsonl": document,
    "cloudevents": lambda event: structured(event, event.data),
}


@click.command(
    cls=Command,
    examples=(
        "outrider events export --where 'type:order.*' > orders.jsonl",
        "outrider events export --format cloudevents --output events.jsonl",
        "outrider events export --after 1847 --output events.jsonl --append",
    ),
)
@where_option
@click.option(
    "--format",
    type=click.Choice(list(_FORMATS)),
    default="jsonl",
    show_default=True,
    help="jsonl: everything about an event. cloudevents: CloudEvents 1.0 in structured JSON, "
    "without headers.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to a new file instead of stdout.",
)
@click.option("--append", is_flag=True, help="Let the file of --output be there, and add to it.")
@click.option(
    "--after",
    type=POSITION,
    default=0,
    metavar="POSITION",
    help="Only events after this position: go on where an export ended.",
)
@database_options
def export(
    database: Database,
    *,
    where: Filter,
    format: str,
    output: Path | None,
    append: bool,
    after: int,
) -> int:
    """Write events, oldest first, one JSON object per line.

    Reads up to the newest position of the beginning, in pages, with as little memory for a long log
    as for a short one. The last position is told on stderr; --after goes on from there. An event
    whose transaction is open during the export may have a lower position than the last one written,
    and is missed when going on. Encrypted values are masked, so an export is no backup.
    """
    if append and output is None:
        raise ConfigError("--append adds to the file of --output; name one, or write >> FILE")
    told = _FORMATS[format]
    count, last = 0, after
    with database.open() as connection, _opened(output, append=append) as file:
        until = connection.read(newest(connection.dialect))
        try:
            for row in rows_between(connection.read, connection.dialect, where, after, until):
                file.write(f"{json_text(told(plain_event(row)))}\n")
                count, last = count + 1, row["position"]
        finally:
            print_note(f"{count} events, last position {last}; go on with --after {last}")
    if count == 0:
        print_note(nothing_matches(where))
    return DONE if count else NOTHING_FOUND


@contextmanager
def _opened(output: Path | None, *, append: bool) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        file = output.open("a" if append else "x", encoding="utf-8")
    except FileExistsError as error:
        raise ConfigError(
            f"{output} is there already.\n  fix: name another file, or --append with --after"
        ) from error
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}") from error
    with file:
        yield file
