"""Money moves between two accounts; the action and its events commit with it. Plain psycopg."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import psycopg

from outrider import Outbox, event


@event("account.debited", key="account")
@dataclass(frozen=True)
class AccountDebited:
    account: str
    cents: int


@event("account.credited", key="account")
@dataclass(frozen=True)
class AccountCredited:
    account: str
    cents: int


outbox = Outbox(namespace="bank")


class NoMoneyError(Exception):
    """The account does not hold enough."""


def transfer(db: psycopg.Connection[Any], source: str, target: str, cents: int) -> None:
    params = {"from": source, "to": target, "cents": cents}
    with db.transaction(), outbox.action(db, "transfer", params) as action:
        book = "UPDATE accounts SET cents = cents + %s WHERE id = %s RETURNING cents"
        [left] = db.execute(book, [-cents, source]).fetchone() or [0]
        if left < 0:
            raise NoMoneyError(f"{source} lacks {-left} cents")
        db.execute(book, [cents, target])
        action.emit(AccountDebited(source, cents))
        action.emit(AccountCredited(target, cents))


def main() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        db.execute("CREATE TABLE accounts (id text PRIMARY KEY, cents bigint NOT NULL)")
        db.execute("INSERT INTO accounts VALUES ('A', 900), ('B', 0)")
        db.commit()
        for cents in (500, 700):
            try:
                transfer(db, "A", "B", cents)
            except NoMoneyError as error:
                print("refused:", error)
        print(db.execute("SELECT id, cents FROM accounts ORDER BY id").fetchall())
        for found in outbox.read(db, "type:account.*"):
            assert found.action is not None
            print(found.position, found.type, found.data, found.action.params)


if __name__ == "__main__":
    main()
