"""The contract of a connection: derive a test class from it for each kind that you adapt.

An adapter of your own, registered with ``outbox.register``, is tested like those of Outrider.
Say how an application gets a connection of the kind, and which database it may use::

    @asynccontextmanager
    async def connection(url, *, autocommit=False):
        connection = mydriver.connect(url, autocommit=autocommit)
        sent = []
        connection.on_statement(sent.append)
        if not autocommit:
            connection.begin()
        try:
            yield Caller(
                tx=connection,
                run=lambda sql: connection.execute(sql).fetchall(),
                commit=connection.commit,
                rollback=connection.rollback,
                savepoint=connection.savepoint,
                in_transaction=lambda: connection.in_transaction,
                statements=lambda: sent,
            )
        finally:
            connection.rollback()
            connection.close()


    class TestMyDriver(SavepointContract, RaceContract, ConnectionContract):
        connect = staticmethod(connection)
        dialect = "postgres"

        @pytest.fixture
        def url(self, my_migrated_database): return my_migrated_database

        @pytest.fixture
        def outbox(self):
            outbox = Outbox(namespace="contract", payload_bytes_max=PAYLOAD_BYTES_MAX)
            outbox.register(mydriver.Connection, sync=MyAdapter)
            return outbox

Every callable of a :class:`Caller` may be a coroutine function, so an async driver is told in
the same way; its class derives from AsyncConnectionContract. ``SavepointContract`` is for
connections with savepoints, ``RaceContract`` for PostgreSQL. The suite needs pytest-asyncio.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from outrider.errors import NotInTransactionError, UnsupportedConnectionError
from outrider.events import Draft
from outrider.outbox import Outbox
from outrider.testing.contracts.callers import (
    AWAITED,
    BLOCKING,
    UNAWAITED,
    Application,
    Caller,
    Connect,
    Verbs,
)
from outrider.testing.contracts.emitting import PAYLOAD_BYTES_MAX, SavepointContract, Seen
from outrider.testing.contracts.guarded import GuardedContract, RaceContract
from outrider.testing.contracts.values import ValueContract

__all__ = [
    "PAYLOAD_BYTES_MAX",
    "AsyncConnectionContract",
    "Caller",
    "Connect",
    "ConnectionContract",
    "RaceContract",
    "SavepointContract",
    "UnitOfWorkContract",
]

ASKING: list[dict[str, Any]] = [
    {"idempotency_key": "k"},
    {"idempotency_key": True},
    {"id": "018f0000-0000-7000-8000-000000000001"},
    {"key": "k", "entity_version": 1},
    {"key": "k", "lock": True},
]


@pytest.mark.asyncio
class ConnectionContract(ValueContract, GuardedContract):
    """A connection whose driver blocks."""

    verbs: ClassVar[Verbs] = BLOCKING

    async def test_aemit_refuses_a_connection_that_blocks(self, app: Application) -> None:
        with pytest.raises(UnsupportedConnectionError, match=r"outbox\.emit\("):
            await app.outbox.aemit(app.tx, "contract_order.placed", {})

        assert await app.read() == []


@pytest.mark.asyncio
class AsyncConnectionContract(ValueContract, GuardedContract):
    """A connection whose driver is awaited."""

    verbs: ClassVar[Verbs] = AWAITED
    joins: ClassVar[bool] = False
    """Whether the kind also takes plain events without an await."""

    @pytest.mark.parametrize("options", [{}, *ASKING])
    async def test_emit_refuses_what_would_need_an_await_and_names_aemit(
        self, app: Application, options: dict[str, Any]
    ) -> None:
        if self.joins and not options:
            return  # UnitOfWorkContract shows where that event goes.
        async with app.watched() as statements:
            with pytest.raises(UnsupportedConnectionError, match="aemit"):
                app.outbox.emit(app.tx, "contract_order.placed", {}, **options)

        assert statements == []
        assert await app.read() == []


@pytest.mark.asyncio
class UnitOfWorkContract(SavepointContract, ValueContract):
    """An async session that takes events without an await and writes them with its flush."""

    verbs: ClassVar[Verbs] = UNAWAITED
    guarded: ClassVar[bool] = False

    def statements_of(self, events: int) -> int:
        """Return one: a flush is one executemany, for as long as the events say the same."""
        del events
        return 1

    @pytest.mark.requirement("NEV-26", "NEV-28")
    async def test_an_event_is_written_with_the_flush_and_not_before(
        self, app: Application, others_see: Seen
    ) -> None:
        async with app.watched() as before:
            ref = await app.emit("contract_order.placed", {"order_id": 42})
        async with app.watched() as flushed:
            await app.flush()
        async with app.watched() as after:
            await app.flush()
        await app.commit()

        assert (before, len(flushed), after) == ([], 1, [])
        assert [event.id for event in await others_see()] == [ref.id]

    async def test_a_commit_flushes_what_is_pending(
        self, app: Application, others_see: Seen
    ) -> None:
        ref = await app.emit("contract_order.placed", {"order_id": 42})
        await app.commit()

        assert [event.id for event in await others_see()] == [ref.id]

    async def test_a_rollback_forgets_what_is_pending(
        self, app: Application, others_see: Seen
    ) -> None:
        await app.emit("contract_order.placed", {"n": 1})
        await app.rollback()
        await app.emit("contract_order.placed", {"n": 2})
        await app.commit()

        assert [event.data["n"] for event in await others_see()] == [2]

    async def test_one_flush_keeps_the_order_of_its_emits(self, app: Application) -> None:
        options: list[dict[str, Any]] = [
            *({}, {"key": "k"}, {"delay": "1h"}, {"headers": {"x": "y"}}, {}, {"delay": "2h"}),
            *({"key": "a", "keep": "1d"}, {"metadata": {"m": 1}}, {}, {"key": "z"}),
        ]
        for n, each in enumerate(options * 3):
            await app.emit("contract_order.placed", {"n": n}, **each)

        events = await app.read()

        assert [event.data["n"] for event in events] == list(range(len(options) * 3))

    @pytest.mark.parametrize("options", ASKING)
    async def test_what_asks_the_database_is_refused_and_names_aemit(
        self, app: Application, options: dict[str, Any]
    ) -> None:
        draft = Draft("contract_order.placed", {}, options)  # type: ignore[arg-type]

        with pytest.raises(UnsupportedConnectionError, match="aemit"):
            await app.emit("contract_order.placed", {}, **options)
        with pytest.raises(UnsupportedConnectionError, match="aemit"):
            await app.emit_many([Draft("contract_order.placed", {}), draft])

        assert await app.read() == []

    async def test_a_connection_that_commits_by_itself_is_refused_at_the_flush(
        self, url: str, outbox: Outbox, others_see: Seen
    ) -> None:
        async with self.connect(url, autocommit=True) as caller:
            app = Application(caller, outbox, self.verbs)
            await app.emit("contract_order.placed", {})
            async with app.watched() as statements:
                with pytest.raises(NotInTransactionError, match="fix:"):
                    await app.flush()

        assert statements == []
        assert await others_see() == []

    async def test_a_connection_that_commits_by_itself_may_be_allowed(
        self, url: str, others_see: Seen
    ) -> None:
        outbox = Outbox(namespace="contract", on_autocommit="allow")
        async with self.connect(url, autocommit=True) as caller:
            app = Application(caller, outbox, self.verbs)
            ref = await app.emit("contract_order.placed", {"n": 1})
            await app.flush()

            assert [event.id for event in await others_see()] == [ref.id]

    async def test_emit_and_aemit_mix_in_one_transaction(
        self, app: Application, others_see: Seen
    ) -> None:
        await app.emit("contract_order.placed", {"n": 1})
        await app.flush()
        ref = await app.outbox.aemit(app.tx, "contract_order.placed", {"n": 2}, idempotency_key="k")
        await app.emit("contract_order.placed", {"n": 3})
        await app.commit()

        assert not ref.duplicate
        assert [event.data["n"] for event in await others_see()] == [1, 2, 3]
