"""The blocks of a Markdown page, and a program that does what the page shows.

A page is one story: its blocks run from top to bottom, in one namespace and one empty folder.

    ```python     is executed
    ```console    each line after `$ ` is a command, the lines below it are its output
    ```sql        runs on the connection that the page has named `db`
    ```toml       is read, and so is ```json
    ```text       is shown only

A comment above a block says more about it:

    <!-- file: shop.py -->        the block is the content of a file, and does not run by itself
    <!-- raises: SomeError -->    the block ends with this error, whose text counts as its output
    <!-- output -->               the block is what the one before it has printed
    <!-- needs: postgres -->      anywhere on a page: DATABASE_URL is a new PostgreSQL database

Outputs are compared after ids, times, durations and versions were masked; a line `...` stands for
any lines.

Usage: python snippets.py PAGE
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"(?P<indent> *)```(?P<language>\w*)$")
_COMMENT = re.compile(r"\s*<!-- (?P<name>file|raises|output|needs)(?:: (?P<value>.+?))? -->$")
_MASKS = (
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<id>"),
    (
        re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"),
        "<time>",
    ),
    (re.compile(r"\b\d+(?:\.\d+)? ?m?s\b"), "<duration>"),
    (re.compile(r"(?<=SQLite )\d[\d.]*"), "<version>"),
)
_COMMAND_SECONDS_MAX = 15.0


class SnippetError(Exception):
    """The page shows something that does not happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    line: int
    """The line of its fence, from 1."""
    notes: Mapping[str, str] = field(default_factory=dict)


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page in their order."""
    lines = enumerate(page.splitlines(), start=1)
    notes: dict[str, str] = {}
    for number, line in lines:
        if comment := _COMMENT.fullmatch(line):
            notes[comment["name"]] = comment["value"] or ""
        elif fence := _FENCE.fullmatch(line):
            body = list(iter(lambda: next(lines)[1], f"{fence['indent']}```"))
            yield Block(
                language=fence["language"],
                text=textwrap.dedent("\n".join(body)) + "\n",
                line=number,
                notes=notes,
            )
            notes = {}
        elif line.strip():
            notes = {}


def needs_of(page: str) -> frozenset[str]:
    """Return the servers that a page asks for."""
    found = (_COMMENT.fullmatch(line) for line in page.splitlines())
    return frozenset(match["value"] for match in found if match and match["name"] == "needs")


def is_story(page: str) -> bool:
    """Say whether there is anything to execute."""
    return any(block.language in _RUNNERS for block in blocks_of(page))


def environment(database_url: str | None) -> dict[str, str]:
    """Return what a reader has: the programs of this environment, and no settings of ours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "DATABASE_URL" and not name.startswith(("OUTRIDER_", "PYTEST_", "COV_"))
    }
    if database_url is not None:
        kept["DATABASE_URL"] = database_url
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    quiet = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"}
    return kept | quiet


def run_page(path: Path) -> None:
    """Do what the page shows, in the current folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = ""
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if "output" in block.notes:
            _compare(block.text, printed)
        elif "file" in block.notes:
            target = Path(block.notes["file"])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif run := _RUNNERS.get(block.language):
            printed = run(block, path, namespace)
        elif block.language != "text":
            raise SnippetError(f"line {block.line}: nothing runs a block of {block.language!r}")
    for value in namespace.values():
        if type(value).__module__ in {"sqlite3", "psycopg"} and hasattr(value, "close"):
            value.close()


def _python(block: Block, path: Path, namespace: dict[str, Any]) -> str:
    # Tracebacks shall name the line of the page.
    code = compile("\n" * block.line + block.text, str(path), "exec", dont_inherit=True)
    output = io.StringIO()
    expected = block.notes.get("raises")
    with redirect_stdout(output):
        try:
            exec(code, namespace)  # noqa: S102 - this is what the program is for
        except Exception as error:
            if type(error).__name__ != expected:
                raise
            return f"{output.getvalue()}{expected}: {error}\n"
    if expected is not None:
        raise SnippetError(f"line {block.line}: no {expected} was raised")
    return output.getvalue()


def _console(block: Block, _path: Path, _namespace: dict[str, Any]) -> str:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = subprocess.run(
            ["bash", "-c", command],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_SECONDS_MAX,
        )
        _compare(expected, done.stdout)
    return ""


def _sql(block: Block, _path: Path, namespace: dict[str, Any]) -> str:
    # Only queries and one-line statements: a page shows no script.
    rows = [
        row
        for statement in block.text.split(";\n")
        if statement.strip()
        for row in namespace["db"].execute(statement)
    ]
    return "".join(" | ".join(map(str, row)) + "\n" for row in rows)


def _toml(block: Block, _path: Path, _namespace: dict[str, Any]) -> str:
    tomllib.loads(block.text)
    return ""


def _json(block: Block, _path: Path, _namespace: dict[str, Any]) -> str:
    json.loads(block.text)
    return ""


_RUNNERS: Mapping[str, Callable[[Block, Path, dict[str, Any]], str]] = {
    "python": _python,
    "console": _console,
    "sql": _sql,
    "toml": _toml,
    "json": _json,
}


def _compare(expected: str, found: str) -> None:
    wanted = [re.escape(line) for line in _masked(expected).splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if line == r"\.\.\." else f"{line}\n" for line in wanted)
    if not re.fullmatch(pattern, _masked(found)):
        raise SnippetError(f"the page shows\n\n{expected}\nbut this was printed\n\n{found}")


def _masked(text: str) -> str:
    for mask, name in _MASKS:
        text = mask.sub(name, text)
    lines = [line.rstrip() for line in text.splitlines()]
    return "".join(f"{line}\n" for line in lines if line)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
