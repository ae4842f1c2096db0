"""``outrider bench``: measure on this machine, each time beside a yardstick in the same run."""

from __future__ import annotations

from contextlib import nullcontext
from typing import get_args

import click

from outrider.bench.emit import Conditions, Driver, run, throwaway
from outrider.cli.commands import Command, Group, json_option, schema_option, verbose_option
from outrider.cli.failures import Invocation
from outrider.cli.output import print_json, print_note
from outrider.errors import ConfigError


@click.group(
    cls=Group,
    examples=(
        "outrider bench emit",
        "outrider bench emit --sqlite",
        "outrider bench emit --driver asyncpg --writers 16 --json",
    ),
)
@verbose_option
def bench() -> None:
    """Measure on this machine; each command prints one JSON document."""


@bench.command(
    cls=Command,
    examples=(
        "outrider bench emit",
        "outrider bench emit --sqlite --seconds 10",
        "outrider bench emit --url postgresql://postgres@localhost/bench --writers 16",
    ),
)
@click.option("--url", metavar="URL", help="A database to write into; else a throwaway server.")
@schema_option
@click.option("--sqlite", is_flag=True, help="Measure on a throwaway SQLite file.")
@click.option(
    "--driver",
    type=click.Choice(get_args(Driver)),
    help="The driver; psycopg on PostgreSQL, sqlite3 on SQLite.",
)
@click.option("--writers", type=click.IntRange(1, 64), default=1, help="How many processes.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=24.0, help="How long.")
@json_option
@verbose_option
@click.pass_obj
def emit(  # noqa: PLR0917 - click passes options by name
    invocation: Invocation,
    url: str | None,
    schema: str | None,
    sqlite: bool,
    driver: Driver | None,
    writers: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Compare emit with a bare INSERT of the same row by the same driver.

    Both write into the same table on the same connection, turn by turn. A throwaway database syncs
    every commit to disk; the events stay in one given by --url.
    """
    if url is not None:
        invocation.hide(url)
    chosen = _driver(url, driver, sqlite=sqlite)
    with nullcontext(url) if url else throwaway(chosen) as place:
        assert place is not None
        document = run(
            Conditions(url=place, driver=chosen, schema=schema, writers=writers, seconds=seconds)
        )
    if not as_json:
        many = document["many"]
        print_note(
            f"one event per transaction:  emit {document['rate']:,.0f}/s, "
            f"bare INSERT {document['yardstick']:,.0f}/s, ratio {document['ratio']:.2f}\n"
            f"100 per transaction:        emit {many['rate']:,.0f}/s, "
            f"bare INSERT {many['yardstick']:,.0f}/s, ratio {many['ratio']:.2f}"
        )
    print_json(document)


def _driver(url: str | None, driver: Driver | None, *, sqlite: bool) -> Driver:
    on_sqlite = sqlite or driver == "sqlite3" or bool(url and url.startswith("sqlite"))
    chosen: Driver = driver or ("sqlite3" if on_sqlite else "psycopg")
    contradicts = url is not None and url.startswith("sqlite") != on_sqlite
    if contradicts or on_sqlite != (chosen == "sqlite3"):
        raise ConfigError("--url, --sqlite and --driver contradict each other; give one of them")
    return chosen
