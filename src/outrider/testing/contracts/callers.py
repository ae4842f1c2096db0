"""An application, its connection and its Outbox, seen in the same way for every driver."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Unpack

from outrider.actions import Action
from outrider.events import EmitOptions, Event, EventRef
from outrider.filters import Filter
from outrider.outbox import Outbox

PAGE_EVENTS = 1_000


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An application's own connection, in a transaction that only the application ends.

    Every callable may answer at once or return an awaitable: so one suite serves the drivers
    that block and those that are awaited.
    """

    tx: Any
    """What is handed to ``emit`` and ``aemit``."""
    run: Callable[[str], Any]
    """Execute the application's own SQL on the connection; return the rows, if there are any."""
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    in_transaction: Callable[[], bool]
    statements: Callable[[], list[str]]
    """What has been sent to the database so far, one text per execution, whoever sent it."""
    savepoint: Callable[[], Any] | None = None
    """A context manager, sync or async: released at its end, rolled back if it raises."""
    flush: Callable[[], Any] = _nothing
    """Send what the connection holds back, if it is one that does."""


class Connect(Protocol):
    """How the suite gets a connection of the kind under test."""

    def __call__(
        self, url: str, /, *, autocommit: bool = False
    ) -> AbstractAsyncContextManager[Caller]:
        """Open a connection and a transaction on it; roll back and close at the end.

        With *autocommit* the connection commits each statement by itself, and no transaction
        is open.
        """
        ...


class Verbs(NamedTuple):
    """The methods of Outbox that a kind of connection is written and read with."""

    emit: Callable[..., Any]
    emit_many: Callable[..., Any]
    read: Callable[..., Any]


BLOCKING = Verbs(Outbox.emit, Outbox.emit_many, Outbox.read)
AWAITED = Verbs(Outbox.aemit, Outbox.aemit_many, Outbox.aread)
UNAWAITED = Verbs(Outbox.emit, Outbox.emit_many, Outbox.aread)


@dataclass(frozen=True, slots=True)
class Application:
    """A caller with an Outbox; each verb is awaited, whatever the driver."""

    caller: Caller
    outbox: Outbox
    verbs: Verbs

    @property
    def tx(self) -> Any:
        """What the application hands over."""
        return self.caller.tx

    async def emit(
        self, event: object, data: object = None, /, **options: Unpack[EmitOptions]
    ) -> EventRef:
        """Emit one event."""
        ref: EventRef = await settled(self.verbs.emit(self.outbox, self.tx, event, data, **options))
        return ref

    async def emit_many(self, events: Iterable[object]) -> list[EventRef]:
        """Emit events."""
        refs: list[EventRef] = await settled(self.verbs.emit_many(self.outbox, self.tx, events))
        return refs

    async def emit_elsewhere(
        self, event: object, data: object = None, /, **options: Unpack[EmitOptions]
    ) -> EventRef:
        """Emit where waiting for another transaction does not keep this task from going on."""
        if self.verbs.emit is not Outbox.emit:
            return await self.emit(event, data, **options)
        return await asyncio.to_thread(self.outbox.emit, self.tx, event, data, **options)

    async def read(self, where: str | Filter = "") -> list[Event[Any]]:
        """Return all events that *where* selects, as this transaction sees them."""
        await self.flush()
        events: list[Event[Any]] = []
        while True:
            after = events[-1].position if events else 0
            page = await settled(
                self.verbs.read(self.outbox, self.tx, where, after=after, limit=PAGE_EVENTS)
            )
            events += page
            if len(page) < PAGE_EVENTS:
                return events

    @asynccontextmanager
    async def action(self, name: str, params: object = None) -> AsyncIterator[Action]:
        """Group events in a business action."""
        action = self.outbox.action(self.tx, name, params)
        if self.verbs.emit is Outbox.emit:
            with action:
                yield action
        else:
            async with action:
                yield action

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute the application's own SQL."""
        rows = await settled(self.caller.run(sql))
        return [tuple(row) for row in rows or ()]

    async def flush(self) -> None:
        """Send what the connection holds back."""
        await settled(self.caller.flush())

    async def commit(self) -> None:
        """Commit, as the application would."""
        await settled(self.caller.commit())

    async def rollback(self) -> None:
        """Roll back, as the application would."""
        await settled(self.caller.rollback())

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Set a savepoint, as the application would."""
        assert self.caller.savepoint is not None
        context = self.caller.savepoint()
        if isinstance(context, AbstractAsyncContextManager):
            async with context:
                yield
        else:
            with context:
                yield

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[list[str]]:
        """Collect the statements that are sent inside; they are there at the end."""
        collected: list[str] = []
        before = len(await self._statements())
        yield collected
        collected += (await self._statements())[before:]

    async def _statements(self) -> list[str]:
        # Drivers may report to their listeners by the loop, which needs a turn for it.
        await asyncio.sleep(0)
        return list(self.caller.statements())


async def settled(answer: Any) -> Any:
    """Return *answer*, awaited if it is a promise of one."""
    return await answer if inspect.isawaitable(answer) else answer
