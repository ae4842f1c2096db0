"""Find out whether a database is what the rest of Outrider takes for granted.

Each dialect asks in its own SQL (``check_server``, ``check_tables``) and answers in one form:
a code, whether all is well, and what was seen. What a code means to people is said here, once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from outrider.errors import SchemaMismatchError
from outrider.sql import schema
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan, Row
from outrider.sql.schema import Installed, SchemaObject
from outrider.sql.statement import Statement

Level: TypeAlias = Literal["error", "warning", "ok"]

RECENT_POSITIONS = 100_000
INVERTED_CAUSES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The answer to one question about the database."""

    level: Level
    what: str
    remedy: str = ""
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a code means. ``{}`` stands for what was seen."""

    well: str
    wrong: str
    remedy: str
    level: Level = "error"


CHECKS: Mapping[str, Check] = {
    "server_version": Check(
        well="{}",
        wrong="{} is too old",
        remedy="use PostgreSQL 14 or newer, or SQLite 3.37 or newer",
    ),
    "server_encoding": Check(
        well="the database is encoded in {}",
        wrong="the database is encoded in {}, so not every text can be stored as it is",
        remedy="create a database in UTF-8 and move your data there",
    ),
    "client_encoding": Check(
        well="the connection speaks {}",
        wrong="the connection speaks {}, so not every text can be sent as it is",
        remedy="connect with client_encoding=UTF8, or ALTER ROLE … SET client_encoding = 'UTF8'",
        level="warning",
    ),
    "primary": Check(
        well="the server is a {}",
        wrong="the server is a {}: it shows commits in another order, and takes no writes",
        remedy="connect to the primary, with several hosts by target_session_attrs=read-write",
    ),
    "synchronous": Check(
        well="{}",
        wrong="{}: a crash of the machine can corrupt the file",
        remedy="PRAGMA synchronous = FULL (or NORMAL) on every connection",
    ),
    "wal_reset": Check(
        well="{}",
        wrong="{}: two writers can, rarely, corrupt the file (fixed in 3.51.3)",
        remedy="use SQLite 3.51.3 or newer, or let a single process write",
        level="warning",
    ),
    "position_default": Check(
        well="a position is drawn after the transaction id",
        wrong="the default of outbox_events.position is {}: unless it takes the transaction id "
        "first, a reader can pass an event in flight and lose it",
        remedy="restore the default, as `outrider sql install` prints it, by ALTER TABLE "
        "outbox_events ALTER COLUMN position SET DEFAULT …",
    ),
    "position_sequence": Check(
        well="positions are drawn one by one",
        wrong="the sequence outbox_events_position_seq has {}: it hands out positions drawn long "
        "ago, which readers have already passed",
        remedy="stop the writers, then ALTER SEQUENCE outbox_events_position_seq CACHE 1 "
        "INCREMENT 1 NO CYCLE",
    ),
    "triggers_enabled": Check(
        well="all triggers are enabled",
        wrong="disabled, or not for every session: {}",
        remedy="ALTER TABLE … ENABLE ALWAYS TRIGGER …, and find out who disabled it",
    ),
    "tables_durable": Check(
        well="all tables survive a crash",
        wrong="not logged, so empty after a crash: {}",
        remedy="ALTER TABLE … SET LOGGED",
    ),
    "tables_strict": Check(
        well="all tables are STRICT",
        wrong="not STRICT, so columns may hold anything: {}",
        remedy="create the table again from `outrider sql install` and copy its rows",
    ),
    "rows_visible": Check(
        well="no row is hidden from {}",
        wrong="row-level security hides rows from {}, and a hidden event looks like a gap",
        remedy="DISABLE ROW LEVEL SECURITY on the tables, or use a role with BYPASSRLS",
    ),
    "log_privileges": Check(
        well="{} cannot change or remove an event, even with triggers off",
        wrong="{} may UPDATE, DELETE or TRUNCATE outbox_events; the triggers are all that holds it",
        remedy="run applications and relays as a role that does not own the tables",
        level="warning",
    ),
}


def verify(dialect: Dialect, *, recent_positions: int = RECENT_POSITIONS) -> Plan[list[Finding]]:
    """Return what is right and what is wrong with the database, most basic first.

    *recent_positions* bounds how much of the log is read.
    """
    findings = yield from check_server(dialect)
    if any(finding.code == "server_version" for finding in wrong(findings)):
        return findings
    there = yield from schema.installed(dialect)
    findings.append(version_finding(dialect, there))
    if there.version != schema.newest(dialect):
        return findings
    missing = list(_missing(dialect, there))
    findings.extend(missing or [_well("schema_objects", "nothing is missing from the schema")])
    if any(("TABLE", name) not in there.objects for name in _tables(dialect)):
        return findings
    names = {"names": json.dumps(_tables(dialect))}
    findings.extend(map(_judged, (yield Statement(dialect["check_tables"], names))))
    findings.extend((yield from _causes(dialect, recent_positions)))
    return findings


def check_server(dialect: Dialect) -> Plan[list[Finding]]:
    """Return what is right and wrong with the server, whatever tables it has."""
    rows = yield Statement(dialect["check_server"], {})
    return [_judged(row) for row in rows]


def version_finding(dialect: Dialect, there: Installed) -> Finding:
    """Compare the version of the schema with the one that this code needs."""
    newest = schema.newest(dialect)
    if there.version == newest:
        return _well("schema_version", f"the schema has version {newest}")
    if there.is_foreign:
        names = ", ".join(sorted(name for kind, name in there.objects if kind != "CONSTRAINT")[:5])
        return Finding(
            level="error",
            what=f"nothing says which version of Outrider created {names}",
            remedy="give Outrider a schema of its own (setting schema), or move the others away",
            code="schema_foreign",
        )
    if there.version == 0:
        return Finding(
            level="error",
            what="the database has no schema of Outrider",
            remedy=f"outrider migrate   (or: outrider sql install --dialect {dialect.name})",
            code="schema_missing",
        )
    if there.version < newest:
        return Finding(
            level="error",
            what=f"database schema is {there.version}, this version needs {newest}",
            remedy="outrider migrate   (or: outrider sql upgrade "
            f"--dialect {dialect.name} --from {there.version})",
            code="schema_old",
        )
    return Finding(
        level="error",
        what=f"database schema is {there.version}, and this version knows only {newest}",
        remedy="pip install --upgrade outrider, in this environment as in the one that migrated",
        code="schema_new",
    )


def wrong(findings: Iterable[Finding]) -> list[Finding]:
    """Return the errors among *findings*."""
    return [finding for finding in findings if finding.level == "error"]


def require(findings: Iterable[Finding]) -> None:
    """Raise SchemaMismatchError if there are errors among *findings*, naming them all."""
    if errors := wrong(findings):
        raise SchemaMismatchError(
            "\n".join(f"{finding.what}\n  fix: {finding.remedy}" for finding in errors)
        )


def _judged(row: Row) -> Finding:
    check = CHECKS[row["code"]]
    detail = str(row["detail"])
    if row["fine"]:
        return _well(row["code"], check.well.format(detail))
    return Finding(
        level=check.level,
        what=check.wrong.format(detail),
        remedy=check.remedy,
        code=row["code"],
    )


def _well(code: str, what: str) -> Finding:
    return Finding(level="ok", what=what, code=code)


def _missing(dialect: Dialect, there: Installed) -> Iterator[Finding]:
    lost: set[str] = set()
    for thing in schema.expected(dialect):
        if (thing.kind, thing.name) in there.objects or thing.statement in lost:
            continue
        if thing.kind == "TABLE":
            # Its constraints are lost with it.
            lost.add(thing.statement)
        yield Finding(
            level="error",
            what=f"{thing.kind.lower()} {thing.name} is missing",
            remedy=_restoring(thing),
            code="schema_objects",
        )


def _restoring(thing: SchemaObject) -> str:
    if thing.kind == "TABLE":
        return "restore it from a backup; `outrider sql install` prints its empty form"
    if thing.kind == "CONSTRAINT":
        return "add it again, as `outrider sql install` prints it, by ALTER TABLE"
    return f"create it again:\n{thing.statement}"


def _tables(dialect: Dialect) -> list[str]:
    return [thing.name for thing in schema.expected(dialect) if thing.kind == "TABLE"]


def _causes(dialect: Dialect, recent_positions: int) -> Plan[list[Finding]]:
    """Look for effects that stand before their cause: without one there is no cycle."""
    bounds = {"recent_positions": recent_positions, "row_limit": INVERTED_CAUSES_MAX}
    rows = yield Statement(dialect["inverted_causes"], bounds)
    if not rows:
        return [_well("causes_first", "no recent event stands before its cause")]
    return [
        Finding(
            # The log is append-only, so this can never be repaired and must not stop anybody.
            level="warning",
            what=f"event {row['event_id']} at position {row['position']} names as its cause "
            f"event {row['cause_id']}, which came later, at {row['cause_position']}",
            remedy="let the code that emits it take the cause from an event that was emitted "
            "before; what is in the log stays as it is",
            code="causes_first",
        )
        for row in rows
    ]
