"""The command line as far as it needs no database: help, usage, settings, printed SQL."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from outrider.cli import reference
from outrider.cli.commands import Command, Group
from outrider.cli.failures import EXIT_CODES
from outrider.cli.main import COMMANDS, cli
from outrider.cli.topics import TOPICS

ROOT = Path(__file__).parents[2]
SECRET = "S3cret"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run where no file and no variable sets anything."""
    for name in os.environ:
        if name.startswith(("OUTRIDER_", "PG")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def invoke(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def outrider(*args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "outrider", *args],
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, **variables},
    )


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its words."""
    context = click.Context(cli, info_name="outrider")
    yield "", cli
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                found = command.get_command(context, child)
                assert found is not None
                yield f"{name} {child}", found


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_every_help_tells_exit_codes_and_ends_with_three_examples(words: str) -> None:
    result = invoke(*words.split(), "--help")

    assert result.exit_code == 0
    head, _, examples = result.stdout.partition("\nExamples:\n")
    assert len(examples.splitlines()) == 3
    assert all(line.startswith("  outrider ") for line in examples.splitlines())
    for code, says in EXIT_CODES.items():
        assert f"{code} {says}" in " ".join(head.split())


@pytest.mark.parametrize("words", [words for words, _ in commands()])
def test_every_example_is_accepted(words: str) -> None:
    command = dict(commands())[words]
    assert isinstance(command, Command | Group)
    for example in command.examples:
        args = example.removeprefix("outrider ").split(" | ")[0].split(" > ")[0]
        # Parsed only: the options of each are known and their values are accepted.
        result = CliRunner().invoke(cli, [*_words(args), "--help"])
        assert result.exit_code == 0, result.stderr


def _words(line: str) -> list[str]:
    return [part.strip("'") for part in re.findall(r"'[^']*'|\S+", line)]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["evnts"], "no command 'evnts'; did you mean 'events'?"),
        (["events", "lst"], "no command 'lst'; did you mean 'list'?"),
        (["zzz"], "known are migrate, sql, verify"),
        (["events", "list", "--wher", "x"], "--where"),
        (["events", "list", "--limit", "0"], "0 is not in the range"),
        (["events", "list", "--limit", "1e9"], "not a valid integer"),
        (["events", "list", "--before", "-1"], "-1 is not in the range"),
        (["events", "list", "--fields", "id,typ"], "no field 'typ'; did you mean 'type'?"),
        (["events", "list", "--where", "typ:x"], "did you mean 'type'?"),
        (["events", "show"], "Missing argument"),
        (["events", "show", "x", "-d", "sqlite:///x"], "neither the id of an event"),
        (["events", "tail", "--interval", "soon"], "'soon' is not a duration"),
        (["events", "export", "--format", "xml"], "'xml' is not one of 'jsonl', 'cloudevents'"),
        (["events", "export", "--append"], "name one"),
        (["sql", "install", "--dialect", "oracle"], "'oracle' is not one of"),
        (["sql", "install"], "Missing option '--dialect'"),
        (["sql", "install", "--dialect", "sqlite", "--schema", "a;b"], "is not a schema name"),
        (["sql", "upgrade", "--dialect", "sqlite", "--from", "99"], "there is no version 99"),
        (["migrate"], "no database is named"),
        (["verify", "-d", "mysql://db/shop"], "no database is spoken to by mysql://"),
        (["migrate", "--schema", "A", "-d", "sqlite:///x"], "setting schema (--schema): 'A'"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_to_do(args: list[str], says: str) -> None:
    people = invoke(*args)
    machines = invoke(*args, "--json")

    assert people.exit_code == machines.exit_code == 2
    assert people.stdout == ""
    assert says in people.stderr
    document = json.loads(machines.stdout)
    assert (document["v"], document["ok"]) == (1, False)
    assert document["code"].startswith("OUT")


def test_one_document_and_lines_exclude_each_other() -> None:
    result = invoke("events", "list", "-d", "sqlite:///x", "--json", "--jsonl")

    assert result.exit_code == 2
    assert "keep one" in json.loads(result.stdout)["error"]


@pytest.mark.parametrize("words", [[], ["events"], ["sql"]])
def test_a_group_alone_shows_its_help(words: list[str]) -> None:
    result = invoke(*words)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Usage: outrider")


@pytest.mark.parametrize(
    "args",
    [
        ["migrate", "-d", f"postgres//shop:{SECRET}@db/shop"],
        ["migrate", f"postgresql://shop:{SECRET}@db/shop"],
        ["migrate", "-d", f"postgresql://shop:{SECRET}@127.0.0.1:1/shop"],
        ["migrate", "-d", f"postgresql://shop:a/{SECRET}@127.0.0.1:1/shop"],
        ["migrate", "-d", f"postgresql://shop:{SECRET}@127.0.0.1:1/shop?nonsense=1"],
        ["migrate", "-d", f"postgresql://shop@127.0.0.1:1/shop?password={SECRET}"],
        ["migrate", "-d", f"postgresql://shop:{SECRET}@127.0.0.1:port/shop"],
        ["events", "list", "-d", f"host=127.0.0.1 password={SECRET}"],
        ["events", "list", "--where", f"postgresql://shop:{SECRET}@db/shop"],
        [f"postgresql://shop:{SECRET}@db/shop"],
        ["events", "show", f"postgresql://shop:{SECRET}@db/shop", "-d", "sqlite:///x"],
        ["help", f"postgresql://shop:{SECRET}@db/shop"],
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"], ["-v"], ["--help"]])
def test_no_answer_shows_a_password(args: list[str], more: list[str]) -> None:
    result = invoke(*args, *more)

    assert SECRET not in result.output
    assert result.exit_code in {0, 2, 5, 69}


@pytest.mark.parametrize("variable", ["OUTRIDER_DATABASE_URL", "DATABASE_URL"])
def test_no_answer_shows_a_password_of_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in (f"postgresql://shop:{SECRET}@127.0.0.1:1/shop", f"shop:{SECRET}@db"):
        monkeypatch.setenv(variable, url)
        for args in (["verify"], ["verify", "-v"], ["verify", "--json"], ["verify", "--help"]):
            assert SECRET not in invoke(*args).output


def test_a_database_that_does_not_answer_exits_with_69() -> None:
    result = invoke("verify", "--json", "-d", "postgresql://shop@127.0.0.1:1/shop")

    document = json.loads(result.stdout)
    assert result.exit_code == 69
    assert document["code"] == "OUT031"
    assert "postgresql://shop@127.0.0.1:1/shop" in document["error"]
    assert document["remedy"]


def test_reading_creates_no_file(tmp_path: Path) -> None:
    result = invoke("events", "list", "-d", f"sqlite:///{tmp_path}/new.db")

    assert result.exit_code == 69
    assert not (tmp_path / "new.db").exists()


WITHOUT_PSYCOPG = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"psycopg", "asyncpg", "sqlalchemy", "cryptography"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from outrider.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("args", "exit_code"),
    [
        (["--help"], 0),
        (["version"], 0),
        (["events", "list", "--help"], 0),
        (["sql", "install", "--dialect", "postgres"], 0),
        (["migrate", "-d", "sqlite:///shop.db"], 0),
        (["verify", "-d", f"postgresql://shop:{SECRET}@db/shop"], 2),
    ],
)
def test_a_missing_driver_is_an_error_of_its_own_databases_only(
    args: list[str], exit_code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PSYCOPG, *args],
        capture_output=True,
        check=False,
        text=True,
    )

    assert done.returncode == exit_code, done.stderr
    assert SECRET not in done.stderr
    if exit_code:
        assert "error OUT011" in done.stderr
        assert 'pip install "outrider[postgres]"' in done.stderr


def test_version_imports_no_driver_and_no_command_but_itself() -> None:
    program = (
        "import sys\nfrom outrider.cli.main import cli\n"
        "cli.main(['version'], standalone_mode=False)\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )

    modules = set(done.stdout.splitlines()[-1].split())
    assert "outrider.cli.version" in modules
    assert not modules & {"psycopg", "asyncpg", "sqlalchemy", "cryptography", "outrider.bench"}
    assert not modules & {"outrider.cli.events", "outrider.cli.schema", "outrider.cli.bench"}


def test_version_is_told_to_people_and_programs() -> None:
    people = outrider("version")
    machines = outrider("version", "--json")

    assert re.fullmatch(r"outrider \d\S*, Python 3\.\S+\n", people.stdout)
    document = json.loads(machines.stdout)
    assert document.keys() == {"v", "ok", "version", "python"}
    assert people.stderr == machines.stderr == ""


def test_a_mistake_of_ours_shows_its_traceback_only_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_name: str) -> str:
        raise ZeroDivisionError(f"at postgresql://u:{SECRET}@db")

    monkeypatch.setattr("outrider.cli.version.installed_version", broken)

    short, long = invoke("version"), invoke("version", "-v")

    assert short.exit_code == long.exit_code == 1
    assert "error OUT000: ZeroDivisionError" in short.stderr
    assert "Traceback" not in short.stderr
    assert "Traceback" in long.stderr
    assert SECRET not in short.stderr + long.stderr


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_name: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("outrider.cli.version.installed_version", interrupted)

    assert invoke("version").exit_code == 130


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_has_a_text_that_fits_a_terminal(topic: str) -> None:
    result = invoke("help", topic)

    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert topic in invoke("help").stdout


def test_help_knows_commands_and_the_nearest_topic() -> None:
    assert invoke("help", "events").stdout.startswith("Usage: outrider events ")
    unknown = invoke("help", "filter")
    assert unknown.exit_code == 5
    assert "did you mean 'filters'?" in unknown.stderr


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_sql_is_printed_alone_and_needs_no_database(
    dialect: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", "nonsense")

    result = invoke("sql", verb, "--dialect", dialect)

    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith("--")
    assert result.stdout.endswith("COMMIT;\n")
    assert ("DROP " in result.stdout) is (verb == "uninstall")


def test_printed_sql_is_bound_to_the_schema() -> None:
    result = invoke("sql", "install", "--dialect", "postgres", "--schema", "outbox")

    assert 'CREATE TABLE "outbox".outbox_events' in result.stdout


def test_printed_sql_makes_the_database_that_migrate_makes(tmp_path: Path) -> None:
    printed, migrated = tmp_path / "printed.db", tmp_path / "migrated.db"
    with closing(sqlite3.connect(printed)) as connection:
        connection.executescript(invoke("sql", "install", "--dialect", "sqlite").stdout)
    invoke("migrate", "-d", f"sqlite:///{migrated}")

    assert structure(printed) == structure(migrated) != []
    assert invoke("verify", "-d", f"sqlite:///{printed}").exit_code == 0


def structure(path: Path) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2"
        ).fetchall()


@pytest.mark.parametrize("page", reference.pages())
def test_the_reference_says_what_the_code_says(page: str) -> None:
    written = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")

    assert written == reference.pages()[page], "python -m outrider.cli.reference docs/reference"


def test_every_command_of_the_table_can_be_loaded() -> None:
    context = click.Context(cli, info_name="outrider")

    for name in COMMANDS:
        assert isinstance(cli.get_command(context, name), click.Command)
