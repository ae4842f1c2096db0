"""The database a command works on: found by the settings, opened when it is needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from outrider import config
from outrider.cli.commands import schema_option, verbose_option
from outrider.cli.failures import Invocation
from outrider.errors import ConfigError

if TYPE_CHECKING:
    from outrider.connections.owned import OwnedConnection


@dataclass(frozen=True, slots=True)
class Database:
    """Which database the options, the environment and the files name."""

    settings: config.Settings

    @contextmanager
    def open(self, *, create: bool = False) -> Iterator[OwnedConnection]:
        """Connect for the length of a ``with`` block."""
        # Imported here, because a driver must not be needed to say `outrider version`.
        from outrider.connections.owned import connect  # noqa: PLC0415

        url = self.settings.database_url
        if url is None:
            raise ConfigError(
                "no database is named.\n  fix: --database-url URL, or set OUTRIDER_DATABASE_URL, "
                "or database_url in outrider.toml or [tool.outrider] of pyproject.toml"
            )
        with connect(url, self.settings.schema, create=create) as connection:
            yield connection

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return config.safe_url(self.settings.database_url or "")


def database_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--database-url`` and ``--schema``; *function* is given a Database first."""

    @click.option(
        "-d",
        "--database-url",
        metavar="URL",
        help="postgresql://user@host/database or sqlite:///path. Default: OUTRIDER_DATABASE_URL, "
        "DATABASE_URL, or what the settings files say.",
    )
    @schema_option
    @verbose_option
    @functools.wraps(function)
    def with_database(
        *args: Any, database_url: str | None, schema: str | None, **options: Any
    ) -> Any:
        run = click.get_current_context().find_object(Invocation) or Invocation()
        run.hide(database_url or "")
        settings = config.load({"database_url": database_url, "schema": schema}, flags=True)
        run.hide(settings.database_url or "")
        return function(Database(settings), *args, **options)

    return with_database
