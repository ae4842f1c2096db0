"""A connection of our own: each plan in a transaction, each failure an error of ours."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outrider.connections import owned
from outrider.connections.owned.sqlite import BUSY_SECONDS_MAX
from outrider.errors import (
    ConfigError,
    MissingDependencyError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)
from outrider.sql.plan import Plan, Row
from outrider.sql.statement import Query, Statement
from outrider.testing.servers import PostgresServer, postgres
from tests.fixtures.structure import opened

PASSWORD = "S3cret"


def plan(*texts: str) -> Plan[list[Row]]:
    """Execute *texts*; return the rows of the last."""
    rows: Any = ()
    for text in texts:
        rows = yield Statement(Query("test", text), {})
    return list(rows)


def failing(*texts: str) -> Plan[None]:
    yield from plan(*texts)
    raise KeyError("mine")


def value(url: str, text: str) -> Any:
    with owned.connect(url) as connection:
        (row,) = connection.run(plan(text))
        return next(iter(row.values()))


def test_a_plan_that_ends_is_committed(database_url: str) -> None:
    with owned.connect(database_url) as connection:
        connection.run(plan("CREATE TABLE t (n integer)", "INSERT INTO t VALUES (1)"))

        with opened(database_url) as other:
            assert other.execute("SELECT n FROM t").fetchall() == [(1,)]


def test_a_plan_that_raises_is_rolled_back_and_the_next_one_runs(database_url: str) -> None:
    with owned.connect(database_url) as connection:
        connection.run(plan("CREATE TABLE t (n integer)"))
        with pytest.raises(KeyError, match="mine"):
            connection.run(failing("INSERT INTO t VALUES (1)"))
        with pytest.raises(StoreError):
            connection.run(plan("INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3, 4)"))

        assert connection.run(plan("SELECT count(*) AS n FROM t")) == [{"n": 0}]


def test_reading_cannot_write_and_writing_works_again(database_url: str) -> None:
    with owned.connect(database_url) as connection:
        connection.run(plan("CREATE TABLE t (n integer)"))
        with pytest.raises(StoreUnavailableError, match=r"read-?only"):
            connection.read(plan("INSERT INTO t VALUES (1)"))

        connection.run(plan("INSERT INTO t VALUES (2)"))

        assert connection.read(plan("SELECT n FROM t")) == [{"n": 2}]


def test_reading_holds_up_no_writer(sqlite_path: Path) -> None:
    url = f"sqlite:///{sqlite_path}"
    with owned.connect(url) as connection, opened(url) as other:
        connection.run(plan("CREATE TABLE t (n integer)"))

        def read() -> Plan[None]:
            yield from plan("SELECT n FROM t")
            other.execute("PRAGMA busy_timeout = 0")
            other.execute("INSERT INTO t VALUES (1)")

        connection.read(read())

        assert connection.read(plan("SELECT n FROM t")) == [{"n": 1}]


def test_the_dialect_is_bound_to_the_schema(postgres_url: str) -> None:
    with owned.connect(postgres_url, "shop") as connection:
        assert (connection.dialect.name, connection.dialect.schema) == ("postgres", "shop")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_way_to_write_a_url_of_postgres(postgres_url: str, scheme: str) -> None:
    assert value(postgres_url.replace("postgresql", scheme, 1), "SELECT 1") == 1


def test_a_connection_to_postgres_says_who_it_is(postgres_url: str) -> None:
    query = "SELECT current_setting('application_name')"

    assert value(postgres_url, query) == "outrider"
    assert value(f"{postgres_url}?application_name=mine", query) == "mine"


def test_a_connection_to_postgres_is_read_committed_and_speaks_utf8(postgres_url: str) -> None:
    url = f"{postgres_url}?options=-cdefault_transaction_isolation%3Dserializable"

    assert value(url, "SELECT current_setting('transaction_isolation')") == "read committed"
    assert value(url, "SELECT current_setting('client_encoding')") == "UTF8"


def test_statements_are_not_prepared_for_the_sake_of_poolers(postgres_url: str) -> None:
    with owned.connect(postgres_url) as connection:
        connection.run(plan(*["SELECT 1"] * 20))

        assert connection.run(plan("SELECT name FROM pg_prepared_statements")) == []


def test_a_file_of_sqlite_is_durable_and_shared(sqlite_path: Path) -> None:
    url = f"sqlite:///{sqlite_path}"

    assert value(url, "SELECT journal_mode FROM pragma_journal_mode") == "wal"
    assert value(url, "SELECT synchronous FROM pragma_synchronous") == 2
    assert value(url, "SELECT timeout FROM pragma_busy_timeout") == BUSY_SECONDS_MAX * 1000


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite://"])
def test_sqlite_in_memory(url: str) -> None:
    with owned.connect(url) as connection:
        connection.run(plan("CREATE TABLE t (n integer)"))

        assert connection.read(plan("SELECT n FROM t")) == []


def test_three_slashes_are_relative_and_four_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a %3f1 é.db"

    value(f"sqlite:///{name}", "SELECT 1")
    value(f"sqlite:///{tmp_path}/other.db", "SELECT 1")
    value(f"sqlite+pysqlite:///{tmp_path}/third.db?timeout=3", "SELECT 1")

    files = {path.name for path in tmp_path.iterdir() if path.suffix == ".db"}
    assert files == {name, "other.db", "third.db"}


def test_a_file_that_must_exist_is_not_created(sqlite_path: Path) -> None:
    with (
        pytest.raises(StoreUnavailableError, match="unable to open database file"),
        owned.connect(f"sqlite:///{sqlite_path}", create=False),
    ):
        pass

    assert not sqlite_path.exists()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://shop.db", "sqlite:///relative/path"),
        ("sqlite:///", "sqlite:///relative/path"),
        ("oracle://db", "no database is spoken to by oracle"),
    ],
)
def test_a_url_that_names_no_database_is_refused(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says), owned.connect(url):
        pass


def test_a_schema_on_sqlite_is_refused(sqlite_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match="schema 'shop' would be an attached database"),
        owned.connect(f"sqlite:///{sqlite_path}", "shop"),
    ):
        pass


def test_a_file_that_is_no_database_is_an_error_of_ours(sqlite_path: Path) -> None:
    sqlite_path.write_bytes(b"no database at all" * 100)

    with pytest.raises(StoreError, match="file is not a database"):
        value(f"sqlite:///{sqlite_path}", "SELECT 1")


def test_a_locked_file_is_unavailable(sqlite_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.connections.owned.sqlite.BUSY_SECONDS_MAX", 0.05)
    url = f"sqlite:///{sqlite_path}"
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailableError, match="database is locked"):
            value(url, "SELECT 1")


def test_a_file_that_cannot_become_wal_in_time_is_unavailable(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outrider.connections.owned.sqlite.BUSY_SECONDS_MAX", 0.05)
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (n integer)")
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreUnavailableError, match="database is locked"):
            value(f"sqlite:///{sqlite_path}", "SELECT 1")


def test_missing_tables_are_a_mismatch_with_the_remedy(database_url: str) -> None:
    with pytest.raises(SchemaMismatchError, match="outrider migrate"):
        value(database_url, "SELECT 1 FROM outbox_events")


def test_a_missing_privilege_is_named(postgres_url: str) -> None:
    with opened(postgres_url) as connection:
        connection.execute("CREATE TABLE closed ()")
        connection.execute("CREATE ROLE reader_without_rights LOGIN")
    url = postgres_url.replace("postgres@", "reader_without_rights@")
    try:
        with pytest.raises(StoreError, match="permission denied for table closed"):
            value(url, "SELECT 1 FROM closed")
    finally:
        with opened(postgres_url) as connection:
            connection.execute("DROP ROLE reader_without_rights")


@pytest.mark.parametrize(
    "place",
    [
        # Nobody listens at port 1.
        "127.0.0.1:1/shop",
        "127.0.0.1:notaport/shop",
        "/shop?host=/nowhere&password=S3cret",
        "127.0.0.1:1/shop?sslmode=nonsense",
        "127.0.0.1:1/shop?nonsense=S3cret",
    ],
)
def test_no_error_shows_the_password(place: str) -> None:
    url = f"postgresql://shop:{PASSWORD}@{place}"

    with pytest.raises((StoreUnavailableError, ConfigError)) as caught, owned.connect(url):
        pass

    error: BaseException | None = caught.value
    while error is not None:
        assert PASSWORD not in str(error)
        error = error.__cause__
    assert "postgresql://shop:***@" in str(caught.value)


def test_a_wrong_password_is_not_shown() -> None:
    with postgres() as server:
        require_passwords(server)
        url = server.url.replace("postgres@", f"postgres:{PASSWORD}@")

        with pytest.raises(StoreUnavailableError, match="password") as caught, owned.connect(url):
            pass

    assert PASSWORD not in str(caught.value)


def require_passwords(server: PostgresServer) -> None:
    server.stop()
    (server.folder / "data" / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")
    server.start()


def test_a_server_that_went_away_is_unavailable_and_the_connection_closes() -> None:
    with postgres() as server, owned.connect(server.url) as connection:
        connection.run(plan("SELECT 1"))
        server.stop()

        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                connection.run(plan("SELECT 1"))


def test_without_a_driver_the_extra_is_named(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "outrider.connections.owned.postgres", raising=False)

    with pytest.raises(MissingDependencyError, match=r'pip install "outrider\[postgres\]"'):
        owned.connect(postgres_url)
