"""A small shop with its log of events, live: `make demo`, or `python examples/demo.py [SECONDS]`.

An order and its events are one transaction: a declined payment rolls all of it back.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from outrider import Event, EventRef, Outbox, event
from outrider.testing import migrate

LIVE_SECONDS = 20.0
CUSTOMERS = 60
ROWS = 12
LIVE = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
COLOURS = LIVE and not os.environ.get("NO_COLOR")
CODES = {"order": "36", "payment": "32", "parcel": "33", "review": "35", "till": "34"}


@event("order.placed", key="order_id")
@dataclass(frozen=True)
class OrderPlaced:
    order_id: int
    cents: int


@event("payment.captured", key="order_id", entity=("order", "order_id"))
@dataclass(frozen=True)
class PaymentCaptured:
    order_id: int
    cents: int


@event("parcel.shipped", key="order_id", entity=("order", "order_id"))
@dataclass(frozen=True)
class ParcelShipped:
    order_id: int


@event("review.requested", key="order_id", entity=("order", "order_id"))
@dataclass(frozen=True)
class ReviewRequested:
    order_id: int


class DeclinedError(Exception):
    """The bank said no."""


outbox = Outbox(namespace="shop")


@dataclass
class Shop:
    db: sqlite3.Connection
    declined: list[int] = field(default_factory=list[int])
    repeated: int = 0
    last: str = ""

    def serve(self, order_id: int) -> None:
        """Serve one customer; some are declined, some press the button twice."""
        cents = random.randrange(500, 20_000)  # noqa: S311 - prices, not secrets
        with outbox.context(actor=f"customer:{order_id % 7}", source="web"):
            try:
                self.place(order_id, cents, solvent=order_id % 5 != 0)
            except DeclinedError:
                self.declined.append(order_id)
                self.last = f"order {order_id}: payment declined, rolled back with its events"
                return
            self.last = f"order {order_id}: placed"
            if order_id % 4 == 0:
                with self.db:
                    self.repeated += self.capture(order_id, cents).duplicate
                self.last = f"order {order_id}: paid twice? The second request was recognised"

    def place(self, order_id: int, cents: int, *, solvent: bool) -> None:
        with self.db:  # one transaction: the order and its events, or nothing
            self.db.execute("INSERT INTO orders VALUES (?, ?)", (order_id, cents))
            placed = outbox.emit(self.db, OrderPlaced(order_id, cents))
            with outbox.context(causation=placed):
                paid = self.capture(order_id, cents)
            if not solvent:
                raise DeclinedError
            shipped = outbox.emit(self.db, ParcelShipped(order_id), causation=paid)
            if order_id % 3 == 0:  # in the log now, due in a week
                outbox.emit(self.db, ReviewRequested(order_id), causation=shipped, delay="7d")

    def capture(self, order_id: int, cents: int) -> EventRef:
        captured = PaymentCaptured(order_id, cents)
        return outbox.emit(self.db, captured, idempotency_key=f"capture:{order_id}")

    def close(self) -> None:
        """End the day: one business action with its parameters beside its event."""
        with self.db, outbox.action(self.db, "close_till", {"till": 1}) as action:
            action.emit("till.closed", {"orders": len(self.orders())}, key=1)

    def orders(self) -> list[int]:
        return [row[0] for row in self.db.execute("SELECT id FROM orders")]

    def log(self) -> list[Event[object]]:
        return outbox.read(self.db, limit=1000)


def paint(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if COLOURS else text


def line_of(found: Event[object], width: int) -> str:
    about, number = found.entity or ("", "")
    cause = str(found.causation_id)[-4:] if found.causation_id else ""
    due = "due in a week" if found.available_at else ""
    head = f"{found.position:>8}  {str(found.id)[-4:]}  "
    rest = f"{found.type:<18}  {about} {number:<5} {cause:<10} {due}"
    code = CODES[found.type.partition(".")[0]]
    return paint(head, "2") + paint(rest[: max(width - len(head), 0)], code)


def draw(shop: Shop, done: float, *, first: bool) -> None:
    columns, lines_max = shutil.get_terminal_size()
    width, room = min(columns - 1, 78), min(ROWS, max(lines_max - 9, 1))
    log = shop.log()
    bar = "━" * round(done * 24) + "─" * (24 - round(done * 24))
    counts = (
        f"orders {len(shop.orders()):<5} events {len(log):<5} declined {len(shop.declined):<4} "
    )
    lines = [
        paint("Outrider", "1") + "  orders and their events, in one transaction",
        "",
        (counts + bar)[:width],
        paint(shop.last[:width], "31" if "declined" in shop.last else "2"),
        "",
        paint("position  id    event               about   because of"[:width], "2"),
        *(line_of(found, width) for found in log[-room:]),
        *[""] * (room - len(log)),
    ]
    up = "" if first else f"\x1b[{len(lines)}A"
    sys.stdout.write(up + "".join(f"\r{line}\x1b[K\n" for line in lines))
    sys.stdout.flush()


def run(shop: Shop, seconds: float) -> None:
    started = time.monotonic()
    for order_id in range(1, CUSTOMERS + 1):
        shop.serve(order_id)
        if LIVE:
            draw(shop, order_id / CUSTOMERS, first=order_id == 1)
            time.sleep(max(started + seconds * order_id / CUSTOMERS - time.monotonic(), 0))


def prove(shop: Shop) -> bool:
    """Compare the tables; print what was found."""
    orders, log = shop.orders(), shop.log()
    announced = [int(found.key or 0) for found in log if found.type == "order.placed"]
    captured = [found for found in log if found.type == "payment.captured"]
    touched = [int(found.key or 0) for found in log if found.action is None]
    same = f"{len(orders)} orders in the table = {len(announced)} order.placed in the log"
    neither = f"{len(shop.declined)} declined orders, in neither"
    once = f"{shop.repeated} payments asked for twice, captured once"
    checks = [
        (sorted(announced) == sorted(orders), same),
        (not {*orders, *touched} & {*shop.declined}, neither),
        (len(captured) == len(orders), once),
    ]
    for holds, text in checks:
        print(paint("ok   ", "32") if holds else paint("WRONG", "31"), text)
    return all(holds for holds, _ in checks)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else LIVE_SECONDS
    with (
        tempfile.TemporaryDirectory(prefix="outrider-demo-") as folder,
        closing(sqlite3.connect(Path(folder) / "shop.db")) as db,
    ):
        migrate(db)
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER)")
        shop = Shop(db)
        try:
            run(shop, seconds)
        except KeyboardInterrupt:
            print("\rstopped early, which loses nothing")
        shop.close()
        for found in () if LIVE else shop.log()[-ROWS:]:
            print(line_of(found, 78))
        return 0 if prove(shop) else 1


if __name__ == "__main__":
    sys.exit(main())
