"""Write docs/reference/connections.md: python -m tests.contract.page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.testing.contracts.connections import SavepointContract
from tests.contract import test_connections

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.contract.kinds import Kind

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "connections.md"
COMMAND = "python -m tests.contract.page"

INTRO = f"""\
# Connections

<!-- Generated from the contract suite's test classes: {COMMAND} -->

`emit` takes the connection that your own data goes through, and never opens, begins, commits, rolls
back, closes or configures it. It is recognised by the qualified name of its class or of one of its
bases, so no driver is imported for you, and subclasses work. Row factories, cursor factories, text
factories and codecs that you have set on it do not matter.

A connection that would commit the event by itself, apart from your data, is refused with
`NotInTransactionError`. `Outbox(on_autocommit="allow")` lets it through.
"""

KINDS = """\
## How to write to each kind

| Connection | Recognised by | It would commit by itself where | Write |
|---|---|---|---|
"""

NOTES = """\
Connections of `psycopg_pool` are psycopg's own. An AsyncSession takes plain events without an await
and writes them with its next flush; an event with an idempotency key, an id or an entity version of
yours, `lock=True` or sensitive fields asks the database something and needs `aemit`.

A session that binds its classes one by one (`binds=`) needs a bind of its own for the log, to the
engine of the business tables: it is refused where it has none.
"""

PASSED = """\
## What is tested

Every row passes its suite of `outrider.testing.contracts.connections` in every run of the tests,
whose summary counts it. The same suites test [an adapter of your
own](../howto/custom-connection.md).

| Connection | Database | Savepoints | Passed |
|---|---|---|---|
"""

SAVEPOINTS = """\
On SQLite through SQLAlchemy, savepoints need [SQLAlchemy's own recipe][recipe]: SQLAlchemy begins
the transaction instead of the driver. Without it a SAVEPOINT that comes before the first write is a
transaction of its own, for your data and events alike.

[recipe]: https://docs.sqlalchemy.org/en/21/dialects/sqlite.html#sqlite-enabling-transactions
"""


def main() -> None:
    PAGE.write_text(render(), encoding="utf-8")


def render() -> str:
    kinds = "".join(_kind_row(kind) for kind in dict.fromkeys(suite.kind for suite in suites()))
    passed = "".join(_suite_row(suite) for suite in suites())
    return f"{INTRO}\n{KINDS}{kinds}\n{NOTES}\n{PASSED}{passed}\n{SAVEPOINTS}"


def suites() -> Iterable[Any]:
    """Answer the test classes of the suite, in the order in which they are written."""
    return [cls for name, cls in vars(test_connections).items() if name.startswith("Test")]


def _kind_row(kind: Kind) -> str:
    cells = (kind.title, f"`{kind.recognised}`", kind.commits_by_itself, f"`{kind.write}`")
    return f"| {' | '.join(cells)} |\n"


def _suite_row(suite: Any) -> str:
    savepoints = "yes" if issubclass(suite, SavepointContract) else "no"
    return f"| {suite.kind.title} | {suite.database} | {savepoints} | ✓ |\n"


if __name__ == "__main__":
    main()
