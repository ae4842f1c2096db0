"""What the schema consists of, and what of it a database has.

``schema.sql`` is the truth for new databases, the files in ``migrations`` lead old ones there.
Their numbers are the versions of the schema. Beside it a database may have extras: each is a file
of its own, created on demand, and nothing asks whether it is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan
from outrider.sql.statement import Query, Statement

_CREATED = re.compile(
    r"^CREATE (?:UNIQUE )?(TABLE|INDEX|VIEW|TRIGGER|FUNCTION|SEQUENCE) "
    r"(?:IF NOT EXISTS )?(?:\"\w+\"\.)?(\w+)",
    re.MULTILINE,
)
_CONSTRAINT = re.compile(r"^ *CONSTRAINT (\w+)", re.MULTILINE)

EXTRAS = ("reads",)
"""What a database may have beside the schema, by the names of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObject:
    """A table, index, view, trigger, function, sequence or constraint."""

    kind: str
    name: str
    statement: str
    """What creates it; for a constraint, its whole table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What leads from the version before to *version*."""

    version: int
    name: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """What a database has."""

    version: int
    """0 where there is nothing, or no record of a version."""
    objects: frozenset[tuple[str, str]]
    """Kinds and names of those of our objects that are there."""
    has_place: bool = True
    """Whether the schema they are to live in exists."""

    @property
    def is_foreign(self) -> bool:
        """Whether objects have our names and no record says that they are ours."""
        return bool(self.objects) and self.version == 0


def expected(dialect: Dialect) -> tuple[SchemaObject, ...]:
    """Return what a database of the newest version has."""
    return _created(dialect.script("schema.sql"))


def optional(dialect: Dialect, name: str) -> tuple[SchemaObject, ...]:
    """Return what the extra *name* consists of."""
    return _created(dialect.script(f"{name}.sql"))


def migrations(dialect: Dialect) -> tuple[Migration, ...]:
    """Return all migrations, oldest first."""
    return tuple(
        Migration(
            version=int(file[:4]),
            name=file.removesuffix(".sql"),
            statements=statements(dialect, f"migrations/{file}"),
        )
        for file in migration_files(dialect.name)
    )


def statements(dialect: Dialect, file: str) -> tuple[Statement, ...]:
    """Return the statements of one of the dialect's SQL files."""
    return tuple(Statement(Query(file, text), {}) for text in dialect.script(file))


def migration_files(dialect: str) -> Sequence[str]:
    """Return the names of the dialect's migrations, oldest first."""
    folder = resources.files("outrider.sql") / dialect / "migrations"
    return sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))


def newest(dialect: Dialect) -> int:
    """Return the version that this code needs."""
    return int(migration_files(dialect.name)[-1][:4])


def installed(dialect: Dialect) -> Plan[Installed]:
    """Look at what is there."""
    if dialect.schema is not None:
        (row,) = yield Statement(dialect["has_schema"], {"schema_name": dialect.schema})
        if not row["is_there"]:
            return Installed(version=0, objects=frozenset(), has_place=False)
    found = yield from _existing(dialect, expected(dialect))
    version = 0
    if ("TABLE", "outbox_schema") in found:
        (row,) = yield Statement(dialect["schema_version"], {})
        version = row["version"] or 0
    return Installed(version=version, objects=found)


def absent(dialect: Dialect, things: Sequence[SchemaObject]) -> Plan[list[SchemaObject]]:
    """Return those of *things* that the database does not have."""
    found = yield from _existing(dialect, things)
    return [thing for thing in things if (thing.kind, thing.name) not in found]


def _existing(dialect: Dialect, things: Sequence[SchemaObject]) -> Plan[frozenset[tuple[str, str]]]:
    names = sorted({thing.name for thing in things})
    rows = yield Statement(dialect["existing_objects"], {"names": json.dumps(names)})
    return frozenset((str(row["kind"]), str(row["name"])) for row in rows)


@cache
def _created(texts: tuple[str, ...]) -> tuple[SchemaObject, ...]:
    return tuple(found for text in texts for found in _created_by(text))


def _created_by(text: str) -> Iterator[SchemaObject]:
    match = _CREATED.search(text)
    if match is None:
        return
    yield SchemaObject(kind=match[1], name=match[2], statement=text)
    if match[1] == "TABLE":
        for constraint in _CONSTRAINT.finditer(text):
            yield SchemaObject(kind="CONSTRAINT", name=constraint[1], statement=text)
