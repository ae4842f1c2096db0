"""Help with testing: throwaway servers, contracts and fakes, for applications and for us."""

from __future__ import annotations

import sqlite3
from typing import Any

from outrider.connections import Lookup
from outrider.sql import migrate as migrations

__all__ = ["migrate"]


def migrate(tx: Any, schema: str | None = None) -> None:
    """Bring the database behind a connection to the newest schema, and commit.

    For tests: an application's database is migrated by ``outrider migrate``.

    >>> migrate(sqlite3.connect(":memory:"))
    """
    connection = Lookup(schema=schema, refuse_autocommit=False).sync(tx)
    if isinstance(tx, sqlite3.Connection) and not tx.in_transaction:
        # sqlite3 itself begins before an INSERT only, so half of the schema would be committed.
        tx.execute("BEGIN IMMEDIATE")
    connection.run(migrations.migrate(connection.dialect))
    tx.commit()
