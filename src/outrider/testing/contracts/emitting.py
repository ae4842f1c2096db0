"""What every contract of a connection starts from: fixtures, and what holds for all kinds."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, TypeAlias
from uuid import UUID

import pytest
import pytest_asyncio

from outrider.errors import (
    EncodingError,
    EventTooLargeError,
    InvalidEventError,
    OutriderError,
)
from outrider.events import Actor, Draft, Event
from outrider.outbox import Outbox
from outrider.sql.emit import CHUNK_EVENTS
from outrider.testing.contracts.callers import Application, Caller, Verbs

Seen: TypeAlias = Callable[[], Awaitable[list[Event[Any]]]]
Refused: TypeAlias = tuple[object, dict[str, Any], type[OutriderError]]

MANY_EVENTS = 10_000
PAYLOAD_BYTES_MAX = 1_000

REFUSED: list[Refused] = [
    ({"ratio": float("nan")}, {}, EncodingError),
    ({"text": "nul \x00"}, {}, EncodingError),
    ({"note": "x" * PAYLOAD_BYTES_MAX}, {}, EventTooLargeError),
    (b"\x89PNG", {}, InvalidEventError),
    ({}, {"headers": {"X-Name": "line\nbreak"}}, InvalidEventError),
    ({}, {"key": ""}, InvalidEventError),
    ({}, {"key": "k" * 256}, InvalidEventError),
    ({}, {"entity_version": 1}, InvalidEventError),
    ({}, {"delay": "1s", "at": "tomorrow"}, InvalidEventError),
    ({}, {"unheard_of": 1}, OutriderError),
]


@pytest.mark.asyncio
class EmitContract:
    """The part of the contract that every kind of connection keeps."""

    verbs: ClassVar[Verbs]

    @staticmethod
    def connect(url: str, /, *, autocommit: bool = False) -> AbstractAsyncContextManager[Caller]:
        """Open a connection of the kind under test; see :class:`callers.Connect`."""
        raise NotImplementedError("override connect: it opens a connection of your kind")

    @pytest.fixture
    def url(self) -> str:
        """Return the URL of a database of this test's own that has Outrider's tables."""
        raise NotImplementedError("override the fixture: a migrated database for each test")

    @pytest.fixture
    def outbox(self) -> Outbox:
        """Return the outbox under test; override it to register an adapter of your own."""
        return Outbox(namespace="contract", payload_bytes_max=PAYLOAD_BYTES_MAX)

    @pytest_asyncio.fixture
    async def app(self, url: str, outbox: Outbox) -> AsyncIterator[Application]:
        """Return an application in an open transaction."""
        async with self.connect(url) as caller:
            yield Application(caller, outbox, self.verbs)

    @pytest.fixture
    def others_see(self, url: str, outbox: Outbox) -> Seen:
        """Return the events as another connection sees them now."""

        async def see() -> list[Event[Any]]:
            async with self.connect(url) as caller:
                return await Application(caller, outbox, self.verbs).read()

        return see

    def statements_of(self, events: int) -> int:
        """Return how many statements one call with so many plain events takes."""
        return math.ceil(events / CHUNK_EVENTS)

    @pytest.mark.requirement("OO-IN-01", "OO-IN-02", "OO-TM-01", "OO-TM-14", "NEV-28", "CAN-26")
    async def test_a_commit_keeps_the_event_and_the_callers_data(
        self, app: Application, url: str, others_see: Seen
    ) -> None:
        await app.run("CREATE TABLE orders (id integer)")
        await app.run("INSERT INTO orders VALUES (42)")
        ref = await app.emit("contract_order.placed", {"order_id": 42})
        await app.commit()

        assert [event.id for event in await others_see()] == [ref.id]
        async with self.connect(url) as other:
            assert await Application(other, app.outbox, self.verbs).run(
                "SELECT id FROM orders"
            ) == [(42,)]

    @pytest.mark.requirement("OO-IN-01", "OO-TM-14", "NEV-28", "CAN-26", "CAN-29", "CAN-87")
    async def test_a_rollback_drops_the_event_and_the_callers_data(
        self, app: Application, url: str, others_see: Seen
    ) -> None:
        await app.run("CREATE TABLE orders (id integer)")
        await app.commit()
        async with self.connect(url) as caller:
            second = Application(caller, app.outbox, self.verbs)
            await second.run("INSERT INTO orders VALUES (42)")
            await second.emit("contract_order.placed", {"order_id": 42})
            assert len(await second.read()) == 1
            await second.rollback()

        assert await others_see() == []
        async with self.connect(url) as caller:
            orders = await Application(caller, app.outbox, self.verbs).run("SELECT id FROM orders")
        assert orders == []

    @pytest.mark.requirement("OO-TM-03", "OO-TM-15", "OO-ST-01", "OO-ST-07")
    async def test_until_the_commit_only_its_own_transaction_sees_an_event(
        self, app: Application, others_see: Seen
    ) -> None:
        ref = await app.emit("contract_order.placed", {"order_id": 42})

        assert [event.id for event in await app.read()] == [ref.id]
        assert await others_see() == []

        await app.commit()

        assert [event.id for event in await others_see()] == [ref.id]

    async def test_the_transaction_stays_the_callers(self, app: Application) -> None:
        await app.run("SELECT 1")

        for _ in range(3):
            await app.emit("contract_order.placed", {"order_id": 42})
            await app.emit_many([Draft("contract_order.placed", {"order_id": n}) for n in range(3)])
            await app.read()
            assert app.caller.in_transaction()

        assert await app.run("SELECT 1") == [(1,)]

    async def test_ten_thousand_events_of_one_call_arrive_in_order(
        self, app: Application, others_see: Seen
    ) -> None:
        drafts = [Draft("contract_meter.read", {"n": n}) for n in range(MANY_EVENTS)]

        async with app.watched() as statements:
            refs = await app.emit_many(drafts)
            await app.flush()
        await app.commit()

        events = await others_see()
        assert [event.data["n"] for event in events] == list(range(MANY_EVENTS))
        assert [event.id for event in events] == [ref.id for ref in refs]
        assert len(statements) == self.statements_of(MANY_EVENTS)

    async def test_no_events_need_no_statement(self, app: Application) -> None:
        async with app.watched() as statements:
            assert await app.emit_many([]) == []

        assert statements == []

    @pytest.mark.parametrize(("data", "options", "error"), REFUSED)
    async def test_a_refused_event_sends_no_statement(
        self, app: Application, data: object, options: dict[str, Any], error: type[OutriderError]
    ) -> None:
        given: Any = options
        drafts = [Draft("contract_order.placed", {}), Draft("contract_order.placed", data, given)]

        async with app.watched() as statements:
            with pytest.raises(error):
                await app.emit("contract_order.placed", data, **options)
            with pytest.raises(error):
                await app.emit_many(drafts)

        assert statements == []
        assert await app.read() == []
        assert app.caller.in_transaction()

    @pytest.mark.requirement("OO-IN-01")
    async def test_a_database_error_of_the_caller_leaves_nothing_behind(
        self, app: Application, others_see: Seen
    ) -> None:
        await app.emit("contract_order.placed", {"order_id": 42})

        with pytest.raises(Exception, match="no_such_table"):
            await app.run("INSERT INTO no_such_table VALUES (1)")
        await app.rollback()

        assert await others_see() == []

    @pytest.mark.requirement("NEV-26")
    async def test_context_lands_in_the_row(self, app: Application) -> None:
        cause = UUID("018f0000-0000-7000-8000-000000000001")
        actor = Actor(type="user", id="42", name="Ada", metadata={"role": "admin"})

        with app.outbox.context(tenant="acme", actor=actor, request_id="r1", source="api"):
            await app.emit("contract_order.placed", {}, causation=cause, correlation_id="chain")
            await app.emit_many([Draft("contract_order.placed", {}, {"actor": "system:cron"})])

        first, second = await app.read()
        assert (first.tenant, first.request_id, first.source) == ("acme", "r1", "api")
        assert (first.actor, first.causation_id, first.correlation_id) == (actor, cause, "chain")
        assert first.namespace == "contract"
        assert (second.actor, second.tenant) == (Actor(type="system", id="cron"), "acme")
        assert second.correlation_id == str(second.id)

    @pytest.mark.requirement("EKB-04", "EKB-05", "EKB-06", "EKB-07", "EKB-14", "EKB-15")
    async def test_the_events_of_an_action_carry_it(self, app: Application) -> None:
        async with app.action("deposit", {"amount": 10}) as action:
            action.emit("contract_account.credited", {"amount": 10}, key="a1")
            action.emit("contract_ledger.updated", {"delta": 10})
            assert await app.read() == []

        events = await app.read()
        assert [event.type for event in events] == [
            "contract_account.credited",
            "contract_ledger.updated",
        ]
        assert [event.id for event in events] == [ref.id for ref in action.events]
        for event in events:
            assert event.action is not None
            assert (event.action.id, event.action.name) == (action.id, "deposit")
            assert event.action.params == '{"amount":10}'
            assert event.action.started_at <= event.action.completed_at
            assert event.correlation_id == str(action.id)

    async def test_an_action_that_raises_writes_nothing(self, app: Application) -> None:
        async def fail() -> None:
            async with app.action("deposit") as action:
                action.emit("contract_account.credited", {"amount": 10})
                raise ZeroDivisionError

        async with app.watched() as statements:
            with pytest.raises(ZeroDivisionError):
                await fail()

        assert statements == []
        assert await app.read() == []

    @pytest.mark.requirement("EKB-20", "EKB-21")
    async def test_an_action_without_events_leaves_a_record(self, app: Application) -> None:
        async with app.action("deposit", {"amount": 0}) as action:
            pass

        (event,) = await app.read()
        assert event.type == "outrider.action"
        assert event.action is not None
        assert (event.action.id, event.action.name) == (action.id, "deposit")


@pytest.mark.asyncio
class SavepointContract(EmitContract):
    """For connections whose savepoints work: events share the fate of what surrounds them."""

    async def test_a_savepoint_rolled_back_drops_only_what_was_emitted_inside(
        self, app: Application, others_see: Seen
    ) -> None:
        async def fail() -> None:
            async with app.savepoint():
                await app.emit("contract_order.placed", {"n": 2})
                await app.emit_many([Draft("contract_order.placed", {"n": n}) for n in (3, 4)])
                raise ZeroDivisionError

        await app.emit("contract_order.placed", {"n": 1})
        with pytest.raises(ZeroDivisionError):
            await fail()
        await app.emit("contract_order.placed", {"n": 5})
        await app.commit()

        assert [event.data["n"] for event in await others_see()] == [1, 5]

    async def test_a_savepoint_released_keeps_what_was_emitted_inside(
        self, app: Application, others_see: Seen
    ) -> None:
        await app.emit("contract_order.placed", {"n": 1})
        async with app.savepoint():
            await app.emit("contract_order.placed", {"n": 2})
            async with app.savepoint():
                await app.emit("contract_order.placed", {"n": 3})
        await app.commit()

        assert [event.data["n"] for event in await others_see()] == [1, 2, 3]
