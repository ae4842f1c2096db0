"""Dialects share names, parameters and row shapes; what differs is a capability, listed here."""

from __future__ import annotations

import re
import sqlite3
from importlib import resources
from itertools import combinations

import pytest

from outrider.errors import ConfigError
from outrider.records import Record
from outrider.sql import migrate, schema
from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named, dialect_names
from outrider.sql.schema import migration_files
from outrider.sql.verify import CHECKS

DIALECTS = sorted(dialect_names())
PAIRS = list(combinations(DIALECTS, 2))
QUERIES = {
    name: (resources.files("outrider.sql") / name / "queries.sql").read_text(encoding="utf-8")
    for name in DIALECTS
}

# A query that only some databases need, by the capability that says which.
OPTIONAL = {
    "emit_many": "bulk",
    "emit_many_guarded": "bulk",
    "lock_key": "locks_keys",
    "lock_schema": "locks_keys",
}

DESTRUCTIVE = re.compile(r"\b(?:DROP|TRUNCATE|DELETE)\b")
BLOCK = re.compile(r"^-- name: (\w+)\n((?:-- .+\n)+)", re.MULTILINE)


def bare(text: str) -> str:
    """Return SQL without its comments and texts."""
    return re.sub(r"--[^\n]*|'(?:[^']|'')*'", "", text)


def scripts(dialect: Dialect) -> dict[str, tuple[str, ...]]:
    names = ["frame.sql", "schema.sql", "uninstall.sql"]
    names += [f"migrations/{file}" for file in migration_files(dialect.name)]
    names += [f"{extra}.sql" for extra in schema.EXTRAS]
    return {name: dialect.script(name) for name in names}


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return dialect_named(request.param)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_dialects_define_the_same_queries(one: str, other: str) -> None:
    first, second = dialect_named(one), dialect_named(other)

    for name in first.queries.keys() ^ second.queries.keys():
        capability = OPTIONAL[name]
        assert (name in first.queries) == getattr(first, capability)
        assert (name in second.queries) == getattr(second, capability)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_dialects_ask_for_the_same_parameters(one: str, other: str) -> None:
    first, second = dialect_named(one), dialect_named(other)

    different = {
        name
        for name in first.queries.keys() & second.queries.keys()
        if first[name].parameters != second[name].parameters
    }

    assert not different


def test_a_record_has_the_parameters_of_emit_in_their_order(dialect: Dialect) -> None:
    assert dialect["emit"].order == Record.__struct_fields__


def test_one_event_is_its_columns_and_many_are_one_document(dialect: Dialect) -> None:
    assert dialect["emit_guarded"].parameters == dialect["emit"].parameters
    for name in dialect.queries.keys() & {"emit_many", "emit_many_guarded"}:
        assert dialect[name].parameters == {"events"}


def test_every_query_says_what_it_is_for(dialect: Dialect) -> None:
    assert [name for name, _ in BLOCK.findall(QUERIES[dialect.name])] == list(dialect.queries)


def test_no_query_is_defined_twice(dialect: Dialect) -> None:
    names = re.findall(r"^-- name: (\w+)$", QUERIES[dialect.name], re.MULTILINE)

    assert names == list(dialect.queries)


def test_a_query_is_one_statement(dialect: Dialect) -> None:
    for query in dialect.queries.values():
        assert ";" not in bare(query.text), query.name


def test_the_checks_of_a_dialect_are_explained(dialect: Dialect) -> None:
    codes = {
        code
        for name in ("check_server", "check_tables")
        for code in re.findall(r"'(\w+)' AS code", dialect[name].text)
    }

    assert codes
    assert codes <= CHECKS.keys()


def test_every_explained_check_is_made_by_a_dialect() -> None:
    made = {
        code
        for name in DIALECTS
        for query in ("check_server", "check_tables")
        for code in re.findall(r"'(\w+)' AS code", dialect_named(name)[query].text)
    }

    assert made == CHECKS.keys()


@pytest.mark.parametrize("shop", [None, "shop"])
def test_scripts_of_sqlite_split_into_complete_statements(shop: str | None) -> None:
    for name, texts in scripts(dialect_named("sqlite", shop)).items():
        for text in texts:
            assert sqlite3.complete_statement(text), f"{name}: {text}"
            if "CREATE TRIGGER" not in text:
                assert bare(text).count(";") == 1, f"{name}: {text}"


def test_scripts_of_postgres_split_into_statements_with_whole_bodies() -> None:
    # That each of them is a statement is shown by executing it, in the tests of migrations.
    for name, texts in scripts(dialect_named("postgres")).items():
        for text in texts:
            assert text.endswith(";")
            assert text.count("$$") in {0, 2}, f"{name}: {text}"
            assert bare(re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)).count(";") == 1


def test_the_schema_goes_before_every_name(dialect: Dialect) -> None:
    if dialect.name == "sqlite":
        # There a trigger, a view and an index lie where their table lies.
        pattern = r"(?:CREATE TABLE|INSERT INTO) outbox_\w+"
    else:
        pattern = r"(?:TABLE|INTO|FROM|JOIN|SEQUENCE|VIEW|FUNCTION|EXECUTE FUNCTION|ON) outbox_\w+"
    shop = dialect_named(dialect.name, "shop")

    for name, texts in scripts(shop).items():
        for text in texts:
            assert re.findall(pattern, re.sub(r"--[^\n]*", "", text)) == [], name
    for query in shop.queries.values():
        assert re.findall(r"(?:INTO|FROM|JOIN) outbox_\w+", query.text) == [], query.name


def test_versions_count_from_one(dialect: Dialect) -> None:
    numbers = [int(file[:4]) for file in migration_files(dialect.name)]

    assert numbers == list(range(1, len(numbers) + 1))
    assert [migration.version for migration in schema.migrations(dialect)] == numbers
    assert schema.newest(dialect) == numbers[-1]


@pytest.mark.requirement("EKB-43")
def test_every_dialect_has_the_same_migrations() -> None:
    assert len({tuple(migration_files(name)) for name in DIALECTS}) == 1


@pytest.mark.parametrize("extra", schema.EXTRAS)
def test_every_dialect_has_the_same_extras_and_they_are_no_part_of_the_schema(extra: str) -> None:
    kinds = [
        {(thing.kind, thing.name) for thing in schema.optional(dialect_named(name), extra)}
        for name in DIALECTS
    ]
    expected = {
        (thing.kind, thing.name)
        for name in DIALECTS
        for thing in schema.expected(dialect_named(name))
    }

    assert kinds[0]
    assert all(one == kinds[0] for one in kinds)
    assert not kinds[0] & expected


@pytest.mark.parametrize("extra", schema.EXTRAS)
def test_an_extra_comes_before_the_commit_and_may_be_there(dialect: Dialect, extra: str) -> None:
    statements = dialect.script(f"{extra}.sql")

    for version in range(schema.newest(dialect) + 1):
        script = migrate.script(dialect, version, [extra])

        assert script.endswith("\n\n".join([*statements, "COMMIT;"]) + "\n")
        assert not any(text in migrate.script(dialect, version) for text in statements)
    assert all(" IF NOT EXISTS " in text for text in statements)


def test_nothing_that_is_shipped_to_install_or_upgrade_removes_anything(dialect: Dialect) -> None:
    for name, texts in scripts(dialect).items():
        if name == "uninstall.sql":
            continue
        for text in texts:
            # Triggers that refuse a change have to name it.
            said = re.sub(r"\bBEFORE (?:DELETE|TRUNCATE)\b", "", bare(text))
            assert DESTRUCTIVE.findall(said) == [], f"{name}: {text}"
    for version in range(schema.newest(dialect) + 1):
        said = bare(migrate.script(dialect, version, schema.EXTRAS))
        said = re.sub(r"\bBEFORE (?:DELETE|TRUNCATE)\b", "", said)
        assert DESTRUCTIVE.findall(said) == []


def test_only_uninstall_drops_and_it_drops_every_table_and_view(dialect: Dialect) -> None:
    dropped = re.findall(r"outbox_\w+", bare(migrate.uninstall(dialect)))
    created = [
        thing.name
        for thing in schema.expected(dialect)
        if thing.kind in {"TABLE", "VIEW"}
        or (thing.kind == "FUNCTION" and dialect.name == "postgres")
    ]

    assert sorted(dropped) == sorted(created)


@pytest.mark.parametrize("version", [-1, 99])
def test_a_script_for_a_version_that_is_none_is_refused(dialect: Dialect, version: int) -> None:
    with pytest.raises(ConfigError, match=r"no version (-1|99) of the schema to upgrade from"):
        migrate.script(dialect, version)


def test_a_script_for_the_newest_version_only_checks_it(dialect: Dialect) -> None:
    newest = schema.newest(dialect)

    script = migrate.script(dialect, newest)

    assert f"= CAST({newest} AS integer)" in script or f"= {newest} THEN" in script
    assert "INSERT" not in script
    assert "CREATE" not in script


@pytest.mark.parametrize("name", ["outrider", "_", "a" * 48, "select", "s1"])
def test_a_plain_name_is_a_schema(dialect: Dialect, name: str) -> None:
    assert dialect_named(dialect.name, name).schema == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "events\n", "\nevents", "Events", "1events", "a" * 49, "a" * 64, "événements"),
        *("public.events", 'ev"ents', "ev`ents", "ev'ents", "ev ents", "ev-ents", "ev\x00ents"),
        *("events; DROP TABLE users", "events--", "events/*", "*/events", "events)"),
    ],
)
def test_anything_else_is_no_schema(dialect: Dialect, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a schema name"):
        dialect_named(dialect.name, name)


def test_an_unknown_dialect_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="no dialect 'oracle'; Outrider speaks postgres, sqlite"):
        dialect_named("oracle")
