"""The program ``outrider``: which commands there are, and where each is."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping

import click

from outrider.cli.commands import Root, verbose_option

COMMANDS: Mapping[str, str] = {
    "migrate": "outrider.cli.schema:migrate",
    "sql": "outrider.cli.schema:sql",
    "verify": "outrider.cli.schema:verify",
    "events": "outrider.cli.events:events",
    "bench": "outrider.cli.bench:bench",
    "version": "outrider.cli.version:version",
    "help": "outrider.cli.topics:topic_help",
}
"""Imported when they are asked for: ``outrider version`` needs no driver and does not wait."""


@click.group(
    "outrider",
    cls=Root,
    lazy=COMMANDS,
    examples=(
        "outrider migrate --database-url postgresql://shop@localhost/shop",
        "outrider events list --where 'type:order.* since:2h'",
        "outrider help filters",
    ),
)
@verbose_option
def cli() -> None:
    """A transactional outbox and event log.

    Data goes to stdout, everything else to stderr.
    """


def main() -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding lacks is written as an escape rather than an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    cli.main()
