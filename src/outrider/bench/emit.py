"""``outrider bench emit``: emit against a bare INSERT of the same row by the same driver.

The bare INSERT is the statement that emit itself executes, with parameters prepared before the
clock starts, on the same connection into the same table, each in a transaction of its own. So
the ratio is what Outrider adds: checks, encoding and the way to the driver.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import platform
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from outrider import urls
from outrider.bench.measure import Barrier, Turns, Way, compared, take_turns
from outrider.connections import owned
from outrider.event_types import event
from outrider.events import Draft, Origin
from outrider.identity import UuidV7
from outrider.outbox import Outbox
from outrider.records import Recorder
from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named
from outrider.sql.emit import script
from outrider.sql.migrate import migrate
from outrider.sql.plan import Plan, Row
from outrider.sql.statement import Statement
from outrider.testing.servers import postgres

Driver: TypeAlias = Literal["psycopg", "asyncpg", "sqlite3"]
MANY_EVENTS = 100
NAMESPACE = "bench"


@event("bench.order_placed", key="order_id")
class OrderPlaced(msgspec.Struct, frozen=True):
    """An order as shops announce it: 400 bytes of JSON."""

    order_id: str
    customer_id: str
    email: str
    total_cents: int
    currency: str
    channel: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What is measured, and where."""

    url: str
    driver: Driver
    schema: str | None = None
    writers: int = 1
    seconds: float = 20.0
    many: bool = False


def run(conditions: Conditions) -> Mapping[str, Any]:
    """Measure one event per transaction, then many, and return one document."""
    with owned.connect(conditions.url, conditions.schema) as connection:
        connection.run(migrate(connection.dialect))
        server = connection.run(_server(connection.dialect))
    single = replace(conditions, seconds=conditions.seconds * 2 / 3)
    many = replace(conditions, seconds=conditions.seconds / 3, many=True)
    return {
        "v": 1,
        "ok": True,
        "bench": "emit",
        "unit": "events/s, one per transaction",
        **compared(_turns(single)),
        "many": {
            "unit": f"events/s, {MANY_EVENTS} per transaction",
            **compared(_turns(many), units_each=MANY_EVENTS),
        },
        "conditions": _described(conditions, server),
    }


@contextmanager
def throwaway(driver: Driver) -> Iterator[str]:
    """Yield the URL of a database of our own that syncs every commit to disk."""
    if driver == "sqlite3":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'bench.db'}"
    else:
        with postgres(durable=True) as server:
            yield server.url


def _turns(conditions: Conditions) -> Sequence[Turns]:
    if conditions.writers == 1:
        return [_writer(conditions, _Alone())]
    # Processes, because threads would measure the interpreter's lock.
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        barrier = manager.Barrier(conditions.writers)
        with context.Pool(conditions.writers) as pool:
            jobs = [
                pool.apply_async(_writer, (conditions, barrier)) for _ in range(conditions.writers)
            ]
            return [job.get(timeout=conditions.seconds * 10 + 60) for job in jobs]


class _Alone:
    """The barrier of a single writer."""

    def wait(self) -> None:
        """Go on at once."""


def _writer(conditions: Conditions, barrier: Barrier) -> Turns:
    return _WRITERS[conditions.driver](conditions, barrier)


def _with_psycopg(conditions: Conditions, barrier: Barrier) -> Turns:
    import psycopg  # noqa: PLC0415 - only where it is measured

    with psycopg.connect(_server_url(conditions)) as connection:

        def bare(work: Sequence[tuple[str, Any]]) -> None:
            for sql, params in work:
                connection.execute(sql, params)
                connection.commit()

        def bare_many(work: Sequence[Sequence[tuple[str, Any]]]) -> None:
            for rows in work:
                with connection.cursor() as cursor:
                    cursor.executemany(rows[0][0], [params for _, params in rows])
                connection.commit()

        ways = _ways(conditions, connection, connection.commit, bare, bare_many)
        return take_turns(*ways, conditions.seconds, barrier)


def _with_sqlite3(conditions: Conditions, barrier: Barrier) -> Turns:
    path = urls.parse(conditions.url).place.removeprefix("/")
    connection = sqlite3.connect(path, timeout=60)
    connection.execute("PRAGMA synchronous = FULL")

    def bare(work: Sequence[tuple[str, Any]]) -> None:
        for sql, params in work:
            connection.execute(sql, params)
            connection.commit()

    def bare_many(work: Sequence[Sequence[tuple[str, Any]]]) -> None:
        for rows in work:
            connection.executemany(rows[0][0], [params for _, params in rows])
            connection.commit()

    try:
        ways = _ways(conditions, connection, connection.commit, bare, bare_many)
        return take_turns(*ways, conditions.seconds, barrier)
    finally:
        connection.close()


def _server_url(conditions: Conditions) -> str:
    return f"postgresql://{urls.parse(conditions.url).rest}"


def _ways(
    conditions: Conditions,
    connection: Any,
    commit: Callable[[], None],
    bare: Callable[[Any], None],
    bare_many: Callable[[Any], None],
) -> tuple[Way, Way]:
    outbox = Outbox(namespace=NAMESPACE, schema=conditions.schema)

    def emit(work: Sequence[OrderPlaced]) -> None:
        for order in work:
            outbox.emit(connection, order)
            commit()

    def emit_many(work: Sequence[Sequence[OrderPlaced]]) -> None:
        for orders in work:
            outbox.emit_many(connection, orders)
            commit()

    if conditions.many:
        return Way(prepare=_order_lists, do=emit_many), Way(
            prepare=partial(_row_lists, conditions), do=bare_many
        )
    return Way(prepare=_orders, do=emit), Way(prepare=partial(_rows, conditions), do=bare)


def _with_asyncpg(conditions: Conditions, barrier: Barrier) -> Turns:
    import asyncpg  # noqa: PLC0415 - only where it is measured

    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(_server_url(conditions)))
    outbox = Outbox(namespace=NAMESPACE, schema=conditions.schema)

    async def emit(work: Sequence[OrderPlaced]) -> None:
        for order in work:
            async with connection.transaction():
                await outbox.aemit(connection, order)

    async def bare(work: Sequence[tuple[str, Any]]) -> None:
        for sql, params in work:
            async with connection.transaction():
                await connection.execute(sql, *params)

    async def emit_many(work: Sequence[Sequence[OrderPlaced]]) -> None:
        for orders in work:
            async with connection.transaction():
                await outbox.aemit_many(connection, orders)

    async def bare_many(work: Sequence[Sequence[tuple[str, Any]]]) -> None:
        for rows in work:
            async with connection.transaction():
                await connection.executemany(rows[0][0], [params for _, params in rows])

    def waiting(do: Callable[[Any], Any]) -> Callable[[Any], None]:
        return lambda work: loop.run_until_complete(do(work))

    many = conditions.many
    subject = Way(
        prepare=_order_lists if many else _orders, do=waiting(emit_many if many else emit)
    )
    yardstick = Way(
        prepare=partial(_row_lists if many else _rows, conditions),
        do=waiting(bare_many if many else bare),
    )
    try:
        return take_turns(subject, yardstick, conditions.seconds, barrier)
    finally:
        loop.run_until_complete(connection.close())
        loop.close()


_WRITERS: Mapping[Driver, Callable[[Conditions, Barrier], Turns]] = {
    "psycopg": _with_psycopg,
    "asyncpg": _with_asyncpg,
    "sqlite3": _with_sqlite3,
}


def _orders(count: int) -> Sequence[OrderPlaced]:
    return [_order(n) for n in range(count)]


def _order_lists(count: int) -> Sequence[Sequence[OrderPlaced]]:
    return [_orders(MANY_EVENTS) for _ in range(count)]


def _rows(conditions: Conditions, count: int) -> Sequence[tuple[str, Any]]:
    """Return the statement of emit with its parameters, as the fastest form of each driver."""
    dialect = _dialect(conditions)
    recorder = Recorder(namespace=NAMESPACE, new_id=UuidV7())
    emissions = [recorder.emission(Draft(order), Origin()) for order in _orders(count)]
    style = {"psycopg": "format", "asyncpg": "numeric_dollar", "sqlite3": "qmark"}
    return [
        statement.bind(style[conditions.driver])  # type: ignore[arg-type]  # each is a ParamStyle
        for emission in emissions
        for statement in script(dialect, [emission])
    ]


def _row_lists(conditions: Conditions, count: int) -> Sequence[Sequence[tuple[str, Any]]]:
    return [_rows(conditions, MANY_EVENTS) for _ in range(count)]


def _order(n: int) -> OrderPlaced:
    return OrderPlaced(
        order_id=f"o-{n % 1000:06}",
        customer_id=f"c-{n % 97:06}",
        email="somebody@example.org",
        total_cents=4200 + n % 1000,
        currency="EUR",
        channel="web",
        note="x" * 249,
    )


def _dialect(conditions: Conditions) -> Dialect:
    name = "sqlite" if conditions.driver == "sqlite3" else "postgres"
    return dialect_named(name, conditions.schema)


def _server(dialect: Dialect) -> Plan[Row]:
    rows = yield Statement(dialect["server"], {})
    return rows[0]


def _described(conditions: Conditions, server: Row) -> Mapping[str, Any]:
    return {
        "database": server["product"],
        "durability": server["durability"],
        "driver": f"{conditions.driver} {_driver_version(conditions.driver)}",
        "writers": conditions.writers,
        "payload_bytes": len(msgspec.json.encode(_order(0))),
        "seconds": conditions.seconds,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "outrider": version("outrider"),
    }


def _driver_version(driver: Driver) -> str:
    return sqlite3.sqlite_version if driver == "sqlite3" else version(driver)
