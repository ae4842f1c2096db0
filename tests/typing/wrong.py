"""Mistakes that have to stay type errors.

Both checkers refuse a suppression below once the error that it suppresses is gone.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from outrider import Actor, EventRef, Outbox, event, upcast


@event("order.placed", key="order_id")
@dataclass(frozen=True, slots=True)
class OrderPlaced:
    order_id: int
    email: str


outbox = Outbox()

# A field of the wrong type, or none at all.
OrderPlaced("x", "a@b.c")  # type: ignore[arg-type]
OrderPlaced(1)  # type: ignore[call-arg]


# A connection of the other world: nothing would be written without an await.
def async_connections_in_emit(
    conn: psycopg.AsyncConnection[Any], sqlalchemy_conn: AsyncConnection
) -> None:
    placed = OrderPlaced(1, "a@b.c")
    outbox.emit(conn, placed)  # type: ignore[arg-type]
    outbox.emit_many(conn, [placed])  # type: ignore[arg-type]
    outbox.read(conn)  # type: ignore[arg-type]
    outbox.emit(sqlalchemy_conn, placed)  # type: ignore[arg-type]


# An event that is never awaited is never written.
async def forgotten_awaits(conn: psycopg.AsyncConnection[Any], session: AsyncSession) -> None:
    outbox.aemit(conn, OrderPlaced(1, "a"))  # type: ignore[unused-coroutine]
    outbox.aemit_many(session, [])  # type: ignore[unused-coroutine]


def no_connection_at_all(dsn: str) -> None:
    outbox.emit(dsn, OrderPlaced(1, "a"))  # type: ignore[arg-type]


def wrong_options(db: sqlite3.Connection, ref: EventRef) -> None:
    placed = OrderPlaced(1, "a@b.c")
    outbox.emit(db, placed, idempotencykey="k")  # type: ignore[call-arg]
    outbox.emit(db, placed, idempotency_key=False)  # type: ignore[arg-type]
    outbox.emit(db, placed, entity="order")  # type: ignore[arg-type]
    outbox.emit(db, placed, headers={"X-A": 1})  # type: ignore[dict-item]
    outbox.emit(db, placed, at="tomorrow")  # type: ignore[arg-type]
    outbox.emit(db, placed, causation=str(ref.id))  # type: ignore[arg-type]
    outbox.emit(db, placed, actor=42)  # type: ignore[arg-type]
    outbox.emit(db, placed, delay=b"5s")  # type: ignore[arg-type]
    with outbox.context(key="k"):  # type: ignore[call-arg]
        pass
    with outbox.action(db, "deposit") as action:
        action.emit(placed, tennant="acme")  # type: ignore[call-arg]


def changing_what_does_not_change(ref: EventRef, actor: Actor) -> None:
    ref.duplicate = True  # type: ignore[misc]
    actor.id = "2"  # type: ignore[misc]


@upcast("order.placed", from_version=1)  # type: ignore[type-var]
def returns_nothing(data: dict[str, Any]) -> None:
    data.clear()


@event("order.closed", keyed="order_id")  # type: ignore[call-arg]
class OrderClosed:
    pass


Outbox(on_autocommit="maybe")  # type: ignore[arg-type]
