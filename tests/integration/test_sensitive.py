"""Sensitive fields on real databases: nowhere in clear, readable, and gone once erased."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pydantic
import pytest

from outrider import (
    Draft,
    KeyReusedError,
    Outbox,
    StoreError,
    SubjectErasedError,
    event,
    payloads,
)
from outrider.event_types import DECLARED
from outrider.log.events import MASK, masked
from outrider.sql.dialects import dialect_named

MAIL = "anna.zimtstern@example.org"
CITY = "Wolkenkuckucksheim"
SECRETS = (MAIL, CITY, "4242 4242", "anna.zimtstern")


@dataclass(frozen=True)
class Registered:
    guest: int
    mail: str | None
    address: dict[str, str] | None = None
    note: str = "open"


class Paid(pydantic.BaseModel, frozen=True):
    guest: int
    card: str
    cents: int


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare the events of these tests for as long as each takes."""
    for name in ("_by_name", "_by_class", "_upcasts"):
        monkeypatch.setattr(DECLARED, name, dict(getattr(DECLARED, name)))
    options: Any = {"data_subject": "guest", "key": "guest"}
    event("guest.registered", sensitive=["mail", "address"], **options)(Registered)
    event("guest.paid", sensitive=["card"], **options)(Paid)


class Database:
    """A connection of either kind, its rows as tuples."""

    def __init__(self, connection: Any, dialect: str) -> None:
        self.connection = connection
        for statement in dialect_named(dialect).script("schema.sql"):
            connection.execute(statement)
        connection.commit()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(sql)]

    def dump(self) -> str:
        """Return everything that is stored about events, as text."""
        tables = [self.rows(f"SELECT * FROM {name}") for name in ("outbox_events", "outbox_keys")]  # noqa: S608
        return repr(tables)

    def erase(self, subject: object) -> None:
        self.connection.execute(
            "UPDATE outbox_keys SET key = NULL, erased_at = created_at"  # noqa: S608
            f" WHERE data_subject = '{subject}'"
        )
        self.connection.commit()


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    if database_url.startswith("sqlite:"):
        path = Path(database_url.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path)) as connection:
            yield Database(connection, "sqlite")
    else:
        with psycopg.connect(database_url) as opened:
            yield Database(opened, "postgres")


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(namespace="shop")


def registered(guest: int = 1) -> Registered:
    return Registered(guest, MAIL, {"city": CITY})


def data(outbox: Outbox, db: Database) -> list[Any]:
    return [found.data for found in outbox.read(db.connection)]


def test_sensitive_data_is_read_back_typed(outbox: Outbox, db: Database) -> None:
    outbox.emit(db.connection, registered())
    outbox.emit(db.connection, Paid(guest=1, card="4242 4242", cents=5))
    db.connection.commit()

    assert data(outbox, db) == [registered(), Paid(guest=1, card="4242 4242", cents=5)]


def test_sensitive_data_is_nowhere_in_clear(outbox: Outbox, db: Database) -> None:
    outbox.emit(db.connection, registered(), idempotency_key="k", metadata={"build": 7})
    outbox.emit_many(db.connection, [registered(2), Paid(guest=2, card="4242 4242", cents=5)])
    db.connection.commit()

    stored = db.dump()

    assert not [secret for secret in SECRETS if secret in stored]
    assert "open" in stored
    assert stored.count(payloads.SEALED) == 5


def test_sensitive_data_is_nowhere_in_the_file(outbox: Outbox, sqlite_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path)) as connection:
        db = Database(connection, "sqlite")
        outbox.emit(db.connection, registered())
        connection.commit()

    raw = b"".join(path.read_bytes() for path in sqlite_path.parent.iterdir() if path.is_file())

    assert b"guest.registered" in raw
    assert not [secret for secret in SECRETS if secret.encode() in raw]


def test_sensitive_data_is_masked_for_screens(outbox: Outbox, db: Database) -> None:
    outbox.emit(db.connection, registered())

    (found,) = outbox.read(db.connection)

    assert masked(payloads.load(found.payload)) == {
        "guest": 1,
        "mail": MASK,
        "address": MASK,
        "note": "open",
    }


def test_a_subject_has_one_key_for_all_its_events(outbox: Outbox, db: Database) -> None:
    outbox.emit(db.connection, registered(1))
    outbox.emit_many(db.connection, [registered(1), registered(2)])
    outbox.emit(db.connection, registered(1), tenant="acme")
    db.connection.commit()

    rows = db.rows("SELECT tenant_id, data_subject, key FROM outbox_keys ORDER BY 1, 2")

    assert [row[:2] for row in rows] == [("", "1"), ("", "2"), ("acme", "1")]
    assert len({bytes(row[2]) for row in rows}) == 3
    assert {len(row[2]) for row in rows} == {32}


def test_a_rolled_back_event_leaves_no_key(outbox: Outbox, db: Database) -> None:
    outbox.emit(db.connection, registered())
    db.connection.rollback()

    assert db.rows("SELECT * FROM outbox_keys") == []
    assert data(outbox, db) == []


def test_once_the_key_is_erased_the_rest_of_the_event_stays(outbox: Outbox, db: Database) -> None:
    outbox.emit_many(db.connection, [registered(1), registered(2)])
    db.connection.commit()

    db.erase(1)

    assert data(outbox, db) == [
        {"guest": 1, "mail": None, "address": None, "note": "open"},
        registered(2),
    ]
    (first, _) = outbox.read(db.connection)
    assert (first.type, first.key, first.data_subject) == ("guest.registered", "1", "1")


def test_nothing_more_is_written_about_an_erased_subject(outbox: Outbox, db: Database) -> None:
    outbox.emit(db.connection, registered(1))
    db.connection.commit()
    db.erase(1)

    with pytest.raises(SubjectErasedError, match="data subject '1' was erased"):
        outbox.emit(db.connection, registered(1))
    with pytest.raises(SubjectErasedError):
        outbox.emit_many(db.connection, [Draft("guest.left", {}), registered(2), registered(1)])

    # The transaction is as it was, and other subjects are written about.
    outbox.emit(db.connection, registered(3))
    db.connection.commit()
    assert [found.key for found in outbox.read(db.connection)] == ["1", "3"]


def test_a_subject_that_is_erased_in_one_tenant_lives_on_in_another(
    outbox: Outbox, db: Database
) -> None:
    outbox.emit(db.connection, registered(1))
    db.connection.commit()
    db.erase(1)

    outbox.emit(db.connection, registered(1), tenant="acme")

    assert data(outbox, db)[1] == registered(1)


@pytest.mark.requirement("NEV-14")
def test_a_repetition_is_recognized_though_it_is_encrypted_anew(
    outbox: Outbox, db: Database
) -> None:
    first = outbox.emit(db.connection, registered(), idempotency_key="k")
    again = outbox.emit(db.connection, registered(), idempotency_key="k")

    assert (again.id, again.duplicate) == (first.id, True)
    with pytest.raises(KeyReusedError):
        outbox.emit(db.connection, Registered(1, "other@example.org"), idempotency_key="k")
    assert data(outbox, db) == [registered()]


def test_what_is_none_needs_no_encryption_and_no_secret(outbox: Outbox, db: Database) -> None:
    outbox.emit(db.connection, Registered(1, None))

    assert data(outbox, db) == [Registered(1, None)]
    assert payloads.SEALED not in db.dump()


def test_a_sealed_value_that_was_moved_to_another_event_does_not_open(
    outbox: Outbox, db: Database
) -> None:
    outbox.emit_many(db.connection, [registered(1), registered(1)])
    (first, second) = outbox.read(db.connection)
    columns = (
        "tenant_id, namespace, event_type, schema_version, payload, content_type, data_subject"
    )
    copied = "11111111-1111-7111-8111-111111111111"
    db.connection.execute(
        f"INSERT INTO outbox_events (event_id, correlation_id, {columns})"  # noqa: S608
        f" SELECT '{copied}', 'c', {columns} FROM outbox_events WHERE event_id = '{first.id}'"
    )

    with pytest.raises(StoreError, match=f"the sealed value of {copied}:mail does not open"):
        outbox.read(db.connection, after=second.position)


async def test_sensitive_data_is_written_and_read_by_async_drivers(
    outbox: Outbox, postgres_url: str
) -> None:
    def create() -> None:
        with psycopg.connect(postgres_url) as connection:
            Database(connection, "postgres")

    await asyncio.to_thread(create)
    connection = await asyncpg.connect(postgres_url)
    try:
        async with connection.transaction():
            await outbox.aemit(connection, registered(), idempotency_key="k")
            await outbox.aemit_many(connection, [registered(2), registered(3)])
        found = [one.data for one in await outbox.aread(connection)]
    finally:
        await connection.close()

    assert found == [registered(), registered(2), registered(3)]
