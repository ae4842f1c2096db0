"""Kinds that get answers: autocommit, conflicts, statements counted, other people's settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from outrider.errors import (
    EmitError,
    KeyReusedError,
    NotInTransactionError,
    StaleVersionError,
)
from outrider.events import Draft, EmitOptions
from outrider.identity import UuidV7
from outrider.outbox import Outbox
from outrider.sql.dialects import dialect_named
from outrider.testing.contracts.callers import Application, settled
from outrider.testing.contracts.emitting import EmitContract, Seen

WAIT_SECONDS_MAX = 10.0
POLL_SECONDS = 0.005


@pytest.mark.asyncio
class GuardedContract(EmitContract):
    """The part of the contract that needs answers from the database."""

    dialect: ClassVar[str]
    """The name of the database's dialect: postgres, sqlite."""
    peculiarities: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """What an application may have set on its connection object: how to set it, by its name."""

    async def test_a_connection_that_commits_by_itself_is_refused_with_the_remedy(
        self, url: str, outbox: Outbox, others_see: Seen
    ) -> None:
        async with self.connect(url, autocommit=True) as caller:
            app = Application(caller, outbox, self.verbs)
            async with app.watched() as statements:
                with pytest.raises(NotInTransactionError, match="fix:") as refused:
                    await app.emit("contract_order.placed", {"order_id": 42})
                with pytest.raises(NotInTransactionError):
                    await app.emit("contract_order.placed", {"order_id": 42}, idempotency_key="k")
                with pytest.raises(NotInTransactionError):
                    await app.emit_many([Draft("contract_order.placed", {})] * 2)

        assert _path(type(caller.tx)) in str(refused.value)
        assert statements == []
        assert await others_see() == []

    async def test_a_connection_that_commits_by_itself_may_be_allowed(
        self, url: str, others_see: Seen
    ) -> None:
        outbox = Outbox(namespace="contract", on_autocommit="allow")
        async with self.connect(url, autocommit=True) as caller:
            ref = await Application(caller, outbox, self.verbs).emit(
                "contract_order.placed", {"n": 1}
            )

            assert [event.id for event in await others_see()] == [ref.id]

    async def test_a_connection_that_commits_by_itself_may_read(
        self, url: str, outbox: Outbox
    ) -> None:
        async with self.connect(url, autocommit=True) as caller:
            assert await Application(caller, outbox, self.verbs).read() == []

    async def test_not_one_statement_more_than_planned(self, app: Application) -> None:
        locks = dialect_named(self.dialect).locks_keys

        async def count(event: str, **options: Any) -> int:
            async with app.watched() as statements:
                await app.emit(event, {"n": 1}, **options)
            return len(statements)

        assert await count("contract_order.placed") == 1
        assert await count("contract_order.placed", key="k", headers={"x": "y"}, delay="1s") == 1
        assert await count("contract_order.placed", idempotency_key="a") == 1
        assert await count("contract_order.placed", idempotency_key="a") == 2
        assert await count("contract_order.placed", key="k", entity_version=1) == 1
        assert await count("contract_order.placed", key="k", lock=True) == 1 + locks
        async with app.watched() as statements:
            await app.read("key:k")
        assert len(statements) == 1

    @pytest.mark.requirement("NEV-14", "CAN-56")
    async def test_a_repeated_key_returns_the_original_and_writes_nothing(
        self, app: Application, others_see: Seen
    ) -> None:
        options = EmitOptions(idempotency_key="request-7", correlation_id="chain")
        first = await app.emit("contract_order.placed", {"order_id": 42}, **options)
        again = await app.emit(
            "contract_order.placed", {"order_id": 42}, idempotency_key="request-7"
        )
        other = await app.emit("contract_order.placed", {"order_id": 43})
        await app.commit()

        assert not first.duplicate
        assert again.duplicate
        assert (again.id, again.correlation_id) == (first.id, "chain")
        events = await others_see()
        assert [event.id for event in events] == [first.id, other.id]
        assert events[0].idempotency_key == "request-7"

    @pytest.mark.requirement("CAN-53")
    async def test_a_derived_key_is_the_same_for_the_same_event(self, app: Application) -> None:
        first = await app.emit("contract_order.placed", {"n": 1}, key="k", idempotency_key=True)
        again = await app.emit("contract_order.placed", {"n": 1}, key="k", idempotency_key=True)
        other = await app.emit("contract_order.placed", {"n": 2}, key="k", idempotency_key=True)

        assert (again.id, again.duplicate, other.duplicate) == (first.id, True, False)
        assert len(await app.read()) == 2

    async def test_a_key_belongs_to_its_tenant(self, app: Application) -> None:
        refs = [
            await app.emit("contract_order.placed", {}, idempotency_key="k", tenant=tenant)
            for tenant in ("a", "A", "a ", "a")
        ]

        assert [ref.duplicate for ref in refs] == [False, False, False, True]

    async def test_a_key_with_another_body_is_refused_and_the_transaction_goes_on(
        self, app: Application, others_see: Seen
    ) -> None:
        first = await app.emit("contract_order.placed", {"n": 1}, idempotency_key="k")
        with pytest.raises(KeyReusedError) as refused:
            await app.emit("contract_order.placed", {"n": 2}, idempotency_key="k")
        with pytest.raises(KeyReusedError):
            await app.emit("contract_order.shipped", {"n": 1}, idempotency_key="k")
        last = await app.emit("contract_order.placed", {"n": 3})
        await app.commit()

        assert refused.value.original_id == first.id
        assert [event.id for event in await others_see()] == [first.id, last.id]

    async def test_an_id_of_the_callers_own_is_guarded_like_a_key(self, app: Application) -> None:
        event_id = UuidV7()()
        first = await app.emit("contract_order.placed", {"n": 1}, id=event_id)
        again = await app.emit("contract_order.placed", {"n": 1}, id=str(event_id).upper())
        with pytest.raises(KeyReusedError):
            await app.emit("contract_order.placed", {"n": 2}, id=event_id)

        assert (first.id, again.id, again.duplicate) == (event_id, event_id, True)
        assert len(await app.read()) == 1

    async def test_a_stale_writer_is_told_so_and_the_transaction_goes_on(
        self, app: Application, others_see: Seen
    ) -> None:
        first = await app.emit("contract_order.placed", {}, key="o1", entity_version=1)
        with pytest.raises(StaleVersionError) as refused:
            await app.emit("contract_order.shipped", {}, key="o1", entity_version=1)
        second = await app.emit("contract_order.shipped", {}, key="o1", entity_version=2)
        other = await app.emit("contract_order.placed", {}, key="O1", entity_version=1)
        await app.commit()

        error = refused.value
        assert (error.entity_type, error.entity_id, error.version) == ("contract_order", "o1", 1)
        assert [event.id for event in await others_see()] == [first.id, second.id, other.id]

    async def test_many_events_are_guarded_together(self, app: Application) -> None:
        first = await app.emit("contract_order.placed", {"n": 0}, idempotency_key="k0")
        drafts = [
            Draft("contract_order.placed", {"n": n}, {"idempotency_key": f"k{n}"}) for n in range(5)
        ]
        drafts += [Draft("contract_order.placed", {"n": "plain"}), drafts[2], drafts[0]]

        refs = await app.emit_many(drafts)

        assert [ref.duplicate for ref in refs] == [True, *[False] * 5, True, True]
        assert [refs[n].id for n in (0, 6, 7)] == [first.id, refs[2].id, first.id]
        assert [event.data["n"] for event in await app.read()] == [0, 1, 2, 3, 4, "plain"]

    async def test_one_refusal_among_many_writes_none_of_them(self, app: Application) -> None:
        await app.emit(
            "contract_order.placed", {"n": 0}, idempotency_key="k", key="o", entity_version=1
        )
        good = [
            Draft("contract_order.placed", {"n": n}, {"idempotency_key": f"k{n}"}) for n in range(3)
        ]
        reused = Draft("contract_order.placed", {"n": 9}, {"idempotency_key": "k"})
        stale = Draft("contract_order.placed", {"n": 9}, {"key": "o", "entity_version": 1})
        unequal = Draft("contract_order.placed", {"n": 9}, {"idempotency_key": "k1"})

        for bad, error in (
            (reused, KeyReusedError),
            (stale, StaleVersionError),
            (unequal, KeyReusedError),
        ):
            with pytest.raises(error):
                await app.emit_many([*good, bad])

        assert [event.data["n"] for event in await app.read()] == [0]
        assert len(await app.emit_many(good)) == len(good)

    async def test_thousands_of_guarded_events_arrive_in_order(self, app: Application) -> None:
        numbers = range(2_500)
        drafts = [
            Draft("contract_meter.read", {"n": n}, {"idempotency_key": str(n)}) for n in numbers
        ]

        await app.emit_many(drafts)
        again = await app.emit_many(drafts)

        assert [event.data["n"] for event in await app.read()] == list(numbers)
        assert all(ref.duplicate for ref in again)

    async def test_what_the_application_has_set_on_its_connection_does_not_matter(
        self, url: str, outbox: Outbox
    ) -> None:
        for name, change in self.peculiarities.items():
            async with self.connect(url) as caller:
                await settled(change(caller.tx))
                app = Application(caller, outbox, self.verbs)
                first = await app.emit("contract_order.placed", {"text": "ü"}, idempotency_key=name)
                again = await app.emit("contract_order.placed", {"text": "ü"}, idempotency_key=name)
                await app.emit_many([Draft("contract_order.placed", {"text": "é"})] * 2)
                await app.emit(
                    "contract_blob.stored", b"\x00\xff", content_type="application/x-things"
                )
                events = await app.read()

            assert (again.id, again.duplicate) == (first.id, True), name
            assert [event.payload for event in events] == [
                '{"text":"ü"}'.encode(),
                *['{"text":"é"}'.encode()] * 2,
                b"\x00\xff",
            ], name


@pytest.mark.asyncio
class RaceContract(EmitContract):
    """For databases where writers of different keys work side by side: PostgreSQL."""

    async def test_a_second_writer_of_a_key_waits_and_learns_of_the_first(
        self, app: Application, url: str
    ) -> None:
        async with self.connect(url) as caller:
            second = Application(caller, app.outbox, self.verbs)
            pid = await _pid(second)
            first_ref = await app.emit("contract_order.placed", {"n": 1}, idempotency_key="k")
            waiting = asyncio.create_task(
                second.emit_elsewhere("contract_order.placed", {"n": 1}, idempotency_key="k")
            )
            await _until_blocked(app, pid)
            await app.commit()
            second_ref = await waiting
            last_ref = await second.emit("contract_order.placed", {"n": 2})

            assert (second_ref.id, second_ref.duplicate) == (first_ref.id, True)
            assert [event.id for event in await second.read()] == [first_ref.id, last_ref.id]

    async def test_a_second_writer_of_a_key_writes_once_the_first_has_rolled_back(
        self, app: Application, url: str
    ) -> None:
        async with self.connect(url) as caller:
            second = Application(caller, app.outbox, self.verbs)
            pid = await _pid(second)
            await app.emit("contract_order.placed", {"n": 1}, idempotency_key="k")
            waiting = asyncio.create_task(
                second.emit_elsewhere("contract_order.placed", {"n": 1}, idempotency_key="k")
            )
            await _until_blocked(app, pid)
            await app.rollback()
            ref = await waiting

            assert not ref.duplicate
            assert [event.id for event in await second.read()] == [ref.id]

    async def test_a_second_writer_of_a_key_with_another_body_is_refused(
        self, app: Application, url: str
    ) -> None:
        async with self.connect(url) as caller:
            second = Application(caller, app.outbox, self.verbs)
            pid = await _pid(second)
            first_ref = await app.emit("contract_order.placed", {"n": 1}, idempotency_key="k")
            waiting = asyncio.create_task(
                second.emit_elsewhere("contract_order.placed", {"n": 2}, idempotency_key="k")
            )
            await _until_blocked(app, pid)
            await app.commit()
            with pytest.raises(EmitError) as refused:
                await waiting

            assert isinstance(refused.value, KeyReusedError)
            assert [event.id for event in await second.read()] == [first_ref.id]

    async def test_writers_that_lock_a_key_commit_in_the_order_of_their_positions(
        self, app: Application, url: str
    ) -> None:
        async with self.connect(url) as caller:
            second = Application(caller, app.outbox, self.verbs)
            pid = await _pid(second)
            await app.emit("contract_order.placed", {"n": 1}, key="k", lock=True)
            await second.emit("contract_order.placed", {"n": 0}, key="other", lock=True)
            waiting = asyncio.create_task(
                second.emit_elsewhere("contract_order.placed", {"n": 2}, key="k", lock=True)
            )
            await _until_blocked(app, pid)
            await app.commit()
            await waiting

            assert [event.data["n"] for event in await second.read("key:k")] == [1, 2]


async def _pid(app: Application) -> int:
    ((pid,),) = await app.run("SELECT pg_backend_pid()")
    return int(pid)


async def _until_blocked(app: Application, pid: int) -> None:
    """Wait until the session *pid* waits for that of *app*."""
    question = f"SELECT 1 WHERE pg_backend_pid() = ANY(pg_blocking_pids({pid}))"
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not await app.run(question):  # noqa: ASYNC110 - the server sends no signal
            await asyncio.sleep(POLL_SECONDS)


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
