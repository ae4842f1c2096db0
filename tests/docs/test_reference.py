"""Pages that list what the code has, list all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider import errors, events, grammar
from outrider.sql import verify
from outrider.sql.dialects import dialect_named

ROOT = Path(__file__).parents[2]
COMMENT = re.compile(r"--[^\n]*\n")
TABLE = re.compile(r"CREATE TABLE (?:\w+\.)?(\w+) \(\n(.*)\n\)", re.DOTALL)
VIEW = re.compile(r"CREATE VIEW (?:\w+\.)?(\w+)")
ROW = re.compile(r"^\| `([a-z_]+)` \| (\w+) \| (\w+) \| .+ \|$", re.MULTILINE)
COLUMN = re.compile(r"^ {4}([a-z_]+) ([A-Za-z]+)", re.MULTILINE)


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def statements(dialect: str) -> Iterator[str]:
    for statement in dialect_named(dialect).script("schema.sql"):
        yield COMMENT.sub("\n", statement).strip()


def types_of(dialect: str) -> dict[tuple[str, str], str]:
    tables = [match for text in statements(dialect) if (match := TABLE.match(text))]
    assert tables
    return {
        (table[1], column[1]): column[2]
        for table in tables
        for column in COLUMN.finditer(f"{table[2]}\n")
    }


@pytest.mark.parametrize(("dialect", "place"), [("postgres", 1), ("sqlite", 2)])
def test_the_schema_page_has_every_column_with_its_type(dialect: str, place: int) -> None:
    shown: dict[tuple[str, str], str] = {}
    for section in page("reference/schema.md").split("\n### ")[1:]:
        table = section.partition("\n")[0]
        for row in ROW.findall(section):
            shown[table, row[0]] = row[place]

    assert shown == types_of(dialect)


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_the_schema_page_has_every_view(dialect: str) -> None:
    views = {match[1] for text in statements(dialect) if (match := VIEW.match(text))}
    shown = page("reference/schema.md").partition("\n## Views\n")[2]

    assert set(re.findall(r"^\| `(\w+)` \|", shown, re.MULTILINE)) == views


def test_the_errors_page_has_every_error_with_its_code() -> None:
    raised = {
        (cls.code, name)
        for name, cls in vars(errors).items()
        if isinstance(cls, type) and issubclass(cls, errors.OutriderError)
    }
    rows = re.compile(r"^\| (OUT\d+) \| `(\w+)` \|", re.MULTILINE)
    shown = set(rows.findall(page("reference/errors.md")))

    assert raised <= shown


def test_the_events_page_has_every_option_and_every_field() -> None:
    text = page("reference/events.md")
    options, _, fields = text.partition("## What `emit` returns")
    shown = set(re.findall(r"^\| `(\w+)` \|", options, re.MULTILINE))

    assert shown == set(events.EmitOptions.__annotations__)
    for name in events.Event.__struct_fields__:
        assert f"`{name}`" in fields


def test_the_events_page_has_the_limits_and_the_reserved_headers() -> None:
    text = page("reference/events.md")
    limits, _, headers = text.partition("### Reserved headers")

    for number in (grammar.NAME_BYTES_MAX, grammar.KEY_BYTES_MAX, grammar.HEADERS_MAX):
        assert re.search(rf"\| {number}\b", limits)
    listed = re.findall(r"`([a-z_:-]+)`", headers.partition("###")[0])
    reserved = {*grammar._RESERVED_HEADERS, *grammar._RESERVED_PREFIXES}
    assert set(listed) == reserved


def test_the_checks_page_has_every_code() -> None:
    source = Path(str(verify.__file__)).read_text(encoding="utf-8")
    codes = {*verify.CHECKS, *re.findall(r'code="(\w+)"|_well\("(\w+)"', source)}
    names = {name for code in codes for name in ((code,) if isinstance(code, str) else code)}

    for name in names - {""}:
        assert f"`{name}`" in page("operations/checks.md")


def test_every_promise_names_a_test_that_exists() -> None:
    rows = re.compile(r"^\| (G\d+) \|.*\| (.+) \|$", re.MULTILINE)
    promises = rows.findall(page("explanation/guarantees.md"))

    assert [name for name, _ in promises] == [f"G{n}" for n in range(1, len(promises) + 1)]
    for _, proof in promises:
        files = re.findall(r"`([\w/.]+)`", proof)
        assert files
        for file in files:
            assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"])
def test_paths_and_links_of_the_pages_outside_the_documentation_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    paths = [*links, *re.findall(r"`((?:src|docs|tests|examples)/[^`*]*)`", text)]

    assert paths
    for path in paths:
        assert "NAME" in path or (ROOT / path).exists(), path


def test_decisions_are_numbered_listed_and_short() -> None:
    files = sorted((ROOT / "docs" / "decisions").glob("0*.md"))

    assert [file.name[:4] for file in files] == [f"{n:04}" for n in range(1, len(files) + 1)]
    index = page("decisions/index.md")
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert f"]({file.name})" in index
        assert text.startswith(f"# {file.name[:4]}: ")
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Decided", "Why", "What it costs", "What would change our mind"]
        assert len(text.splitlines()) <= 60
