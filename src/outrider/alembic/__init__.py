"""Outrider's schema as a branch of an application's Alembic history.

The revisions in ``versions`` are found by ``version_locations``, form a branch of their own
called ``outrider``, and execute the SQL that ``outrider migrate`` executes, so both may be used
on one database. The schema's name, where it has one, is the option ``outrider_schema``.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from alembic import op

from outrider.connections import Lookup
from outrider.errors import ConfigError
from outrider.sql import migrate
from outrider.sql.dialects import dialect_named

_DIALECTS = {"postgresql": "postgres"}


def include_name(
    name: str | None,
    type_: str,
    parent_names: object,  # noqa: ARG001 - Alembic gives it
) -> bool:
    """Keep autogenerate away from Outrider's tables, which it would otherwise drop.

    ``context.configure(include_name=include_name)``, or call it from your own.
    """
    return not (type_ == "table" and (name or "").startswith("outbox_"))


def upgrade(version: int) -> None:
    """Apply the migration to *version* within Alembic's transaction, or print it (``--sql``)."""
    context = op.get_context()
    name = context.config.get_main_option("outrider_schema") if context.config else None
    if context.as_sql:
        _print(context, version, name)
        return
    bind = op.get_bind()
    driver: Any = bind.connection.dbapi_connection
    if isinstance(driver, sqlite3.Connection) and not driver.in_transaction:
        # sqlite3 itself begins before an INSERT only, so half of it would be committed.
        bind.exec_driver_sql("BEGIN IMMEDIATE")
    connection = Lookup(schema=name, refuse_autocommit=False).sync(bind)
    connection.run(migrate.step(connection.dialect, version))


def downgrade() -> None:
    """Refuse: a downgrade would drop events."""
    raise ConfigError(
        "Outrider's revisions go forward only, because a step back would drop events. To remove "
        "Outrider with all events: outrider sql uninstall"
    )


def _print(context: Any, version: int, name: str | None) -> None:
    dialect = dialect_named(_DIALECTS.get(context.dialect.name, context.dialect.name), name)
    for text in migrate.step_script(dialect, version):
        # As it is: op.execute() would take colons for parameters.
        context.impl.static_output(text)
