"""``outrider migrate`` and ``outrider verify`` on real databases."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from outrider.cli.main import cli
from tests.fixtures import schema


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where no file and no variable sets anything."""
    for name in os.environ:
        if name.startswith(("OUTRIDER_", "PG")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def invoke(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def test_migrate_makes_the_schema_once(database_url: str) -> None:
    first = invoke("migrate", "-d", database_url)
    second = invoke("migrate", "-d", database_url)
    document = json.loads(invoke("migrate", "-d", database_url, "--json").stdout)

    assert first.exit_code == second.exit_code == 0
    assert first.stdout.startswith("applied ")
    assert second.stdout.startswith("nothing to do: the schema has version ")
    assert document["before"] == document["after"] > 0
    assert document.keys() == {"v", "ok", "before", "after", "steps", "applied"}
    assert document["steps"] == []


def test_a_plan_is_said_and_not_done(postgres_url: str) -> None:
    planned = invoke("migrate", "-d", postgres_url, "--plan")
    document = json.loads(invoke("migrate", "-d", postgres_url, "--plan", "--json").stdout)
    done = invoke("migrate", "-d", postgres_url)

    assert planned.stdout.startswith("would apply ")
    assert (document["before"], document["applied"]) == (0, False)
    assert document["steps"][0].keys() == {"version", "name"}
    assert done.stdout == planned.stdout.replace("would apply", "applied")


def test_extras_are_made_on_demand_and_once(database_url: str) -> None:
    planned = invoke("migrate", "-d", database_url, "--plan", "--with", "reads")
    made = invoke("migrate", "-d", database_url, "--with", "reads", "--with", "reads")
    again = invoke("migrate", "-d", database_url, "--with", "reads")

    if not database_url.startswith("sqlite"):
        # There a plan needs a file.
        assert planned.stdout == made.stdout.replace("applied", "would apply")
    assert made.stdout.splitlines()[-1].endswith(" reads")
    assert len(made.stdout.splitlines()) == 2
    assert again.stdout.startswith("nothing to do")


def test_extras_are_said_as_steps(database_url: str) -> None:
    invoke("migrate", "-d", database_url)

    made = json.loads(invoke("migrate", "-d", database_url, "--with", "reads", "--json").stdout)

    assert made["before"] == made["after"]
    assert made["steps"] == [{"version": made["after"], "name": "reads"}]


def test_an_unknown_extra_is_refused(database_url: str) -> None:
    result = invoke("migrate", "-d", database_url, "--with", "writes")

    assert result.exit_code == 2
    assert "'writes' is not 'reads'" in result.stderr


@pytest.mark.parametrize("command", [("install",), ("upgrade", "--from", "1")])
@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_scripts_have_extras_on_demand(command: tuple[str, ...], dialect: str) -> None:
    plain = invoke("sql", *command, "--dialect", dialect)
    more = invoke("sql", *command, "--dialect", dialect, "--with", "reads")

    assert "outbox_events_action\n" not in plain.stdout
    assert "outbox_events_action\n" in more.stdout
    assert more.stdout.endswith("\nCOMMIT;\n")


def test_verify_neither_asks_for_extras_nor_minds_them(database_url: str) -> None:
    invoke("migrate", "-d", database_url)
    without = invoke("verify", "-d", database_url)
    invoke("migrate", "-d", database_url, "--with", "reads")
    with_them = invoke("verify", "-d", database_url)
    with schema.connect(database_url) as database:
        database.run("DROP INDEX outbox_events_type")
    with_some = invoke("verify", "-d", database_url)

    assert without.exit_code == with_them.exit_code == with_some.exit_code == 0
    assert without.stdout == with_them.stdout == with_some.stdout


def test_a_schema_of_its_own_is_made_and_found(postgres_url: str) -> None:
    assert invoke("migrate", "-d", postgres_url, "--schema", "outbox").exit_code == 0

    assert invoke("verify", "-d", postgres_url, "--schema", "outbox").exit_code == 0
    assert invoke("verify", "-d", postgres_url, "--schema", "other").exit_code == 3
    with psycopg.connect(postgres_url) as tx:
        found = tx.execute("SELECT to_regclass('outbox.outbox_events')").fetchone()
    assert found == ("outbox.outbox_events",)


def test_settings_come_from_a_file(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "outrider.toml").write_text(f"database_url = '{database_url}'\n")

    assert invoke("migrate").exit_code == 0
    assert invoke("verify").exit_code == 0


def test_verify_exits_with_3_and_a_remedy_where_nothing_is(postgres_url: str) -> None:
    people = invoke("verify", "-d", postgres_url)
    machines = invoke("verify", "-d", postgres_url, "--json")

    document = json.loads(machines.stdout)
    assert people.exit_code == machines.exit_code == 3
    assert "fix: outrider migrate" in people.stdout
    assert (document["ok"], document["healthy"]) == (True, False)
    wrong = [one for one in document["findings"] if one["level"] == "error"]
    assert [one["code"] for one in wrong] == ["schema_missing"]
    assert wrong[0].keys() == {"code", "level", "what", "remedy"}


def test_verify_is_well_after_migrate(database_url: str) -> None:
    invoke("migrate", "-d", database_url)

    people = invoke("verify", "-d", database_url)
    document = json.loads(invoke("verify", "-d", database_url, "--json").stdout)

    assert people.exit_code == 0
    assert people.stderr == ""
    assert document["healthy"] is True
    assert {one["level"] for one in document["findings"]} <= {"ok", "warning"}
    assert all(one["remedy"] for one in document["findings"] if one["level"] != "ok")


def test_verify_tells_what_is_missing(database_url: str) -> None:
    invoke("migrate", "-d", database_url)
    with schema.connect(database_url) as database:
        database.run("DROP INDEX outbox_events_idempotency")

    result = invoke("verify", "-d", database_url)

    assert result.exit_code == 3
    assert "outbox_events_idempotency" in result.stdout


def test_a_newer_schema_is_refused_with_a_remedy(database_url: str) -> None:
    invoke("migrate", "-d", database_url)
    with schema.connect(database_url) as database:
        database.run("INSERT INTO outbox_schema (version) VALUES (999)")

    result = invoke("migrate", "-d", database_url, "--json")

    document = json.loads(result.stdout)
    assert result.exit_code == 3
    assert document["code"] == "OUT032"
    assert "999" in document["error"]
    assert document["remedy"].startswith("pip install --upgrade outrider")
