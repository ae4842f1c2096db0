"""Orders by SQLAlchemy's AsyncSession on PostgreSQL; their events join its unit of work."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from outrider import Outbox, event


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    total_cents: Mapped[int]


@event("order.placed", key="order_id")
@dataclass(frozen=True)
class OrderPlaced:
    order_id: int
    total_cents: int


@event("payment.captured", key="order_id", entity=("order", "order_id"))
@dataclass(frozen=True)
class PaymentCaptured:
    order_id: int


outbox = Outbox(namespace="shop")


async def place(db: AsyncSession, total_cents: int) -> int:
    order = Order(total_cents=total_cents)
    db.add(order)
    await db.flush()  # the database gives the order its id
    outbox.emit(db, OrderPlaced(order.id, total_cents))  # no await: the flush writes it
    return order.id


async def capture(db: AsyncSession, order_id: int, request: str) -> bool:
    # A key has to be looked up, hence the await.
    ref = await outbox.aemit(db, PaymentCaptured(order_id), idempotency_key=request)
    return not ref.duplicate


async def main() -> None:
    url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://", 1)
    engine = create_async_engine(url)
    sessions = async_sessionmaker(engine)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)

    async with sessions.begin() as db:
        order_id = await place(db, 4200)
    for _ in range(2):  # the request arrives twice
        async with sessions.begin() as db:
            captured = await capture(db, order_id, "request-77")
            print("captured" if captured else "already captured")

    async with sessions() as db:
        for found in await outbox.aread(db, f"entity:order/{order_id}"):
            print(found.position, found.type, found.data)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())
