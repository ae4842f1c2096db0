"""What commands write: nothing that a terminal obeys, and exact JSON."""

from __future__ import annotations

import io
import json
import sys
from decimal import Decimal

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.cli import failures, output
from outrider.cli.failures import Invocation, failure_of
from outrider.cli.output import json_pretty, json_text, safe, safe_lines
from outrider.errors import (
    ConfigError,
    EncodingError,
    MissingDependencyError,
    SchemaMismatchError,
    StoreError,
    StoreUnavailableError,
)

SECRET = "S3cret"
HOSTILE = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\u202e",
    "\u2066",
    "\u200f",
    "a\nb",
    "a\rb",
    "\x9b31m",
    "\x7f",
    "\u2028",
    "\x00",
    "\ud800",
    "\ufeff",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_not_printable_is_escaped(text: str) -> None:
    assert safe(text).isprintable()
    assert safe(f"ü漢🎉{text}").startswith("ü漢🎉")


@given(st.text())
def test_one_text_is_one_printable_line(text: str) -> None:
    assert safe(text).isprintable()
    assert all(line.isprintable() for line in safe_lines(text).split("\n"))


def test_what_is_printable_stays_as_it_is() -> None:
    assert safe('ü 漢 "\\n" 🎉') == 'ü 漢 "\\n" 🎉'


@pytest.mark.parametrize("text", [text for text in HOSTILE if text != "\ud800"])
def test_json_is_safe_on_a_terminal_and_says_the_same(text: str) -> None:
    written = json_text({text: text})

    assert written.isprintable()
    assert json.loads(written) == {text: text}
    assert all(line.isprintable() for line in json_pretty({text: text}).split("\n"))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_reads_back(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return

    assert json.loads(json_text(value)) == value


def test_numbers_keep_every_digit() -> None:
    text = json_text([2**200, -(2**63), Decimal("1.10"), Decimal("1E+400"), Decimal("0.1") ** 30])

    assert text == f"[{2**200},{-(2**63)},1.10,1E+400,1E-30]"


def test_json_is_ascii_where_the_stream_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    assert json_text("ü🎉") == '"\\u00fc\\ud83c\\udf89"'


def test_tables_are_aligned_by_what_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["A", "B"], [["漢字", "x"], ["e\u0301", "y"], ["abcd", "a\nb"]])

    assert capsys.readouterr().out.splitlines() == [
        "A     B",
        "漢字  x",
        "e\u0301     y",
        "abcd  a\\nb",
    ]


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, False),
    ],
)
def test_colours_are_for_terminals_only(
    variables: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    output.print_line(output.painted("x", bold=True))

    assert ("\x1b[" in capsys.readouterr().out) is coloured


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (ConfigError("x"), 2, "OUT010"),
        (MissingDependencyError("x", "postgres"), 2, "OUT011"),
        (failures.NothingFoundError("x"), 5, "OUT012"),
        (StoreUnavailableError("x"), 69, "OUT031"),
        (SchemaMismatchError("x"), 3, "OUT032"),
        (StoreError("x"), 1, "OUT030"),
        (EncodingError("x"), 1, "OUT024"),
        (click.UsageError("x"), 2, "OUT010"),
        (click.ClickException("x"), 1, "OUT000"),
        (ZeroDivisionError("x"), 1, "OUT000"),
    ],
)
def test_every_error_has_its_exit_code(error: Exception, exit_code: int, code: str) -> None:
    failure = failure_of(error)

    assert (failure.exit_code, failure.code) == (exit_code, code)
    assert failure.exit_code in failures.EXIT_CODES


def test_a_remedy_is_told_apart_from_what_happened() -> None:
    failure = failure_of(ConfigError("a went wrong.\n  fix: do b\n  or c"))

    assert (failure.message, failure.remedy) == ("a went wrong.", "do b\n  or c")


@pytest.mark.parametrize(
    "text",
    [
        f"cannot connect to postgresql://shop:{SECRET}@db/shop",
        f"missing '=' after 'postgres://shop:{SECRET}@db'",
        f"postgresql://shop:a/{SECRET}@db and postgresql://shop:***@db",
        f"unexpected argument (postgresql://shop:a {SECRET}@db)",
        f"invalid dsn: host=db password={SECRET} user=shop",
        f"host=db PASSWORD = '{SECRET} and more'",
        f"postgresql://db/shop?user=shop&password={SECRET}&sslmode=off",
    ],
)
def test_what_looks_like_a_password_is_hidden(text: str) -> None:
    assert SECRET not in Invocation().scrubbed(text)


def test_a_known_password_is_hidden_wherever_it_is() -> None:
    run = Invocation()
    run.hide(f"postgresql://shop:{SECRET}%40x@db/shop?sslpassword=Other")

    text = run.scrubbed(f"no: {SECRET}%40x, {SECRET}@x, Other")

    assert text == "no: ***, ***, ***"


def test_a_url_without_its_password_stays_readable() -> None:
    text = "the database postgresql://shop:***@db/shop and postgresql://shop@db/shop"

    assert Invocation().scrubbed(text) == text
