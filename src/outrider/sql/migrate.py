"""Bring a database to the newest version of the schema, without losing a row.

A new database gets ``schema.sql``, an older one the migrations that it lacks. All of it happens
in one transaction, which the caller opens and which holds the migration lock, so of several
processes one migrates, the others find nothing left to do, and a crash leaves nothing behind::

    lock --> look at the server --> look at what is there --+--> newest: nothing to do
                                                            +--> older: migrations, versions
                                                            +--> nothing: schema.sql, version
                                                            +--> newer, or foreign: refuse

Extras come after that, in the same transaction: what is there already is not created again, so a
second run takes no lock that a writer would wait for.

SQLite needs no lock of ours if the caller begins IMMEDIATE; PostgreSQL takes READ COMMITTED.
Never run this within a transaction of the application: use ``outrider.connections.owned``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.errors import ConfigError, SchemaMismatchError
from outrider.sql import schema
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan
from outrider.sql.schema import Installed, Migration, SchemaObject
from outrider.sql.statement import Query, Statement
from outrider.sql.verify import Finding, check_server, require, version_finding

# Durability is a matter of each connection, and the one that migrates emits nothing.
_FOUNDATIONS = frozenset({"server_version", "server_encoding", "primary"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """What was done, or is to be done: nothing if there are neither steps nor extras."""

    before: int
    """0 for a database without the schema."""
    after: int
    steps: tuple[Migration, ...]
    extras: tuple[Extra, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """What of an extra the database lacks."""

    name: str
    absent: tuple[SchemaObject, ...]


def migrate(dialect: Dialect, extras: Sequence[str] = ()) -> Plan[Upgrade]:
    """Bring the schema to the newest version, with *extras*; return what that took.

    Raises:
        SchemaMismatchError: the schema is newer, the tables are somebody else's, the server
            cannot hold them, or an index was left half-built.

    """
    return (yield from _migrate(dialect, schema.migrations(dialect), extras))


def plan(dialect: Dialect, extras: Sequence[str] = ()) -> Plan[Upgrade]:
    """Return what ``migrate`` would do, without a lock or a write."""
    known = schema.migrations(dialect)
    there = yield from _look(dialect, known)
    return (yield from _upgrade(dialect, known, there, extras))


def step(dialect: Dialect, version: int) -> Plan[None]:
    """Apply the migration to *version* alone, for tools that keep the order themselves.

    A database that has it already is left as it is.
    """
    (migration,) = (known for known in schema.migrations(dialect) if known.version == version)
    yield from _lock(dialect)
    there = yield from schema.installed(dialect)
    if there.version >= version:
        return
    if there.version != version - 1 or there.is_foreign:
        raise _refusal(version_finding(dialect, there))
    yield from _make_room(dialect, there)
    yield from _apply(dialect, [migration])


def step_script(dialect: Dialect, version: int) -> list[str]:
    """Return the statements of ``step``, for tools that print instead of executing."""
    (migration,) = (known for known in schema.migrations(dialect) if known.version == version)
    return [
        *(dialect.prelude if version == 1 else ()),
        *(statement.query.text for statement in migration.statements),
        _with_version(dialect["record_version"], version),
    ]


def script(dialect: Dialect, from_version: int = 0, extras: Sequence[str] = ()) -> str:
    """Return SQL that installs the schema, or upgrades it from *from_version*, with *extras*."""
    newest = schema.newest(dialect)
    if not 0 <= from_version <= newest:
        raise ConfigError(
            f"there is no version {from_version} of the schema to upgrade from; "
            f"this version of Outrider knows 1 to {newest}"
        )
    parts = [f"-- Outrider: the schema from version {from_version} to {newest}."]
    parts += dialect.script("frame.sql")
    if from_version:
        parts.append(_with_version(dialect["require_version"], from_version))
        for version in range(from_version + 1, newest + 1):
            parts += step_script(dialect, version)
    else:
        parts += [*dialect.prelude, *dialect.script("schema.sql")]
        parts.append(_with_version(dialect["record_version"], newest))
    for name in extras:
        parts += dialect.script(f"{name}.sql")
    return "\n\n".join([*parts, "COMMIT;"]) + "\n"


def uninstall(dialect: Dialect) -> str:
    """Return SQL that removes the schema with all events. Nothing in Outrider runs it."""
    parts = [*dialect.script("frame.sql"), *dialect.script("uninstall.sql"), "COMMIT;"]
    return "\n\n".join(parts) + "\n"


def _migrate(
    dialect: Dialect, known: Sequence[Migration], extras: Sequence[str] = ()
) -> Plan[Upgrade]:
    yield from _lock(dialect)
    there = yield from _look(dialect, known)
    upgrade = yield from _upgrade(dialect, known, there, extras)
    yield from _make_room(dialect, there)
    yield from _apply(dialect, upgrade.steps)
    for extra in upgrade.extras:
        yield from _create(dialect, extra)
    return upgrade


def _look(dialect: Dialect, known: Sequence[Migration]) -> Plan[Installed]:
    """Look at what is there; refuse what cannot be upgraded."""
    findings = yield from check_server(dialect)
    require(finding for finding in findings if finding.code in _FOUNDATIONS)
    there = yield from schema.installed(dialect)
    if there.is_foreign or there.version > known[-1].version:
        raise _refusal(version_finding(dialect, there))
    return there


def _upgrade(
    dialect: Dialect, known: Sequence[Migration], there: Installed, extras: Sequence[str]
) -> Plan[Upgrade]:
    lacking: list[Extra] = []
    for name in extras:
        things: Sequence[SchemaObject] = schema.optional(dialect, name)
        if there.version:
            things = yield from schema.absent(dialect, things)
        if things:
            lacking.append(Extra(name=name, absent=tuple(things)))
    return Upgrade(
        before=there.version,
        after=known[-1].version,
        steps=tuple(_steps(dialect, known, there.version)),
        extras=tuple(lacking),
    )


def _steps(dialect: Dialect, known: Sequence[Migration], version: int) -> Sequence[Migration]:
    """Return what leads from *version* to the newest one."""
    if version:
        return [migration for migration in known if migration.version > version]
    whole = schema.statements(dialect, "schema.sql")
    return [Migration(version=known[-1].version, name="schema", statements=whole)]


def _apply(dialect: Dialect, steps: Sequence[Migration]) -> Plan[None]:
    for migration in steps:
        for statement in migration.statements:  # noqa: UP028 - a tuple takes no rows back
            yield statement
        yield Statement(dialect["record_version"], {"version": migration.version})


def _create(dialect: Dialect, extra: Extra) -> Plan[None]:
    for thing in extra.absent:
        yield Statement(Query(extra.name, thing.statement), {})
    # IF NOT EXISTS passes over an index that CREATE INDEX CONCURRENTLY has left behind half-built.
    if half_built := (yield from schema.absent(dialect, extra.absent)):
        names = ", ".join(thing.name for thing in half_built)
        raise SchemaMismatchError(
            f"an attempt to create {names} was left half-built, so no query can use it\n"
            f"  fix: DROP INDEX {names}; then: outrider migrate --with {extra.name}"
        )


def _lock(dialect: Dialect) -> Plan[None]:
    if dialect.locks_keys:
        yield Statement(dialect["lock_schema"], {})


def _make_room(dialect: Dialect, there: Installed) -> Plan[None]:
    """Create the schema that the tables are to live in, unless the operator has done so."""
    if there.has_place:
        return
    if not dialect.prelude:
        raise ConfigError(
            f"no database is attached as {dialect.schema!r}; ATTACH it first, or leave the "
            "schema out"
        )
    for text in dialect.prelude:
        yield Statement(Query("prelude", text), {})


def _refusal(finding: Finding) -> SchemaMismatchError:
    return SchemaMismatchError(f"{finding.what}\n  fix: {finding.remedy}")


def _with_version(query: Query, version: int) -> str:
    return query.text.replace(":version", str(version)) + ";"
