"""What is particular to one kind of connection, and where a transaction really begins."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from outrider import Draft, NotInTransactionError, Outbox, UnsupportedConnectionError
from outrider.sql.dialects import dialect_named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine


class Order:
    """A class of the application that a session may bind by itself."""


outbox = Outbox(namespace="shop")


@pytest.fixture
def engine(migrated_postgres_url: str) -> Iterator[Engine]:
    engine = create_engine(driven_by("psycopg", migrated_postgres_url), poolclass=NullPool)
    yield engine
    engine.dispose()


def driven_by(driver: str, url: str) -> str:
    return url.replace("postgresql:", f"postgresql+{driver}:")


def test_sqlite3_in_autocommit_takes_events_in_a_transaction_that_the_caller_began(
    migrated_sqlite_url: str,
) -> None:
    path = migrated_sqlite_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        outbox.emit(connection, "test_order.placed", {})
        connection.execute("ROLLBACK")

        assert outbox.read(connection) == []


def test_psycopg_in_autocommit_takes_events_in_a_transaction_that_the_caller_began(
    migrated_postgres_url: str,
) -> None:
    with psycopg.connect(migrated_postgres_url, autocommit=True) as connection:
        with connection.transaction(force_rollback=True):
            outbox.emit(connection, "test_order.placed", {})

        assert outbox.read(connection) == []


async def test_psycopg_async_in_autocommit_takes_events_in_a_transaction_that_the_caller_began(
    migrated_postgres_url: str,
) -> None:
    async with await psycopg.AsyncConnection.connect(
        migrated_postgres_url, autocommit=True
    ) as connection:
        async with connection.transaction(force_rollback=True):
            await outbox.aemit(connection, "test_order.placed", {})

        assert await outbox.aread(connection) == []


def test_psycopg_in_a_pipeline_takes_events(migrated_postgres_url: str) -> None:
    with psycopg.connect(migrated_postgres_url) as connection:
        with connection.pipeline():
            first = outbox.emit(connection, "test_order.placed", {}, idempotency_key="k")
            outbox.emit(connection, "test_order.placed", {})
            again = outbox.emit(connection, "test_order.placed", {}, idempotency_key="k")

        assert (again.id, again.duplicate) == (first.id, True)
        assert len(outbox.read(connection)) == 2


async def test_psycopg_async_in_a_pipeline_takes_events(migrated_postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(migrated_postgres_url) as connection:
        async with connection.pipeline():
            first = await outbox.aemit(connection, "test_order.placed", {}, idempotency_key="k")
            await outbox.aemit(connection, "test_order.placed", {})
            again = await outbox.aemit(connection, "test_order.placed", {}, idempotency_key="k")

        assert (again.id, again.duplicate) == (first.id, True)
        assert len(await outbox.aread(connection)) == 2


def test_psycopg_in_autocommit_and_in_a_pipeline_is_refused_without_a_transaction(
    migrated_postgres_url: str,
) -> None:
    with (
        psycopg.connect(migrated_postgres_url, autocommit=True) as connection,
        connection.pipeline(),
    ):
        connection.execute("SELECT 1")
        with pytest.raises(NotInTransactionError):
            outbox.emit(connection, "teapot.filled", {})
        with connection.transaction():
            outbox.emit(connection, "teapot.filled", {})

    with psycopg.connect(migrated_postgres_url) as reader:
        assert len(outbox.read(reader)) == 1


def test_sqlalchemy_in_autocommit_only_for_this_connection_is_refused(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with pytest.raises(NotInTransactionError):
            outbox.emit(connection, "test_order.placed", {})

        assert outbox.read(connection) == []


def test_a_session_whose_connection_is_in_autocommit_is_refused(engine: Engine) -> None:
    with Session(engine) as session:
        session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})

        with pytest.raises(NotInTransactionError):
            outbox.emit(session, "test_order.placed", {})


def test_a_transaction_of_its_own_on_an_engine_in_autocommit_is_accepted(engine: Engine) -> None:
    commits = engine.execution_options(isolation_level="AUTOCOMMIT")
    with commits.connect().execution_options(isolation_level="READ COMMITTED") as connection:
        outbox.emit(connection, "test_order.placed", {})
        connection.rollback()

        assert outbox.read(connection) == []


def test_a_sqlalchemy_connection_in_autocommit_is_left_as_it_was(migrated_sqlite_url: str) -> None:
    engine = create_engine(migrated_sqlite_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        with pytest.raises(NotInTransactionError):
            outbox.emit(connection, "test_order.placed", {})

        assert not connection.in_transaction()
    engine.dispose()


def test_a_session_that_binds_its_classes_alone_is_told_what_the_log_needs(engine: Engine) -> None:
    with Session(binds={Order: engine}) as session:
        with pytest.raises(UnsupportedConnectionError, match="to the same engine"):
            outbox.emit(session, "test_order.placed", {})
        with pytest.raises(UnsupportedConnectionError, match="to the same engine"):
            outbox.read(session)

    with Session(engine, binds={Order: engine}) as session:
        outbox.emit(session, "test_order.placed", {})
        assert len(outbox.read(session)) == 1


async def test_an_async_session_that_binds_its_classes_alone_is_told_what_the_log_needs(
    migrated_postgres_url: str,
) -> None:
    engine = create_async_engine(driven_by("asyncpg", migrated_postgres_url), poolclass=NullPool)
    async with AsyncSession(binds={Order: engine}) as session:
        with pytest.raises(UnsupportedConnectionError, match="to the same engine"):
            outbox.emit(session, "test_order.placed", {})
        with pytest.raises(UnsupportedConnectionError, match="to the same engine"):
            await outbox.aemit(session, "test_order.placed", {})

        assert not session.new

    async with AsyncSession(engine, binds={Order: engine}) as session:
        outbox.emit(session, "test_order.placed", {})
        await outbox.aemit(session, "test_order.placed", {})
        await session.flush()
        assert len(await outbox.aread(session)) == 2
    await engine.dispose()


def test_an_emit_does_not_flush_what_the_session_holds(migrated_sqlite_url: str) -> None:
    class Base(DeclarativeBase):
        pass

    class Basket(Base):
        __tablename__ = "baskets"
        id: Mapped[int] = mapped_column(primary_key=True)

    engine = create_engine(migrated_sqlite_url)
    with Session(engine) as session:
        basket = Basket(id=1)
        session.add(basket)
        outbox.emit(session, "test_order.placed", {})
        outbox.emit_many(session, [Draft("test_order.placed", {})] * 2)
        outbox.read(session)

        assert basket in session.new
    engine.dispose()


@pytest.fixture
def schema_url(postgres_url: str) -> str:
    dialect = dialect_named("postgres", "events")
    with psycopg.connect(postgres_url) as connection:
        for statement in (*dialect.prelude, *dialect.script("schema.sql")):
            connection.execute(statement.encode())
    return postgres_url


def test_the_log_may_live_in_a_schema_of_its_own(schema_url: str) -> None:
    apart = Outbox(namespace="shop", schema="events")
    with psycopg.connect(schema_url) as connection:
        first = apart.emit(connection, "test_order.placed", {}, idempotency_key="k")
        again = apart.emit(connection, "test_order.placed", {}, idempotency_key="k")
        apart.emit_many(connection, [Draft("test_order.placed", {})] * 2)

        assert (again.id, again.duplicate) == (first.id, True)
        assert len(apart.read(connection)) == 3


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_an_async_session_writes_into_that_schema_too(schema_url: str, driver: str) -> None:
    apart = Outbox(namespace="shop", schema="events")
    engine = create_async_engine(driven_by(driver, schema_url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        apart.emit(session, "test_order.placed", {}, delay="1h")
        await session.flush()
        await apart.aemit(session, "test_order.placed", {}, key="k", lock=True)

        assert len(await apart.aread(session)) == 2
    await engine.dispose()


def test_the_log_may_live_in_an_attached_file(tmp_path: Path) -> None:
    apart = Outbox(namespace="shop", schema="events")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("ATTACH DATABASE ? AS events", [str(tmp_path / "events.db")])
        for statement in dialect_named("sqlite", "events").script("schema.sql"):
            connection.execute(statement)
        first = apart.emit(connection, "test_order.placed", {}, idempotency_key="k")
        again = apart.emit(connection, "test_order.placed", {}, idempotency_key="k")

        assert (again.id, again.duplicate) == (first.id, True)
        assert len(apart.read(connection)) == 1
