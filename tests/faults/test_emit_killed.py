"""A writer or a server that is killed leaves data and event together, or neither."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from outrider.connections import owned
from outrider.sql.migrate import migrate
from outrider.testing.servers import postgres

EVENTS = 2_500
"""Three statements, on every database."""

# Writes one order with its events in one transaction, and kills itself where it is told to:
# before the number of a statement that emit executes, or after the last ("emitted"), or after
# the commit ("committed"). One event, one with a key and many take three different ways.
WRITER = """
import os, signal, sqlite3, sys
import psycopg
from outrider import Draft, Outbox
from outrider.connections.psycopg import PsycopgConnection
from outrider.connections.sqlite import SqliteConnection

url, point, way, events = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

def die(here):
    if point == here:
        os.kill(os.getpid(), signal.SIGKILL)

for adapter in (PsycopgConnection, SqliteConnection):
    def execute(self, step, execute=adapter.execute, numbers=iter(range(100))):
        die(str(next(numbers)))
        return execute(self, step)
    adapter.execute = execute

is_sqlite = url.startswith("sqlite")
db = sqlite3.connect(url.removeprefix("sqlite:///")) if is_sqlite else psycopg.connect(url)
db.execute("INSERT INTO orders VALUES (1)")
outbox = Outbox(namespace="shop")
if way == "one":
    outbox.emit(db, "order.placed", {"order_id": 1})
elif way == "keyed":
    outbox.emit(db, "order.placed", {"order_id": 1}, idempotency_key="order 1")
else:
    outbox.emit_many(db, [Draft("order.placed", {"order_id": n}) for n in range(events)])
die("emitted")
db.commit()
die("committed")
"""

# Writes orders for ever, each with its event, and takes a lost connection as it comes.
SHOP = """
import sqlite3, sys, uuid
import psycopg
from outrider import Outbox

url = sys.argv[1]
outbox = Outbox(namespace="shop")
is_sqlite = url.startswith("sqlite")
while True:
    try:
        if is_sqlite:
            db = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)
        else:
            db = psycopg.connect(url)
        print("connected", flush=True)
        while True:
            order = uuid.uuid4().int % 2**62
            db.execute(f"INSERT INTO orders VALUES ({order})")
            outbox.emit(db, "order.placed", {"order_id": order}, key=order)
            db.commit()
    except psycopg.Error:
        continue
"""


@pytest.fixture(params=["migrated_sqlite_url", "migrated_postgres_url"], ids=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    with _opened(found) as db:
        db.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
        db.commit()
    return found


@pytest.mark.requirement("OO-IN-01", "OO-TM-14", "NEV-28", "CAN-26")
@pytest.mark.parametrize(
    ("way", "point", "expected"),
    [
        ("one", "0", (0, 0)),
        ("one", "emitted", (0, 0)),
        ("one", "committed", (1, 1)),
        ("keyed", "0", (0, 0)),
        ("keyed", "emitted", (0, 0)),
        ("keyed", "committed", (1, 1)),
        ("many", "0", (0, 0)),
        ("many", "1", (0, 0)),
        ("many", "2", (0, 0)),
        ("many", "emitted", (0, 0)),
        ("many", "committed", (1, EVENTS)),
    ],
)
def test_a_killed_writer_leaves_data_and_events_or_neither(
    url: str, way: str, point: str, expected: tuple[int, int]
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WRITER, url, point, way, str(EVENTS)],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (-signal.SIGKILL, "")
    assert _counts(url) == expected


@pytest.mark.fault
@pytest.mark.timeout(120)
def test_a_server_and_writers_that_are_killed_leave_every_order_with_its_event() -> None:
    chance = random.Random(7)
    with postgres(durable=True) as server:
        with owned.connect(server.url) as connection:
            connection.run(migrate(connection.dialect))
        with _opened(server.url) as db:
            db.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
            db.commit()
        writers = [_shop(server.url) for _ in range(3)]
        for _ in range(4):
            time.sleep(0.5 + chance.random())
            server.kill()
            server.start()
            writers.append(_replaced(writers.pop(0), server.url))
        _end(writers)

        orders, events = _counts(server.url)
        assert orders == events > 0
        assert _strangers(server.url) == 0


@pytest.mark.fault
@pytest.mark.timeout(120)
def test_writers_of_a_file_that_are_killed_leave_every_order_with_its_event(
    migrated_sqlite_url: str,
) -> None:
    chance = random.Random(11)
    with _opened(migrated_sqlite_url) as db:
        db.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
        db.commit()
    writers = [_shop(migrated_sqlite_url) for _ in range(2)]
    for _ in range(20):
        time.sleep(chance.random() / 4)
        writers.append(_replaced(writers.pop(0), migrated_sqlite_url))
    _end(writers)

    orders, events = _counts(migrated_sqlite_url)
    assert orders == events > 0
    assert _strangers(migrated_sqlite_url) == 0


def _shop(url: str) -> subprocess.Popen[str]:
    writer = subprocess.Popen(
        [sys.executable, "-c", SHOP, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == "connected\n"
    return writer


def _replaced(writer: subprocess.Popen[str], url: str) -> subprocess.Popen[str]:
    _end([writer])
    return _shop(url)


def _end(writers: list[subprocess.Popen[str]]) -> None:
    for writer in writers:
        writer.kill()
        _, errors = writer.communicate(timeout=10)
        assert not errors


@contextmanager
def _opened(url: str) -> Iterator[Any]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
            yield db
    else:
        with psycopg.connect(url) as connection:
            # Killed clients are noticed by their backends a moment later.
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            yield connection


def _counts(url: str) -> tuple[int, int]:
    with _opened(url) as db:
        (orders,) = db.execute("SELECT count(*) FROM orders").fetchone()
        (events,) = db.execute("SELECT count(*) FROM outbox_events").fetchone()
    return orders, events


def _strangers(url: str) -> int:
    """Count the events whose order is not there."""
    with _opened(url) as db:
        (strangers,) = db.execute(
            "SELECT count(*) FROM outbox_events WHERE ordering_key NOT IN "
            "(SELECT CAST(id AS text) FROM orders)"
        ).fetchone()
    return int(strangers)
