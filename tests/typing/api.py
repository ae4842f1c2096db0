"""Code as users write it: type-checked, never run."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, assert_type
from uuid import UUID

import attrs
import msgspec
import psycopg
import pydantic
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)

from outrider import (
    Action,
    ActionRef,
    Actor,
    Draft,
    Event,
    EventRef,
    Filter,
    KeyReusedError,
    Outbox,
    StaleVersionError,
    event,
    upcast,
)


@event("order.placed", key="order_id")
@dataclass(frozen=True, slots=True)
class OrderPlaced:
    order_id: int
    email: str
    total_cents: int


@event(
    "payment.captured",
    version=2,
    key="order_id",
    entity=("payment", lambda e: f"{e.order_id}/1"),
    sensitive=("card_last4",),
    data_subject="customer_id",
    keep="365d",
)
class PaymentCaptured(pydantic.BaseModel, frozen=True):
    order_id: int
    customer_id: UUID
    amount: Decimal
    currency: str
    card_last4: str


@event("parcel.shipped", key=lambda e: e.order_id, keep=timedelta(days=30))
class ParcelShipped(msgspec.Struct, frozen=True):
    order_id: int
    tracking: str


@event("parcel.lost", entity=("parcel", "tracking"), keep=86_400)
@attrs.frozen
class ParcelLost:
    tracking: str


@upcast("payment.captured", from_version=1)
def add_currency(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "currency": "EUR"}


outbox = Outbox()
placed = Outbox(
    "postgresql://db/shop",
    namespace="shop.orders",
    schema="outbox",
    payload_bytes_max=1_000_000,
    on_autocommit="allow",
)

# The decorators leave classes and functions as they were.
assert_type(OrderPlaced(1, "a@b.c", 4200), OrderPlaced)
assert_type(OrderPlaced(1, "a@b.c", 4200).total_cents, int)
assert_type(ParcelShipped(order_id=1, tracking="x").tracking, str)
assert_type(ParcelLost("x"), ParcelLost)
assert_type(add_currency({}), dict[str, Any])


def with_psycopg(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        row = conn.execute(
            "INSERT INTO orders (email, total) VALUES (%s, %s) RETURNING id", ("a@b.c", 4200)
        ).fetchone()
        assert row is not None
        assert_type(outbox.emit(conn, OrderPlaced(row[0], "a@b.c", 4200)), EventRef)


async def with_async_psycopg(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        await conn.execute("INSERT INTO orders (email, total) VALUES (%s, %s)", ("a@b.c", 4200))
        assert_type(await outbox.aemit(conn, OrderPlaced(1, "a@b.c", 4200)), EventRef)
        await outbox.aemit_many(conn, [ParcelLost("x"), Draft("order.closed", {"id": 1})])


def with_sqlite() -> None:
    with sqlite3.connect("shop.db") as db:
        cursor = db.execute("INSERT INTO orders (email, total) VALUES (?, ?)", ("a@b.c", 4200))
        outbox.emit(db, OrderPlaced(cursor.lastrowid or 0, "a@b.c", 4200))


def with_sqlalchemy(session: orm.Session, connection: sqlalchemy.Connection) -> None:
    outbox.emit(session, ParcelLost("x"))
    outbox.emit(connection, ParcelLost("x"))
    session.commit()


scoped: orm.scoped_session[orm.Session] = orm.scoped_session(
    orm.sessionmaker(sqlalchemy.create_engine("sqlite://"))
)


def in_flask() -> dict[str, str]:
    ref = outbox.emit(scoped, OrderPlaced(1, "a@b.c", 4200))
    scoped.commit()
    return {"event": str(ref.id)}


Session = async_sessionmaker(create_async_engine("postgresql+psycopg://localhost/shop"))


@asynccontextmanager
async def session() -> AsyncGenerator[AsyncSession]:
    async with Session.begin() as opened:
        yield opened


async def in_fastapi(email: str, total: int, db: AsyncSession) -> dict[str, str]:
    await db.flush()
    ref = outbox.emit(db, OrderPlaced(1, email, total))
    return {"event": str(ref.id)}


async def with_async_sqlalchemy(
    db: AsyncSession, several: async_scoped_session[AsyncSession], connection: AsyncConnection
) -> None:
    outbox.emit(db, ParcelLost("x"))
    outbox.emit(several, ParcelLost("x"))
    await outbox.aemit(db, ParcelLost("x"), idempotency_key=True)
    await outbox.aemit(connection, ParcelLost("x"))


def with_every_option(db: sqlite3.Connection, cause: Event[OrderPlaced]) -> EventRef:
    first = outbox.emit(db, "order.closed", {"order_id": 42}, key="42")
    return outbox.emit(
        db,
        "order.archived",
        {"order_id": 42},
        id=UUID(int=1),
        version=2,
        content_type="application/json",
        key=42,
        partition_key=UUID(int=2),
        entity=("order", 42),
        entity_version=7,
        headers={"X-Region": "eu"},
        metadata={"build": 7, "tags": ["a"]},
        idempotency_key="close-42",
        delay="10m",
        at=datetime.now(UTC),
        occurred_at=datetime.now(UTC),
        keep=timedelta(days=7),
        data_subject="customer:1",
        lock=True,
        correlation_id="chain",
        causation=cause if first.duplicate else first,
        actor=Actor(type="user", id="1", name="Anna", metadata={"ip": "::1"}),
        tenant="acme",
        request_id="r-1",
        source="admin",
    )


def with_many(db: sqlite3.Connection) -> list[EventRef]:
    outbox.emit_many(db, (ParcelLost(str(n)) for n in range(10)))
    return outbox.emit_many(
        db, [ParcelLost("x"), Draft(ParcelLost("y"), options={"delay": 5}), Draft("a.b", {})]
    )


def with_an_action(db: sqlite3.Connection) -> None:
    with outbox.action(db, "deposit", {"amount": 5}) as action:
        assert_type(action, Action)
        assert_type(action.emit("account.credited", {"amount": 5}, key=1), EventRef)
    assert_type(action.events, list[EventRef])


async def with_an_async_action(db: AsyncConnection) -> None:
    async with outbox.action(db, "deposit") as action:
        action.emit(ParcelLost("x"), tenant="acme")


def with_a_context(db: sqlite3.Connection, cause: Event[Any], request_id: str) -> None:
    with outbox.context(
        correlation_id="c", causation=cause, actor="user:1", tenant="t", request_id=request_id
    ) as origin:
        assert_type(origin.tenant, str)
        outbox.emit(db, ParcelLost("x"))


def reading(db: sqlite3.Connection) -> None:
    for found in outbox.read(db, "type:order.* key:42", after=7, limit=10):
        assert_type(found, Event[Any])
        assert_type(found.id, UUID)
        assert_type(found.position, int)
        assert_type(found.entity, tuple[str, str] | None)
        assert_type(found.action, ActionRef | None)
        assert_type(found.time, datetime)
        assert_type(found.payload, bytes)
        match found.data:
            case OrderPlaced(order_id=number):
                assert_type(number, int)
            case _:
                pass
    outbox.read(db, Filter(type="order.placed", tenant="acme"))


async def reading_async(db: AsyncSession) -> list[Event[Any]]:
    return await outbox.aread(db, "entity:order/42")


def typed(found: Event[OrderPlaced]) -> int:
    return assert_type(found.data, OrderPlaced).total_cents


def handling(db: sqlite3.Connection) -> UUID | None:
    try:
        outbox.emit(db, ParcelLost("x"), idempotency_key="k", entity_version=1)
    except KeyReusedError as reused:
        return assert_type(reused.original_id, UUID)
    except StaleVersionError as stale:
        assert_type(stale.version, int)
    return None


def with_a_driver_of_my_own() -> None:
    for sql, bound in outbox.statements("postgres", "format", [ParcelLost("x")]):
        print(sql, bound)  # noqa: T201 - the driver's execute
    outbox.register(dict, sync=lambda tx, schema: (tx, schema))
