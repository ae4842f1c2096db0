"""SQLite, by the standard library's sqlite3."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from outrider.connections import Connection, Lookup
from outrider.errors import ConfigError, SchemaMismatchError, StoreError, StoreUnavailableError
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan
from outrider.urls import DatabaseUrl

T = TypeVar("T")

BUSY_SECONDS_MAX = 10.0
_RETRY_SECONDS = 0.01
_MEMORY = ":memory:"


@contextmanager
def connect(url: DatabaseUrl, schema: str | None, *, create: bool) -> Iterator[SqliteConnection]:
    """Open the file of *url*: WAL, synced at every commit, waiting a while for other writers."""
    if schema not in {None, "main"}:
        raise ConfigError(
            f"schema {schema!r} would be an attached database, and a URL of SQLite attaches none; "
            "leave the schema out and give the path of that database"
        )
    place = _place(url)
    with _translated(url.shown):
        connection = sqlite3.connect(
            _uri(place, create=create), uri=True, isolation_level=None, timeout=BUSY_SECONDS_MAX
        )
    with closing(connection):
        with _translated(url.shown):
            _configure(connection, keep_journal=not create)
        adapter = Lookup(schema=schema, refuse_autocommit=False).sync(connection)
        yield SqliteConnection(connection, adapter, url.shown)


@dataclass(frozen=True, slots=True)
class SqliteConnection:
    """A sqlite3 connection that begins nothing by itself."""

    _tx: sqlite3.Connection
    _adapter: Connection
    _shown: str

    @property
    def dialect(self) -> Dialect:
        """SQLite's."""
        return self._adapter.dialect

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* in one transaction that holds the write lock from its beginning."""
        return self._run(plan, "BEGIN IMMEDIATE")

    def read(self, plan: Plan[T]) -> T:
        """Run *plan* on one snapshot, without the write lock."""
        with _translated(self._shown):
            self._tx.execute("PRAGMA query_only = ON")
        try:
            return self._run(plan, "BEGIN")
        finally:
            self._tx.execute("PRAGMA query_only = OFF")

    def _run(self, plan: Plan[T], begin: str) -> T:
        with _translated(self._shown):
            self._tx.execute(begin)
            try:
                result = self._adapter.run(plan)
                self._tx.execute("COMMIT")
            except BaseException:
                # Some errors have rolled back by themselves.
                if self._tx.in_transaction:
                    self._tx.execute("ROLLBACK")
                raise
            return result


def _place(url: DatabaseUrl) -> str:
    """Return the path of *url*: three slashes before a relative one, four before an absolute."""
    host, slash, path = url.place.partition("/")
    if host or (slash and not path):
        raise ConfigError(
            f"{url.shown} names no file; write sqlite:///relative/path, "
            f"sqlite:////absolute/path or sqlite:///{_MEMORY}"
        )
    return path or _MEMORY


def _uri(place: str, *, create: bool) -> str:
    if place == _MEMORY:
        return "file::memory:"
    # An absolute path, because "file:" has no other form for one that begins with two slashes.
    return f"file:{quote(str(Path(place).absolute()))}?mode={'rwc' if create else 'rw'}"


def _configure(connection: sqlite3.Connection, *, keep_journal: bool) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    if keep_journal:
        # The journal's mode stays with the file, so whoever only looks must not change it.
        return
    deadline = time.monotonic() + BUSY_SECONDS_MAX
    while True:
        try:
            # Asked first, because only a change needs the file for itself; a database in memory
            # answers with a mode of its own and has no file to keep.
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            if mode not in {"wal", "memory"}:
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # The change does not wait for others, whatever the timeout of the connection is.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


@contextmanager
def _translated(shown: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error).startswith(("no such table", "no such column", "no such view")):
            raise SchemaMismatchError(
                f"the database {shown} lacks something of Outrider's: {error}\n"
                "  fix: outrider migrate"
            ) from error
        raise StoreUnavailableError(
            f"the database {shown} cannot be used now: {error}\n"
            "  fix: see that the path is right, its folder exists and may be written, and nobody "
            "keeps a transaction open, then try again"
        ) from error
    except sqlite3.Error as error:
        raise StoreError(f"the database {shown} refused a statement: {error}") from error


def _is_busy(error: sqlite3.OperationalError) -> bool:
    # The lower byte: the upper ones say why.
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
