"""The examples do what their READMEs show, and the demo proves what it says."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.snippets import blocks_of, environment

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "demo.py"
SHOWN = {
    "01-sqlite-hello/hello.py": False,
    "02-sqlalchemy-async/shop.py": True,
    "05-plain-psycopg/transfer.py": True,
}
PROOF = (
    "ok    48 orders in the table = 48 order.placed in the log",
    "ok    12 declined orders, in neither",
    "ok    12 payments asked for twice, captured once",
)


def run(*command: str | Path, database_url: str | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        check=False,
        capture_output=True,
        env=environment(database_url),
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("program", "needs_postgres"), SHOWN.items())
def test_an_example_prints_what_its_readme_shows(
    program: str, needs_postgres: bool, request: pytest.FixtureRequest
) -> None:
    path = ROOT / "examples" / program
    url = request.getfixturevalue("postgres_url") if needs_postgres else None
    if needs_postgres:
        run("-m", "outrider", "migrate", database_url=url)

    printed = run(path, database_url=url)

    readme = (path.parent / "README.md").read_text(encoding="utf-8")
    [shown] = [block.text for block in blocks_of(readme) if block.language == "text"]
    assert shown.partition(f"$ python {path.name}\n")[2] == printed


def test_every_example_is_run_and_short() -> None:
    programs = {str(path.relative_to(ROOT / "examples")) for path in ROOT.glob("examples/*/*.py")}

    assert programs == SHOWN.keys()
    for program in programs:
        path = ROOT / "examples" / program
        assert len(path.read_text(encoding="utf-8").splitlines()) < 100
    assert len(DEMO.read_text(encoding="utf-8").splitlines()) < 200


def test_without_a_terminal_the_demo_ends_by_itself_and_proves_what_it_says() -> None:
    started = time.monotonic()

    printed = run(DEMO)

    assert tuple(printed.splitlines()[-3:]) == PROOF
    assert "\x1b" not in printed
    assert time.monotonic() - started < 10


def test_on_a_terminal_the_demo_is_redrawn_in_place() -> None:
    status, printed = on_terminal("1", colours=True)

    assert status == 0
    assert "\x1b[18A\r" in printed
    assert "\x1b[36m" in printed
    assert all(line.removeprefix("ok    ") in printed for line in PROOF)


def test_the_demo_respects_no_color() -> None:
    _status, printed = on_terminal("0.2", colours=False)

    assert set(re.findall(r"\x1b\[\d*([A-Za-z])", printed)) == {"A", "K"}


def test_an_interrupted_demo_ends_politely_with_its_proof() -> None:
    status, printed = on_terminal("30", colours=False, interrupt_at="order 3")

    assert status == 0
    assert "stopped early, which loses nothing" in printed
    assert "Traceback" not in printed
    assert re.search(r"ok    (\d+) orders in the table = \1 order.placed in the log", printed)


def on_terminal(seconds: str, *, colours: bool, interrupt_at: str = "") -> tuple[int, str]:
    """Run the demo on a terminal of 80 by 24; press Ctrl-C once it has printed something."""
    surroundings = environment(None) | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    if colours:
        surroundings.pop("NO_COLOR")
    ours, theirs = pty.openpty()
    demo = subprocess.Popen(
        [sys.executable, DEMO, seconds],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=surroundings,
    )
    os.close(theirs)
    printed = ""
    while chunk := read(ours):
        printed += chunk
        if interrupt_at and interrupt_at in printed:
            interrupt_at = ""
            demo.send_signal(signal.SIGINT)
    os.close(ours)
    return demo.wait(), printed.replace("\r\n", "\n")


def read(terminal: int) -> str:
    try:
        return os.read(terminal, 65_536).decode(errors="replace")
    except OSError:  # the other side has gone
        return ""
