"""An order and its event, in one SQLite transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass

from outrider import Outbox, event
from outrider.testing import migrate


@event("order.placed", key="order_id")
@dataclass(frozen=True)
class OrderPlaced:
    order_id: int
    total_cents: int


outbox = Outbox(namespace="shop")
CREDIT_CENTS = 100_000


def place(db: sqlite3.Connection, order_id: int, total_cents: int) -> None:
    with db:
        db.execute("INSERT INTO orders VALUES (?, ?)", (order_id, total_cents))
        outbox.emit(db, OrderPlaced(order_id, total_cents))
        if total_cents > CREDIT_CENTS:
            raise ValueError("payment declined")


def main() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        migrate(db)
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total_cents INTEGER)")
        for order_id, total_cents in [(1, 4200), (2, 990_000), (3, 1500)]:
            try:
                place(db, order_id, total_cents)
            except ValueError as error:
                print(f"order {order_id}: {error}")
        print("orders:", [row[0] for row in db.execute("SELECT id FROM orders")])
        for found in outbox.read(db):
            print("event: ", found.position, found.type, found.data)


if __name__ == "__main__":
    main()
