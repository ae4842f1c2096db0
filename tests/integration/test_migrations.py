"""A database comes to the newest schema whole, once and without losing a row, or not at all."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from outrider.connections import Lookup, owned
from outrider.errors import ConfigError, SchemaMismatchError, StoreError
from outrider.sql import migrate, schema
from outrider.sql.dialects import dialect_named
from outrider.sql.plan import Plan, Rows, Step
from outrider.sql.schema import Migration
from outrider.sql.statement import Query, Statement
from outrider.testing import migrate as migrate_for_tests
from outrider.testing.servers import find_postgres
from tests.fixtures.structure import columns, counts, fill, opened, structure, versions

NEWEST = schema.newest(dialect_named("postgres"))
READING = {"lock_schema", "has_schema", "check_server", "existing_objects", "schema_version"}
PROCESSES = 4

# Says "ready" before each statement of the given numbers and goes on when it is told so.
PROGRAM = """
import sys
from outrider.connections import owned
from outrider.sql.migrate import migrate

def halting(plan, numbers):
    rows = None
    number = 0
    try:
        while True:
            step = plan.send(rows)
            if number in numbers:
                print("ready", flush=True)
                sys.stdin.readline()
            number += 1
            rows = yield step
    except StopIteration as stop:
        return stop.value

url, *numbers = sys.argv[1:]
with owned.connect(url) as connection:
    plan = halting(migrate(connection.dialect), set(map(int, numbers)))
    print(connection.run(plan).before, flush=True)
"""


class CrashError(Exception):
    """The end of a process, as far as a plan can tell."""


def crashing(plan: Plan[Any], statements: int) -> Plan[Any]:
    """Run *plan* up to its statement number *statements*."""
    rows: Any = None
    for _ in range(statements):
        rows = yield plan.send(rows)
    raise CrashError


def recorded(plan: Plan[Any], names: list[str]) -> Plan[Any]:
    """Run *plan* and note the names of its queries."""
    rows: Any = None
    while True:
        try:
            step = plan.send(rows)
        except StopIteration as stop:
            return stop.value
        names.append(step.query.name)
        rows = yield step


def migrated(url: str, name: str | None = None, extras: Sequence[str] = ()) -> migrate.Upgrade:
    with owned.connect(url, name) as connection:
        return connection.run(migrate.migrate(connection.dialect, extras))


def at_version(url: str, version: int) -> None:
    """Make a database as the release of this version has left it."""
    with owned.connect(url) as connection:
        for number in range(1, version + 1):
            connection.run(migrate.step(connection.dialect, number))


def psql(url: str, script: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("psql") or str(find_postgres().folder / "psql")
    if not Path(program).exists():
        pytest.skip("this PostgreSQL brings no psql")
    return subprocess.run(
        [program, "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--dbname={url}"],
        input=script,
        check=False,
        capture_output=True,
        text=True,
    )


def apply(url: str, script: str) -> str:
    """Apply a script as its first lines say; return what it complains about."""
    if not url.startswith("sqlite"):
        return psql(url, script).stderr
    with opened(url) as connection:
        try:
            connection.executescript(script)
        except sqlite3.Error as error:
            return str(error)
        return ""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def start(started: list[subprocess.Popen[str]], url: str, *numbers: int) -> subprocess.Popen[str]:
    """Start a process that migrates *url* and waits before the statements *numbers*."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url, *map(str, numbers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started.append(process)
    return process


def say(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_new_database_gets_the_newest_schema(database_url: str) -> None:
    upgrade = migrated(database_url)

    assert (upgrade.before, upgrade.after) == (0, NEWEST)
    assert [step.name for step in upgrade.steps] == ["schema"]
    assert versions(database_url) == [NEWEST]


@pytest.mark.requirement("EKB-43")
def test_all_migrations_together_make_what_schema_sql_makes(
    postgres_url: str, sqlite_path: Path, tmp_path: Path
) -> None:
    for url, twin in (
        (postgres_url, postgres_url),
        (f"sqlite:///{sqlite_path}", f"sqlite:///{tmp_path / 'twin.db'}"),
    ):
        at_version(url, NEWEST)
        by_migrations = structure(url)
        if url == twin:
            apply(url, migrate.uninstall(dialect_named("postgres")))
        migrated(twin)

        assert by_migrations == structure(twin)
        assert by_migrations != []


def test_a_second_run_changes_nothing(database_url: str) -> None:
    migrated(database_url)
    fill(database_url)
    before = structure(database_url), counts(database_url), versions(database_url)

    upgrade = migrated(database_url)

    assert (upgrade.before, upgrade.after, upgrade.steps) == (NEWEST, NEWEST, ())
    assert (structure(database_url), counts(database_url), versions(database_url)) == before


def test_a_second_run_only_reads(database_url: str) -> None:
    migrated(database_url)
    names: list[str] = []

    with owned.connect(database_url) as connection:
        # A transaction that the database itself holds to reading.
        connection.read(recorded(migrate.migrate(connection.dialect), names))

    assert set(names) <= READING


def test_the_plan_says_what_would_run_and_runs_nothing(database_url: str) -> None:
    with owned.connect(database_url) as connection:
        plan = connection.read(migrate.plan(connection.dialect))

    assert (plan.before, plan.after) == (0, NEWEST)
    assert "CREATE TABLE" in "".join(s.query.text for step in plan.steps for s in step.statements)
    assert structure(database_url) == []


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_no_row_is_lost_on_the_way_from_any_version(database_url: str, version: int) -> None:
    at_version(database_url, version)
    fill(database_url)
    before = counts(database_url)
    tables = {name for name in before if name not in views(database_url)}
    assert all(before[table] for table in tables), "a table without a row proves nothing"

    migrated(database_url)

    after = counts(database_url)
    recorded_versions = {"outbox_schema": before["outbox_schema"] + NEWEST - version}
    assert {table: after[table] for table in tables} == (
        {table: before[table] for table in tables} | recorded_versions
    )
    assert versions(database_url)[-1] == NEWEST


def views(url: str) -> set[str]:
    dialect = dialect_named("sqlite" if url.startswith("sqlite") else "postgres")
    return {thing.name for thing in schema.expected(dialect) if thing.kind == "VIEW"}


def later(dialect_name: str, *texts: str) -> list[Migration]:
    """Return our migrations and one that does not exist yet."""
    statements = tuple(Statement(Query("later", text), {}) for text in texts)
    dialect = dialect_named(dialect_name)
    newer = Migration(version=NEWEST + 1, name="later", statements=statements)
    return [*schema.migrations(dialect), newer]


def test_an_older_database_gets_the_migrations_that_it_lacks(database_url: str) -> None:
    migrated(database_url)
    fill(database_url)
    before = counts(database_url)

    with owned.connect(database_url) as connection:
        dialect = connection.dialect
        known = later(dialect.name, "ALTER TABLE outbox_log ADD COLUMN later text")
        upgrade = connection.run(migrate._migrate(dialect, known))

    assert (upgrade.before, upgrade.after) == (NEWEST, NEWEST + 1)
    assert [step.name for step in upgrade.steps] == ["later"]
    assert versions(database_url) == [NEWEST, NEWEST + 1]
    assert ("outbox_log", "later") in columns(database_url)
    assert counts(database_url) == before | {"outbox_schema": 2}


def test_a_newer_database_is_refused_and_left_alone(database_url: str) -> None:
    migrated(database_url)
    with opened(database_url) as connection:
        connection.execute("INSERT INTO outbox_schema (version) VALUES (99)")
    before = structure(database_url), versions(database_url)

    with pytest.raises(
        SchemaMismatchError,
        match=rf"schema is 99, and this version knows only {NEWEST}\n  fix: pip install",
    ):
        migrated(database_url)

    assert (structure(database_url), versions(database_url)) == before


def test_tables_of_somebody_else_are_refused_and_left_alone(database_url: str) -> None:
    with opened(database_url) as connection:
        connection.execute("CREATE TABLE outbox_events (id integer)")

    with pytest.raises(SchemaMismatchError, match=r"created outbox_events\n  fix: give Outrider a"):
        migrated(database_url)

    assert columns(database_url) == {("outbox_events", "id")}


def test_a_record_that_lost_its_rows_is_no_new_database(database_url: str) -> None:
    migrated(database_url)
    with opened(database_url) as connection:
        connection.execute("DELETE FROM outbox_schema")

    with pytest.raises(SchemaMismatchError, match="nothing says which version"):
        migrated(database_url)


@pytest.mark.timeout(60)
def test_an_exception_at_any_statement_leaves_nothing_behind(database_url: str) -> None:
    # Up to the statement that records the version; after it only the commit follows.
    with owned.connect(database_url) as connection:
        dialect = connection.dialect
        names: list[str] = []
        with pytest.raises(CrashError):
            connection.run(undone(recorded(migrate.migrate(dialect), names)))
        assert names[-1] == "record_version"

        for statements in range(len(names) + 1):
            with pytest.raises(CrashError):
                connection.run(crashing(migrate.migrate(dialect), statements))
            found = connection.read(schema.installed(dialect))
            assert found.objects == frozenset(), f"after {statements} statements"

        connection.run(migrate.migrate(dialect))

    assert versions(database_url) == [NEWEST]


def undone(plan: Plan[Any]) -> Plan[Any]:
    """Run *plan* to its end, then crash."""
    yield from plan
    raise CrashError


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_killed_process_leaves_nothing_behind(
    database_url: str, started: list[subprocess.Popen[str]], share: float
) -> None:
    dialect = dialect_named("sqlite" if database_url.startswith("sqlite") else "postgres")
    process = start(started, database_url, int(share * len(dialect.script("schema.sql"))))
    assert say(process) == "ready"

    process.send_signal(signal.SIGKILL)
    process.wait()

    # On PostgreSQL this waits for the lock until the server has noticed.
    assert migrated(database_url).before == 0
    assert versions(database_url) == [NEWEST]


def test_a_failed_migration_leaves_the_older_schema(database_url: str) -> None:
    migrated(database_url)
    before = structure(database_url)

    with owned.connect(database_url) as connection:
        dialect = connection.dialect
        known = later(
            dialect.name,
            "ALTER TABLE outbox_log ADD COLUMN later text",
            "INSERT INTO outbox_log (id) VALUES (1)",
        )
        with pytest.raises(StoreError, match="refused a statement"):
            connection.run(migrate._migrate(dialect, known))

    assert structure(database_url) == before
    assert versions(database_url) == [NEWEST]


def test_processes_that_migrate_at_once_make_one_schema(
    database_url: str, started: list[subprocess.Popen[str]]
) -> None:
    # Each waits before its first statement, on SQLite within its transaction: only one gets there.
    waits = () if database_url.startswith("sqlite") else (0,)
    processes = [start(started, database_url, *waits) for _ in range(PROCESSES)]
    for process in processes:
        assert not waits or say(process) == "ready"

    outputs = [process.communicate("\n") for process in processes]

    assert [process.returncode for process in processes] == [0] * PROCESSES, outputs
    befores = sorted(output.split()[-1] for output, _ in outputs)
    assert befores == sorted(["0"] + [str(NEWEST)] * (PROCESSES - 1))
    assert versions(database_url) == [NEWEST]


@pytest.mark.requirement("EKB-23", "OO-IN-10")
def test_every_database_has_the_same_tables_and_columns(
    postgres_url: str, sqlite_path: Path
) -> None:
    sqlite_url = f"sqlite:///{sqlite_path}"
    migrated(postgres_url)
    migrated(sqlite_url)

    assert columns(postgres_url) == columns(sqlite_url)


def test_a_schema_is_created_where_it_is_missing(postgres_url: str) -> None:
    migrated(postgres_url, "shop")

    assert structure(postgres_url, "public") == []
    assert structure(postgres_url, "shop") != []


def test_two_schemas_do_not_see_each_other(postgres_url: str) -> None:
    upgrades = [migrated(postgres_url, name) for name in ("shop", None, "billing", "shop")]

    assert [upgrade.before for upgrade in upgrades] == [0, 0, 0, NEWEST]


def test_a_schema_that_is_there_needs_no_right_to_create_one(postgres_url: str) -> None:
    with opened(postgres_url) as connection:
        connection.execute("CREATE ROLE migrator LOGIN")
        try:
            connection.execute("CREATE SCHEMA shop AUTHORIZATION migrator")
            upgrade = migrated(postgres_url.replace("postgres@", "migrator@"), "shop")
        finally:
            connection.execute("DROP OWNED BY migrator CASCADE")
            connection.execute("DROP ROLE migrator")

    assert upgrade.after == NEWEST


def test_a_stricter_default_isolation_is_no_obstacle(
    postgres_url: str, started: list[subprocess.Popen[str]]
) -> None:
    url = f"{postgres_url}?options=-cdefault_transaction_isolation%3Dserializable"
    processes = [start(started, url, 0) for _ in range(2)]
    for process in processes:
        assert say(process) == "ready"

    outputs = [process.communicate("\n") for process in processes]

    assert [process.returncode for process in processes] == [0, 0], outputs


def test_an_attached_database_is_a_schema_on_sqlite(sqlite_path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path)) as connection:
        with pytest.raises(ConfigError, match="no database is attached as 'shop'"):
            migrate_for_tests(connection, "shop")
        connection.rollback()
        connection.execute("ATTACH ? AS shop", [str(tmp_path / "shop.db")])
        migrate_for_tests(connection, "shop")
        migrate_for_tests(connection, "shop")

        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        version = connection.execute("SELECT max(version) FROM shop.outbox_schema").fetchone()
        assert version == (NEWEST,)


async def test_the_same_plan_runs_on_an_async_driver(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        async with connection.transaction():
            adapter = await Lookup().aio(connection)
            upgrade = await adapter.run(migrate.migrate(adapter.dialect))
    finally:
        await connection.close()

    assert (upgrade.before, upgrade.after) == (0, NEWEST)
    assert migrated(postgres_url).steps == ()


@pytest.mark.parametrize("name", [None, "shop"])
def test_the_install_script_makes_what_migrate_makes(postgres_url: str, name: str | None) -> None:
    dialect = dialect_named("postgres", name)
    place = name or "public"

    assert psql(postgres_url, migrate.script(dialect)).stderr == ""

    by_script = structure(postgres_url, place)
    assert migrated(postgres_url, name).before == NEWEST
    assert psql(postgres_url, migrate.uninstall(dialect)).stderr == ""
    assert structure(postgres_url, place) == []
    assert migrated(postgres_url, name).before == 0
    assert structure(postgres_url, place) == by_script


def test_the_install_script_makes_what_migrate_makes_on_sqlite(
    sqlite_path: Path, tmp_path: Path
) -> None:
    url, twin = f"sqlite:///{sqlite_path}", f"sqlite:///{tmp_path / 'twin.db'}"

    assert apply(url, migrate.script(dialect_named("sqlite"))) == ""

    assert migrated(url).before == NEWEST
    migrated(twin)
    assert structure(url) == structure(twin)
    assert apply(url, migrate.uninstall(dialect_named("sqlite"))) == ""
    assert structure(url) == []


def test_an_install_script_applied_twice_fails_and_changes_nothing(database_url: str) -> None:
    dialect = dialect_named("sqlite" if database_url.startswith("sqlite") else "postgres")
    script = migrate.script(dialect)
    apply(database_url, script)
    fill(database_url)
    before = structure(database_url), counts(database_url)

    assert "already exists" in apply(database_url, script)

    assert (structure(database_url), counts(database_url)) == before


def test_an_upgrade_script_fits_its_version_only(database_url: str) -> None:
    dialect = dialect_named("sqlite" if database_url.startswith("sqlite") else "postgres")
    script = migrate.script(dialect, NEWEST)
    migrated(database_url)
    assert apply(database_url, script) == ""

    with opened(database_url) as connection:
        connection.execute("UPDATE outbox_schema SET version = 77")

    assert "the schema has another version: 77" in apply(database_url, script)


def test_uninstall_spares_what_depends_on_it(postgres_url: str) -> None:
    migrated(postgres_url)
    with opened(postgres_url) as connection:
        connection.execute("CREATE VIEW report AS SELECT event_id FROM outbox_events")
    before = structure(postgres_url)

    assert "depend" in psql(postgres_url, migrate.uninstall(dialect_named("postgres"))).stderr

    assert structure(postgres_url) == before


def test_a_step_that_was_taken_is_not_taken_again(database_url: str) -> None:
    at_version(database_url, NEWEST)
    before = structure(database_url), versions(database_url)

    at_version(database_url, NEWEST)

    assert (structure(database_url), versions(database_url)) == before


@pytest.mark.parametrize("isolation_level", ["", "IMMEDIATE", None])
def test_the_helper_for_tests_takes_any_sqlite3_connection(isolation_level: Any) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=isolation_level)) as connection:
        migrate_for_tests(connection)
        assert not connection.in_transaction
        connection.rollback()

        version = connection.execute("SELECT max(version) FROM outbox_schema").fetchone()
        assert version == (NEWEST,)


@pytest.mark.parametrize("autocommit", [False, True])
def test_the_helper_for_tests_takes_any_psycopg_connection(
    postgres_url: str, autocommit: bool
) -> None:
    with opened(postgres_url) as connection:
        connection.autocommit = autocommit
        migrate_for_tests(connection, "shop")
        migrate_for_tests(connection, "shop")

    assert structure(postgres_url, "shop") != []


def test_extras_come_with_the_schema_or_later_and_once(database_url: str) -> None:
    first = migrated(database_url)
    later = migrated(database_url, extras=["reads"])
    with_them = structure(database_url)
    again = migrated(database_url, extras=["reads"])

    assert first.extras == again.extras == ()
    assert later.steps == ()
    assert [thing.name for extra in later.extras for thing in extra.absent] == [
        "outbox_events_type",
        "outbox_events_causation",
        "outbox_events_actor",
        "outbox_events_action",
    ]
    assert structure(database_url) == with_them
    assert versions(database_url) == [NEWEST]

    dialect = dialect_named("sqlite" if database_url.startswith("sqlite") else "postgres")
    assert apply(database_url, migrate.uninstall(dialect)) == ""
    assert structure(database_url) == []
    at_once = migrated(database_url, extras=["reads"])
    assert (len(at_once.steps), at_once.extras) == (1, later.extras)
    assert structure(database_url) == with_them


def test_extras_that_are_there_take_no_lock(database_url: str) -> None:
    migrated(database_url, extras=["reads"])
    names: list[str] = []

    with owned.connect(database_url) as connection:
        connection.read(recorded(migrate.migrate(connection.dialect, ["reads"]), names))

    assert set(names) <= READING


def test_only_what_an_extra_lacks_is_created(database_url: str) -> None:
    migrated(database_url, extras=["reads"])
    before = structure(database_url)
    with opened(database_url) as connection:
        connection.execute("DROP INDEX outbox_events_actor")

    with owned.connect(database_url) as connection:
        planned = connection.read(migrate.plan(connection.dialect, ["reads"]))
    done = migrated(database_url, extras=["reads"])

    assert planned == done
    assert [thing.name for thing in done.extras[0].absent] == ["outbox_events_actor"]
    assert structure(database_url) == before


@pytest.mark.parametrize("name", [None, "shop"])
def test_scripts_create_the_same_extras(postgres_url: str, name: str | None) -> None:
    dialect = dialect_named("postgres", name)
    place = name or "public"
    migrated(postgres_url, name, ["reads"])
    by_migrate = structure(postgres_url, place)
    psql(postgres_url, migrate.uninstall(dialect))

    scripts = [
        migrate.script(dialect, extras=["reads"]),
        migrate.script(dialect, NEWEST, ["reads"]),
    ]

    for script in scripts:
        # Of what is there already, notices tell.
        assert psql(postgres_url, script).returncode == 0
        assert structure(postgres_url, place) == by_migrate


def test_scripts_create_the_same_extras_on_sqlite(sqlite_path: Path, tmp_path: Path) -> None:
    url, twin = f"sqlite:///{sqlite_path}", f"sqlite:///{tmp_path / 'twin.db'}"
    migrated(url)
    migrated(twin, extras=["reads"])

    for _ in range(2):
        assert apply(url, migrate.script(dialect_named("sqlite"), NEWEST, ["reads"])) == ""

    assert structure(url) == structure(twin)


def test_extras_go_into_an_attached_database(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS shop", [str(tmp_path / "shop.db")])
        dialect = dialect_named("sqlite", "shop")
        for text in (*dialect.script("schema.sql"), *dialect.script("reads.sql")):
            connection.execute(text)

        query = "SELECT count(*) FROM {}.sqlite_master WHERE name = 'outbox_events_action'"
        assert connection.execute(query.format("main")).fetchone() == (0,)
        assert connection.execute(query.format("shop")).fetchone() == (1,)


def test_an_index_that_was_left_half_built_is_told(postgres_url: str) -> None:
    migrated(postgres_url, extras=["reads"])
    with opened(postgres_url) as connection:
        connection.execute(
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'outbox_events_type'::regclass"
        )

    with pytest.raises(
        SchemaMismatchError, match=r"outbox_events_type was left half.*\n  fix: DROP INDEX outbox"
    ):
        migrated(postgres_url, extras=["reads"])


def rows_of(plan: Plan[Any], answers: list[Rows]) -> list[Step]:
    """Feed recorded rows to *plan*; return the steps it took."""
    steps = [next(plan)]
    steps += [plan.send(rows) for rows in answers]
    return steps


def test_the_lock_comes_before_anything_is_looked_at() -> None:
    (first,) = rows_of(migrate.migrate(dialect_named("postgres")), [])

    assert first.query.name == "lock_schema"
