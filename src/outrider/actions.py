"""Business actions: the events of one action, written together, with the action beside each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TypeAlias, Unpack
from uuid import UUID

import msgspec

from outrider import grammar
from outrider.errors import EmitError
from outrider.event_types import DECLARED, EventType
from outrider.events import Draft, EmitOptions, EventRef, current_origin
from outrider.identity import UuidV7
from outrider.options import plain_utc
from outrider.records import Emission, small_json

ACTION_TYPE = "outrider.action"

Write: TypeAlias = Callable[[Sequence[Emission]], list[EventRef]]
AsyncWrite: TypeAlias = Callable[[Sequence[Emission]], Awaitable[list[EventRef]]]

_new_id = UuidV7()


class EmptyAction(msgspec.Struct, frozen=True):
    """The record of an action that emitted nothing."""

    action: str


DECLARED.add(EventType(name=ACTION_TYPE, cls=EmptyAction))


class Action:
    """One business action; use it in ``with``, or in ``async with`` on an async connection.

    Its events are written when the block ends, because each row carries the completion of its
    action and no row is ever updated. If the block raises, nothing is written.
    """

    def __init__(
        self,
        name: str,
        params: object,
        record: Callable[[Draft], Emission],
        write: Write,
        write_async: AsyncWrite,
    ) -> None:
        self.id: UUID = _new_id()
        self.name = grammar.key(name, "action name")
        self.events: list[EventRef] = []
        """References to what was written, once the block has ended."""
        self._params = small_json({} if params is None else params, "the action's params")
        self._record = record
        self._write = write
        self._write_async = write_async
        self._started_at: datetime | None = None
        self._is_used = False
        self._emissions: list[Emission] = []

    def emit(
        self, event: object, data: object = None, /, **options: Unpack[EmitOptions]
    ) -> EventRef:
        """Add one event to the action; it is checked now and written when the block ends."""
        if self._started_at is None:
            raise EmitError(
                f"action {self.name!r} is not open, so the event would never be written; emit "
                "inside of its with block, or call outbox.emit()"
            )
        if options.get("correlation_id") is None and options.get("causation") is None:
            options["correlation_id"] = current_origin().correlation_id or str(self.id)
        emission = self._record(Draft(event, data, options))
        self._emissions.append(emission)
        return emission.reference

    def __enter__(self) -> Self:
        return self._start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._started_at = None
            return
        self.events = self._write(self._completed())

    async def __aenter__(self) -> Self:
        return self._start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._started_at = None
            return
        self.events = await self._write_async(self._completed())

    def _start(self) -> Self:
        if self._is_used:
            raise EmitError(
                f"action {self.name!r} was used before; each run of it is an action of its own: "
                "with outbox.action(tx, …)"
            )
        self._is_used = True
        self._started_at = plain_utc(datetime.now(UTC))
        return self

    def _completed(self) -> list[Emission]:
        if not self._emissions:
            self.emit(EmptyAction(self.name))
        started_at, self._started_at = self._started_at, None
        action: dict[str, Any] = {
            "action_id": self.id,
            "action_name": self.name,
            "action_params": self._params,
            "action_started_at": started_at,
            "action_completed_at": plain_utc(datetime.now(UTC)),
        }
        return [
            msgspec.structs.replace(
                emission, record=msgspec.structs.replace(emission.record, **action)
            )
            for emission in self._emissions
        ]
