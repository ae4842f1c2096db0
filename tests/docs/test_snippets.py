"""Every page of the documentation does what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import blocks_of, environment, is_story, needs_of

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("snippets.py")
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")],
)
STORIES = [page for page in PAGES if is_story(page.read_text(encoding="utf-8"))]
LANGUAGES = {"python", "console", "sql", "toml", "json", "text"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", STORIES, ids=name_of)
def test_a_page_does_what_it_shows(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needs = needs_of(page.read_text(encoding="utf-8"))
    assert needs <= {"postgres"}
    url = request.getfixturevalue("postgres_url") if needs else None

    done = subprocess.run(
        [sys.executable, "-W", "error", RUNNER, page],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env=environment(url),
        text=True,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    fences = re.findall(r"^ *```.*$", text, re.MULTILINE)
    blocks = list(blocks_of(text))

    assert len(fences) == 2 * len(blocks), "a fence is not closed, or the reader misses a block"
    assert {block.language for block in blocks} <= LANGUAGES | {""}
    assert name_of(page).count("/") == 0 or "" not in {block.language for block in blocks}


@pytest.mark.timeout(240)
def test_the_snippets_pass_a_strict_type_checker(tmp_path: Path) -> None:
    for page in STORIES:
        # The blocks of a page are one module, but for those that are files of their own.
        module = re.sub(r"\W", "_", name_of(page).removesuffix(".md")) + ".py"
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.language == "python":
                path = tmp_path / block.notes.get("file", module)
                text = path.read_text(encoding="utf-8") if path.exists() else ""
                assert "file" not in block.notes or not text, f"two pages have a file {path.name}"
                path.write_text(text + block.text, encoding="utf-8")
    config = tmp_path / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = true\n[mypy-asyncpg.*]\nignore_missing_imports = true\n",
        encoding="utf-8",
    )

    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", f"--config-file={config}"),
            # Kept, because a cold run takes half a minute.
            f"--cache-dir={ROOT / '.mypy_cache' / 'docs'}",
            tmp_path,
        ],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        text=True,
    )

    assert done.returncode == 0, done.stdout
