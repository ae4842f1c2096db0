"""``outrider version``."""

from __future__ import annotations

import platform
from importlib.metadata import version as installed_version

import click

from outrider.cli.commands import Command, json_option, verbose_option
from outrider.cli.output import print_json, print_line


@click.command(
    cls=Command,
    examples=(
        "outrider version",
        "outrider version --json",
        "outrider version --json | python -m json.tool",
    ),
)
@verbose_option
@json_option
def version(as_json: bool) -> None:
    """Say which version is installed."""
    found = {"version": installed_version("outrider"), "python": platform.python_version()}
    if as_json:
        print_json(found)
    else:
        print_line(f"outrider {found['version']}, Python {found['python']}")
