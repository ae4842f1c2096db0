"""Every database that Outrider could lose events on is told so, with the remedy."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from outrider import Outbox
from outrider.connections import owned
from outrider.connections.sqlite import SqliteConnection
from outrider.errors import SchemaMismatchError
from outrider.sql import migrate, schema
from outrider.sql.dialects import dialect_named
from outrider.sql.verify import Finding, require, verify, wrong
from outrider.testing import migrate as migrate_for_tests
from outrider.testing.servers import postgres
from tests.fixtures.structure import opened, structure

SET_VERSION = "UPDATE outbox_schema SET version = {}"
NEWEST = schema.newest(dialect_named("postgres"))


def findings(url: str, name: str | None = None, **bounds: int) -> list[Finding]:
    with owned.connect(url, name) as connection:
        return connection.read(verify(connection.dialect, **bounds))


def migrated(url: str, name: str | None = None) -> None:
    with owned.connect(url, name) as connection:
        connection.run(migrate.migrate(connection.dialect))


def change(url: str, *statements: str) -> None:
    with opened(url) as connection:
        for statement in statements:
            connection.execute(statement)


def the(code: str, found: list[Finding]) -> Finding:
    (finding,) = [finding for finding in found if finding.code == code]
    return finding


@contextmanager
def role(url: str, *grants: str) -> Iterator[str]:
    """Yield the URL for a new role with *grants*."""
    name = f"role_{uuid4().hex}"
    change(url, f"CREATE ROLE {name} LOGIN", *(grant.format(role=name) for grant in grants))
    yield url.replace("//postgres@", f"//{name}@")
    change(url, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_migrated_database_has_no_errors(database_url: str) -> None:
    migrated(database_url)

    found = findings(database_url)

    assert wrong(found) == []
    require(found)
    assert {finding.code for finding in found} >= {
        *("server_version", "server_encoding", "schema_version", "schema_objects"),
        *("causes_first",),
    }


def test_a_schema_of_its_own_has_no_errors(postgres_url: str) -> None:
    migrated(postgres_url, "shop")

    assert wrong(findings(postgres_url, "shop")) == []
    assert the("schema_missing", findings(postgres_url)).level == "error"


def test_verifying_only_reads(database_url: str) -> None:
    migrated(database_url)
    before = structure(database_url)

    # In a transaction that the database itself holds to reading.
    findings(database_url)

    assert structure(database_url) == before


def test_an_empty_database_is_an_error(database_url: str) -> None:
    finding = the("schema_missing", findings(database_url))

    assert finding.level == "error"
    assert finding.remedy.startswith("outrider migrate")


def test_tables_of_somebody_else_are_an_error(database_url: str) -> None:
    change(database_url, "CREATE TABLE outbox_events (id integer)")

    finding = the("schema_foreign", findings(database_url))

    assert "outbox_events" in finding.what
    assert "schema of its own" in finding.remedy


@pytest.mark.parametrize(
    ("version", "code", "remedy"),
    [
        (99, "schema_new", "pip install --upgrade outrider"),
        (-3, "schema_old", "outrider migrate   (or: outrider sql upgrade --dialect "),
    ],
)
def test_another_version_is_an_error(
    database_url: str, version: int, code: str, remedy: str
) -> None:
    migrated(database_url)
    change(database_url, SET_VERSION.format(version))

    found = findings(database_url)

    finding = the(code, found)
    assert str(version) in finding.what
    assert str(NEWEST) in finding.what
    assert finding.remedy.startswith(remedy)
    with pytest.raises(SchemaMismatchError, match=f"schema is {version}"):
        require(found)


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        ("DROP INDEX outbox_deliveries_due", "index outbox_deliveries_due"),
        ("DROP VIEW outbox_status", "view outbox_status"),
        ("DROP TABLE outbox_inbox", "table outbox_inbox"),
        (
            "DROP TRIGGER outbox_events_no_update{on}",
            "trigger outbox_events_no_update",
        ),
        ("ALTER TABLE outbox_gaps RENAME TO gone", "table outbox_gaps"),
    ],
)
def test_a_missing_object_is_an_error(database_url: str, statement: str, missing: str) -> None:
    migrated(database_url)
    on = "" if database_url.startswith("sqlite") else " ON outbox_events"
    change(database_url, statement.format(on=on))

    found = [f.what for f in wrong(findings(database_url)) if f.code == "schema_objects"]

    assert f"{missing} is missing" in found


@pytest.mark.parametrize(
    ("statement", "missing"),
    [
        (
            "DROP FUNCTION outbox_refuse_change CASCADE",
            {"function outbox_refuse_change", "trigger outbox_events_no_delete"},
        ),
        (
            "ALTER TABLE outbox_events DROP CONSTRAINT outbox_events_one_payload",
            {"constraint outbox_events_one_payload"},
        ),
        (
            "ALTER TABLE outbox_events DROP CONSTRAINT outbox_events_event_id_key CASCADE",
            {"constraint outbox_events_event_id_key"},
        ),
        (
            # What is left of a CREATE INDEX CONCURRENTLY that failed.
            (
                "UPDATE pg_index SET indisvalid = FALSE"
                " WHERE indexrelid = 'outbox_events_entity'::regclass"
            ),
            {"index outbox_events_entity"},
        ),
    ],
)
def test_a_missing_object_of_postgres_is_an_error(
    postgres_url: str, statement: str, missing: set[str]
) -> None:
    migrated(postgres_url)
    change(postgres_url, statement)

    found = {f.what for f in wrong(findings(postgres_url)) if f.code == "schema_objects"}

    assert {f"{name} is missing" for name in missing} <= found


def test_the_remedy_for_a_missing_index_is_its_statement(database_url: str) -> None:
    migrated(database_url)
    before = structure(database_url)
    change(database_url, "DROP INDEX outbox_events_idempotency")

    remedy = the("schema_objects", findings(database_url)).remedy
    change(database_url, remedy.partition("\n")[2])

    assert structure(database_url) == before
    assert wrong(findings(database_url)) == []


@pytest.mark.parametrize(
    ("option", "seen"),
    [("CACHE 50", "CACHE 50"), ("INCREMENT -1", "INCREMENT -1"), ("CYCLE", "CYCLE")],
)
def test_a_sequence_that_hands_out_old_positions_is_an_error(
    postgres_url: str, option: str, seen: str
) -> None:
    migrated(postgres_url)
    change(postgres_url, f"ALTER SEQUENCE outbox_events_position_seq {option}")

    finding = the("position_sequence", findings(postgres_url))

    assert finding.level == "error"
    assert seen in finding.what
    assert "CACHE 1" in finding.remedy


@pytest.mark.parametrize(
    "default",
    [
        "SET DEFAULT nextval('outbox_events_position_seq')",
        (
            "SET DEFAULT CASE WHEN nextval('outbox_events_position_seq') > 0"
            " THEN currval('outbox_events_position_seq') END"
        ),
        (
            "SET DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL"
            " THEN nextval('outbox_events_position_seq')"
            " ELSE nextval('outbox_events_position_seq') END"
        ),
        "DROP DEFAULT",
    ],
)
def test_a_position_drawn_before_the_transaction_id_is_an_error(
    postgres_url: str, default: str
) -> None:
    migrated(postgres_url)
    change(postgres_url, f"ALTER TABLE outbox_events ALTER COLUMN position {default}")

    assert the("position_default", findings(postgres_url)).level == "error"


@pytest.mark.parametrize(
    ("statement", "trigger"),
    [
        ("outbox_events DISABLE TRIGGER outbox_events_no_delete", "outbox_events_no_delete"),
        # The default: a session that calls itself a replica does not fire it.
        ("outbox_events ENABLE TRIGGER outbox_events_no_update", "outbox_events_no_update"),
        ("outbox_events ENABLE REPLICA TRIGGER outbox_events_no_truncate", "no_truncate"),
        ("outbox_deliveries DISABLE TRIGGER ALL", "outbox_deliveries_lifecycle"),
    ],
)
def test_a_trigger_that_does_not_always_fire_is_an_error(
    postgres_url: str, statement: str, trigger: str
) -> None:
    migrated(postgres_url)
    change(postgres_url, f"ALTER TABLE {statement}")

    finding = the("triggers_enabled", findings(postgres_url))

    assert finding.level == "error"
    assert trigger in finding.what


def test_a_table_that_a_crash_would_empty_is_an_error(postgres_url: str) -> None:
    migrated(postgres_url)
    change(postgres_url, "ALTER TABLE outbox_events SET UNLOGGED")

    finding = the("tables_durable", findings(postgres_url))

    assert finding.level == "error"
    assert finding.what.endswith("crash: outbox_events")


def test_a_role_that_rows_are_hidden_from_is_an_error(postgres_url: str) -> None:
    migrated(postgres_url)
    change(postgres_url, "ALTER TABLE outbox_events ENABLE ROW LEVEL SECURITY")

    with role(postgres_url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}") as url:
        change(postgres_url, "CREATE POLICY some_rows ON outbox_events USING (tenant_id = 'a')")
        finding = the("rows_visible", findings(url))
        assert wrong(findings(postgres_url)) == []

    assert finding.level == "error"
    assert finding.what.startswith("row-level security hides rows from role_")
    assert ": outbox_events" in finding.what


def test_the_owner_is_warned_and_a_lesser_role_is_not(postgres_url: str) -> None:
    migrated(postgres_url)

    finding = the("log_privileges", findings(postgres_url))
    with role(
        postgres_url,
        "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO {role}",
        "GRANT UPDATE, DELETE ON outbox_deliveries TO {role}",
    ) as url:
        lesser = the("log_privileges", findings(url))

    assert finding.level == "warning"
    assert finding.what.startswith("postgres may UPDATE, DELETE or TRUNCATE")
    assert "does not own the tables" in finding.remedy
    assert lesser.level == "ok"


@pytest.mark.parametrize("right", ["UPDATE", "DELETE", "TRUNCATE"])
def test_a_right_to_change_the_log_is_a_warning(postgres_url: str, right: str) -> None:
    migrated(postgres_url)

    with role(
        postgres_url,
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
        f"GRANT {right} ON outbox_events TO {{role}}",
    ) as url:
        assert the("log_privileges", findings(url)).level == "warning"


def test_a_server_in_another_encoding_is_refused_before_anything_is_created(
    postgres_url: str, postgres_admin: psycopg.Connection[Any]
) -> None:
    name = f"test_{uuid4().hex}"
    postgres_admin.execute(
        f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'"
    )
    url = f"{postgres_url.rpartition('/')[0]}/{name}"
    try:
        with pytest.raises(SchemaMismatchError, match="encoded in SQL_ASCII"):
            migrated(url)
        assert structure(url) == []

        finding = the("server_encoding", findings(url))
    finally:
        postgres_admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    assert finding.level == "error"
    assert "UTF-8" in finding.remedy


def test_a_connection_in_another_encoding_is_a_warning(postgres_url: str) -> None:
    migrated(postgres_url)

    finding = the("client_encoding", findings(f"{postgres_url}?client_encoding=latin1"))

    assert finding.level == "warning"
    assert "LATIN1" in finding.what


def test_a_server_that_is_too_old_is_refused_before_anything_is_created(postgres_url: str) -> None:
    # No such server is at hand, so this one is made to say that it is one.
    change(
        postgres_url,
        "CREATE SCHEMA old",
        "CREATE FUNCTION old.current_setting(text) RETURNS text LANGUAGE sql AS"
        " $$ SELECT CASE $1 WHEN 'server_version_num' THEN '130014'"
        " WHEN 'server_version' THEN '13.14' ELSE pg_catalog.current_setting($1) END $$",
    )
    url = f"{postgres_url}?options=-csearch_path%3Dold,pg_catalog,public"

    found = findings(url)
    with pytest.raises(SchemaMismatchError, match=r"PostgreSQL 13\.14 is too old"):
        migrated(url)

    assert the("server_version", found).what == "PostgreSQL 13.14 is too old"
    assert structure(postgres_url) == []


def test_a_standby_is_refused() -> None:
    with postgres() as server:
        migrated(server.url)
        server.stop()
        # Waits for a primary that never comes, and can be read meanwhile.
        (server.folder / "data" / "standby.signal").touch()
        server.start()

        finding = the("primary", findings(server.url))
        with pytest.raises(SchemaMismatchError, match="the server is a standby"):
            migrated(server.url)

    assert finding.level == "error"
    assert "connect to the primary" in finding.remedy


def test_a_file_in_another_encoding_is_refused_before_anything_is_created(
    sqlite_path: Path,
) -> None:
    url = f"sqlite:///{sqlite_path}"
    change(url, "PRAGMA encoding = 'UTF-16le'", "CREATE TABLE orders (id integer)")

    with pytest.raises(SchemaMismatchError, match="encoded in UTF-16le"):
        migrated(url)

    assert structure(url) == []
    assert the("server_encoding", findings(url)).level == "error"


@pytest.mark.parametrize(
    ("version", "level"), [("3.36.0", "error"), ("3.37.0", "ok"), ("4.0.0", "ok")]
)
def test_a_library_that_is_too_old_is_an_error(version: str, level: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate_for_tests(connection)
        connection.create_function("sqlite_version", 0, lambda: version)
        adapter = SqliteConnection(connection, None)

        found = adapter.run(verify(adapter.dialect))

    assert the("server_version", found).level == level


@pytest.mark.parametrize(
    ("version", "mode", "level"),
    [
        ("3.51.2", "wal", "warning"),
        ("3.51.3", "wal", "ok"),
        ("3.52.0", "wal", "ok"),
        ("3.51.2", "delete", "ok"),
    ],
)
def test_the_wal_reset_bug_is_a_warning_where_it_can_bite(
    sqlite_path: Path, version: str, mode: str, level: str
) -> None:
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        migrate_for_tests(connection)
        connection.create_function("sqlite_version", 0, lambda: version)
        adapter = SqliteConnection(connection, None)

        found = adapter.run(verify(adapter.dialect))

    finding = the("wal_reset", found)
    assert finding.level == level
    assert level == "ok" or "3.51.3 or newer" in finding.remedy


@pytest.mark.parametrize(
    ("mode", "level"), [("OFF", "error"), ("NORMAL", "ok"), ("FULL", "ok"), ("EXTRA", "ok")]
)
def test_a_connection_that_does_not_sync_is_an_error(
    sqlite_path: Path, mode: str, level: str
) -> None:
    with closing(sqlite3.connect(sqlite_path)) as connection:
        # Tests of applications may well do so, and are not kept from migrating.
        connection.execute(f"PRAGMA synchronous = {mode}")
        migrate_for_tests(connection)
        adapter = SqliteConnection(connection, None)

        found = adapter.run(verify(adapter.dialect))

    assert the("synchronous", found).level == level


def test_an_attached_database_is_verified_by_itself(sqlite_path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path)) as connection:
        connection.execute("ATTACH ? AS shop", [str(tmp_path / "shop.db")])
        migrate_for_tests(connection, "shop")
        connection.execute("PRAGMA shop.synchronous = OFF")
        adapter = SqliteConnection(connection, "shop")

        found = adapter.run(verify(adapter.dialect))
        connection.execute("PRAGMA shop.synchronous = FULL")
        sound = adapter.run(verify(adapter.dialect))

    assert [finding.code for finding in wrong(found)] == ["synchronous"]
    assert wrong(sound) == []


def test_a_schema_that_nobody_attached_is_missing() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        adapter = SqliteConnection(connection, "shop")

        found = adapter.run(verify(adapter.dialect))

    assert [finding.code for finding in wrong(found)] == ["schema_missing"]


def test_a_table_that_takes_anything_is_an_error(sqlite_path: Path) -> None:
    url = f"sqlite:///{sqlite_path}"
    dialect = dialect_named("sqlite")
    script = migrate.script(dialect)
    start = script.index("CREATE TABLE outbox_inbox")
    loose = script[:start] + script[start:].replace(") STRICT;", ");", 1)
    with opened(url) as connection:
        connection.executescript(loose)

    finding = the("tables_strict", findings(url))

    assert finding.level == "error"
    assert finding.what.endswith(": outbox_inbox")


def emit_effect_before_cause(url: str) -> tuple[UUID, UUID]:
    """Write two events of which the first names the second as its cause."""
    outbox = Outbox()
    cause = uuid4()
    with opened(url) as connection:
        connection.execute("BEGIN")
        effect = outbox.emit(connection, "order.paid", {}, causation=cause).id
        outbox.emit(connection, "order.placed", {}, id=cause)
        connection.execute("COMMIT")
    return effect, cause


@pytest.mark.requirement("CAN-63", "CAN-97")
def test_a_cause_after_its_effect_is_reported(database_url: str) -> None:
    migrated(database_url)
    effect, cause = emit_effect_before_cause(database_url)

    found = findings(database_url)

    finding = the("causes_first", found)
    assert str(effect) in finding.what
    assert str(cause) in finding.what
    # What is in an append-only log can never be repaired, so it stops nobody.
    assert finding.level == "warning"
    require(found)


def test_only_the_newest_positions_are_looked_at(database_url: str) -> None:
    migrated(database_url)
    emit_effect_before_cause(database_url)
    with opened(database_url) as connection:
        connection.execute("BEGIN")
        for n in range(5):
            Outbox().emit(connection, "order.placed", {"n": n})
        connection.execute("COMMIT")

    assert the("causes_first", findings(database_url, recent_positions=5)).level == "ok"
    assert the("causes_first", findings(database_url, recent_positions=7)).level == "warning"


def test_a_cause_that_is_gone_or_elsewhere_is_fine(database_url: str) -> None:
    migrated(database_url)
    with opened(database_url) as connection:
        connection.execute("BEGIN")
        first = Outbox().emit(connection, "order.paid", {}, causation=uuid4())
        Outbox().emit(connection, "order.shipped", {}, causation=first.id)
        connection.execute("COMMIT")

    assert the("causes_first", findings(database_url)).level == "ok"


def test_everything_that_is_wrong_is_named_at_once(postgres_url: str) -> None:
    migrated(postgres_url)
    change(
        postgres_url,
        "ALTER SEQUENCE outbox_events_position_seq CACHE 50",
        "DROP INDEX outbox_events_entity",
        "ALTER TABLE outbox_events DISABLE TRIGGER outbox_events_no_delete",
    )

    with pytest.raises(SchemaMismatchError) as caught:
        require(findings(postgres_url))

    message = str(caught.value)
    assert message.count("\n  fix: ") == len(wrong(findings(postgres_url))) == 3
    for part in ("CACHE 50", "index outbox_events_entity is missing", "outbox_events_no_delete"):
        assert part in message


async def test_an_application_is_told_when_it_starts_what_cannot_be_safe(
    postgres_url: str,
) -> None:
    outbox = Outbox(namespace="shop")
    with psycopg.connect(postgres_url) as connection:
        migrate_for_tests(connection)
        assert "log_privileges" in [finding.code for finding in outbox.check(connection)]
        connection.execute("ALTER SEQUENCE outbox_events_position_seq CACHE 50")
        connection.commit()

        with pytest.raises(SchemaMismatchError, match="CACHE 1"):
            outbox.check(connection)
    async with await psycopg.AsyncConnection.connect(postgres_url) as other:
        with pytest.raises(SchemaMismatchError, match="CACHE 1"):
            await outbox.acheck(other)
