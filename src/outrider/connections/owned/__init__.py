"""Connections that we open ourselves, for commands: each plan runs in a transaction of its own.

Nothing here touches a connection of the application. An adapter is imported when a URL asks
for it, so a missing driver is an error of that URL and of nobody else.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import Protocol, TypeVar

from outrider import urls
from outrider.errors import MissingDependencyError
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan

T = TypeVar("T")

_EXTRAS: dict[urls.Product, str] = {"postgres": "postgres"}


class OwnedConnection(Protocol):
    """A connection that nobody else has."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the database behind it."""
        ...

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* in one transaction: committed at its end, rolled back if it raises."""
        ...

    def read(self, plan: Plan[T]) -> T:
        """Run *plan*, which only reads, in one transaction that holds up no writer."""
        ...


def connect(
    url: str, schema: str | None = None, *, create: bool = True
) -> AbstractContextManager[OwnedConnection]:
    """Open the database of *url* for the length of a ``with`` block.

    *create* says whether a file of SQLite may be new.

    Raises:
        ConfigError: the URL or the schema cannot be used.
        MissingDependencyError: the driver is not installed.
        StoreUnavailableError: the database cannot be reached; also raised by each run.

    >>> from outrider.sql.migrate import migrate
    >>> with connect("sqlite:///:memory:") as connection:
    ...     upgrade = connection.run(migrate(connection.dialect))
    """
    database = urls.parse(url)
    try:
        adapter = import_module(f"{__name__}.{database.product}")
    except ImportError as error:
        extra = _EXTRAS.get(database.product, database.product)
        raise MissingDependencyError(f"the database {database.shown}", extra) from error
    opened: AbstractContextManager[OwnedConnection] = adapter.connect(
        database, schema, create=create
    )
    return opened
