"""``outrider migrate``, ``outrider sql`` and ``outrider verify``: the schema of the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import click

from outrider import config
from outrider.cli.commands import (
    Command,
    Group,
    json_option,
    schema_option,
    verbose_option,
)
from outrider.cli.database import Database, database_options
from outrider.cli.failures import DONE, UNHEALTHY
from outrider.cli.output import painted, print_json, print_line, safe
from outrider.sql import migrate as migrations
from outrider.sql import schema as schemas
from outrider.sql import verify as checks
from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named, dialect_names

F = TypeVar("F", bound=Callable[..., Any])

_COLOURS: Mapping[str, str] = {"ok": "green", "warning": "yellow", "error": "red"}


def _with_option(function: F) -> F:
    return click.option(
        "--with",
        "extras",
        type=click.Choice(schemas.EXTRAS),
        multiple=True,
        callback=lambda _context, _parameter, names: tuple(dict.fromkeys(names)),
        help="Create what is optional, too. reads: indexes for audits; each costs every emit.",
    )(function)


@click.command(
    cls=Command,
    examples=(
        "outrider migrate --database-url postgresql://shop@localhost/shop",
        "outrider migrate --plan --json",
        "outrider migrate --schema outbox --with reads",
    ),
)
@click.option("--plan", is_flag=True, help="Say what would be done, and do nothing.")
@_with_option
@json_option
@database_options
def migrate(database: Database, *, plan: bool, extras: tuple[str, ...], as_json: bool) -> None:
    """Bring the database to the newest schema, in one transaction.

    A new database gets the whole schema, an older one the migrations that it lacks. Several
    processes may do this at once: one migrates, the others find nothing left to do.
    """
    with database.open(create=not plan) as connection:
        if plan:
            upgrade = connection.read(migrations.plan(connection.dialect, extras))
        else:
            upgrade = connection.run(migrations.migrate(connection.dialect, extras))
    steps = [{"version": one.version, "name": one.name} for one in upgrade.steps]
    steps += [{"version": upgrade.after, "name": extra.name} for extra in upgrade.extras]
    if as_json:
        print_json(
            {
                "before": upgrade.before,
                "after": upgrade.after,
                "steps": steps,
                "applied": not plan,
            }
        )
        return
    for step in steps:
        print_line(f"{'would apply' if plan else 'applied'} {step['version']} {step['name']}")
    if not steps:
        print_line(f"nothing to do: the schema has version {upgrade.after}")


@click.group(
    cls=Group,
    examples=(
        "outrider sql install --dialect postgres | psql --set=ON_ERROR_STOP=1 shop",
        "outrider sql upgrade --dialect postgres --from 1 > upgrade.sql",
        "outrider sql install --dialect sqlite | sqlite3 -bail shop.db",
    ),
)
@verbose_option
def sql() -> None:
    """Print the SQL of the schema, for tools that apply it themselves. Needs no database."""


def _script_options(function: Callable[..., None]) -> Callable[..., None]:
    dialect = click.option(
        "--dialect", type=click.Choice(sorted(dialect_names())), required=True, help="Whose SQL."
    )
    return dialect(schema_option(verbose_option(function)))


@sql.command(
    cls=Command,
    examples=(
        "outrider sql install --dialect postgres",
        "outrider sql install --dialect postgres --schema outbox | psql --set=ON_ERROR_STOP=1 shop",
        "outrider sql install --dialect sqlite | sqlite3 -bail shop.db",
    ),
)
@_with_option
@_script_options
def install(dialect: str, schema: str | None, extras: tuple[str, ...]) -> None:
    """Print the SQL that creates the schema in a database that has none."""
    _print_script(migrations.script(_dialect(dialect, schema), extras=extras))


@sql.command(
    cls=Command,
    examples=(
        "outrider sql upgrade --dialect postgres --from 1 --with reads",
        "outrider sql upgrade --dialect postgres --from 1 --schema outbox > upgrade.sql",
        "outrider sql upgrade --dialect sqlite --from 1 | sqlite3 -bail shop.db",
    ),
)
@click.option(
    "--from",
    "from_version",
    type=click.IntRange(min=1),
    required=True,
    metavar="VERSION",
    help="The version that the database has; outrider verify tells it.",
)
@_with_option
@_script_options
def upgrade(dialect: str, schema: str | None, from_version: int, extras: tuple[str, ...]) -> None:
    """Print the SQL that brings an older schema to the newest version."""
    _print_script(migrations.script(_dialect(dialect, schema), from_version, extras))


@sql.command(
    cls=Command,
    examples=(
        "outrider sql uninstall --dialect postgres",
        "outrider sql uninstall --dialect postgres --schema outbox > uninstall.sql",
        "outrider sql uninstall --dialect sqlite | sqlite3 -bail shop.db",
    ),
)
@_script_options
def uninstall(dialect: str, schema: str | None) -> None:
    """Print the SQL that removes the schema with all its events. Nothing in Outrider runs it."""
    _print_script(migrations.uninstall(_dialect(dialect, schema)))


@click.command(
    cls=Command,
    examples=(
        "outrider verify",
        "outrider verify --json | jq '.findings[] | select(.level != \"ok\")'",
        "outrider verify --database-url postgresql://shop@localhost/shop --schema outbox",
    ),
)
@json_option
@database_options
def verify(database: Database, *, as_json: bool) -> int:
    """Check that the database is what Outrider takes for granted. Changes nothing.

    Each finding that is not ok comes with its remedy. Exits with 3 if there is an error; warnings
    alone are healthy.
    """
    with database.open() as connection:
        findings = connection.read(checks.verify(connection.dialect))
    healthy = not checks.wrong(findings)
    if as_json:
        print_json({"healthy": healthy, "findings": [_document(one) for one in findings]})
    else:
        for finding in findings:
            _print_finding(finding)
    return DONE if healthy else UNHEALTHY


def _dialect(name: str, schema: str | None) -> Dialect:
    # The other settings are not looked at: what is printed depends on the options alone, so a
    # script that was reviewed is the script that is printed again.
    checked = config.SETTINGS["schema"].check(schema) if schema is not None else None
    assert checked is None or isinstance(checked, str)
    return dialect_named(name, checked)


def _print_script(text: str) -> None:
    print_line(text.rstrip("\n"))


def _print_finding(finding: checks.Finding) -> None:
    level = painted(f"{finding.level:7}", colour=_COLOURS[finding.level])
    print_line(f"{level}  {finding.code:20}  {safe(finding.what)}")
    if finding.remedy:
        print_line(f"{'':29}  fix: {safe(finding.remedy)}")


def _document(finding: checks.Finding) -> dict[str, Any]:
    found = asdict(finding)
    return {"code": found["code"], "level": found["level"], "what": found["what"]} | {
        "remedy": found["remedy"] or None
    }
