"""The one object applications import: ``outbox = Outbox()``, then ``outbox.emit(tx, event)``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, cast, get_args
from uuid import UUID

import msgspec

from outrider import grammar
from outrider.actions import Action
from outrider.connections import KNOWN, Adapters, Factory, Lookup
from outrider.errors import (
    ConfigError,
    InvalidEventError,
    UnsupportedConnectionError,
    shown,
)
from outrider.events import (
    Draft,
    EmitOptions,
    Event,
    EventRef,
    Origin,
    OriginOptions,
    current_origin,
    originating,
    plain_uuid,
)
from outrider.filters import Filter
from outrider.filters import parse as parse_filter
from outrider.identity import UuidV7
from outrider.log.events import events_of
from outrider.records import Emission, Recorder
from outrider.sql import emit as emit_plans
from outrider.sql import read as read_plans
from outrider.sql.dialect import Dialect
from outrider.sql.dialects import dialect_named
from outrider.sql.keys import Sealer
from outrider.sql.plan import Plan
from outrider.sql.statement import Bound, ParamStyle

if TYPE_CHECKING:
    import sqlite3

    import asyncpg
    import asyncpg.pool
    import psycopg
    import sqlalchemy
    from sqlalchemy import orm
    from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

    from outrider.config import Settings
    from outrider.sql.verify import Finding

    AsyncSessions: TypeAlias = (
        sqlalchemy_asyncio.AsyncSession | sqlalchemy_asyncio.async_scoped_session[Any]
    )
    SyncTx: TypeAlias = (
        sqlalchemy.Connection
        | orm.Session
        | orm.scoped_session[Any]
        | psycopg.Connection[Any]
        | sqlite3.Connection
    )
    Tx: TypeAlias = SyncTx | AsyncSessions
    AsyncTx: TypeAlias = (
        AsyncSessions
        | sqlalchemy_asyncio.AsyncConnection
        | psycopg.AsyncConnection[Any]
        | asyncpg.Connection[Any]
        | asyncpg.pool.PoolConnectionProxy[Any]
    )

Where: TypeAlias = str | Filter


class Outbox:
    """Writes events in the caller's transaction, and reads the log.

    Everything not given here comes from the environment (``OUTRIDER_…``) or from
    ``[tool.outrider]`` in pyproject.toml. No connection is opened: each call takes yours.

    >>> import sqlite3
    >>> from outrider.testing import migrate
    >>> outbox = Outbox(namespace="shop")
    >>> db = sqlite3.connect(":memory:")
    >>> migrate(db)
    >>> with db:
    ...     ref = outbox.emit(db, "order.placed", {"order_id": 42}, key=42)
    >>> [event.data for event in outbox.read(db, "key:42")]
    [{'order_id': 42}]

    .. versionadded:: 0.1
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        schema: str | None = None,
        payload_bytes_max: int | None = None,
        new_id: Callable[[], UUID] | None = None,
        on_autocommit: Literal["refuse", "allow"] = "refuse",
    ) -> None:
        if on_autocommit not in ("refuse", "allow"):
            raise ConfigError(f"on_autocommit is {on_autocommit!r}; it is 'refuse' or 'allow'")
        self._given = {
            "database_url": url,
            "namespace": namespace,
            "schema": schema,
            "payload_bytes_max": payload_bytes_max,
        }
        if namespace is not None:
            grammar.namespace(namespace)
        self._new_id = UuidV7() if new_id is None else partial(_id_from, new_id)
        self._refuse_autocommit = on_autocommit == "refuse"
        self._adapters: dict[str, Adapters] = {}

    def emit(
        self, tx: Tx, event: object, data: object = None, /, **options: Unpack[EmitOptions]
    ) -> EventRef:
        """Write one event in the transaction that is open on *tx*.

        An AsyncSession is written to with its next flush; everything else at once. The event is
        an object of an event class, or a name with its data.
        """
        emission = self._recorder.emission(Draft(event, data, options), current_origin())
        return self._write(tx, [emission])[0]

    async def aemit(
        self, tx: AsyncTx, event: object, data: object = None, /, **options: Unpack[EmitOptions]
    ) -> EventRef:
        """Write one event in the transaction that is open on an async *tx*."""
        emission = self._recorder.emission(Draft(event, data, options), current_origin())
        return (await self._awrite(tx, [emission]))[0]

    def emit_many(self, tx: Tx, events: Iterable[object]) -> list[EventRef]:
        """Write *events* in their order, a thousand per statement.

        Each is an event object, or a :class:`Draft` where it needs a name or options.
        """
        return self._write(tx, self._emissions(events))

    async def aemit_many(self, tx: AsyncTx, events: Iterable[object]) -> list[EventRef]:
        """Write *events* in their order on an async *tx*, a thousand per statement."""
        return await self._awrite(tx, self._emissions(events))

    def statements(
        self, dialect: str, paramstyle: ParamStyle, events: Iterable[object]
    ) -> list[tuple[str, Bound]]:
        """Return the statements that write *events*, for a driver that Outrider does not know.

        Execute them in your own transaction, in their order. A guarded event (with an idempotency
        key, an id of its own or an entity version) is left out where it conflicts: only the ids
        that come back were written.
        """
        if paramstyle not in get_args(ParamStyle):
            raise ConfigError(
                f"paramstyle is {shown(paramstyle)}; it is one of {', '.join(get_args(ParamStyle))}"
            )
        emissions = self._emissions(events)
        if any(emission.sensitive for emission in emissions):
            raise UnsupportedConnectionError(
                "sensitive fields need their subject's key, which has to be read first; "
                "use emit() with a connection that Outrider knows"
            )
        spoken = dialect_named(dialect, self._settings.schema)
        return [step.bind(paramstyle) for step in emit_plans.script(spoken, emissions)]

    def action(self, tx: Tx | AsyncTx, name: str, params: object = None) -> Action:
        """Group the events of one business action: ``with outbox.action(tx, "deposit") as action``.

        The events are written together when the block ends well, each with the action's id,
        name, params, start and completion; an action without events leaves one record. With an
        async *tx* write ``async with``.
        """
        return Action(
            name,
            params,
            self._emission,
            lambda emissions: self._write(cast("Tx", tx), emissions),
            lambda emissions: self._awrite(cast("AsyncTx", tx), emissions),
        )

    def context(self, **options: Unpack[OriginOptions]) -> AbstractContextManager[Origin]:
        """Say where the events emitted inside come from: who, why, for which tenant."""
        return originating(options)

    def read(
        self,
        tx: SyncTx,
        where: Where = "",
        /,
        *,
        after: int = 0,
        limit: int = 100,
    ) -> list[Event[Any]]:
        """Return the events after a position that *where* selects, oldest first.

        Within the caller's transaction, so its own events are there too.
        """
        connection = self._reading.sync(tx)
        return connection.run(self._page(connection.dialect, where, after, limit))

    async def aread(
        self,
        tx: AsyncTx,
        where: Where = "",
        /,
        *,
        after: int = 0,
        limit: int = 100,
    ) -> list[Event[Any]]:
        """Return the events after a position that *where* selects, oldest first.

        An AsyncSession is not flushed for it: what it took without an await is there afterwards.
        """
        connection = await self._reading.aio(tx)
        return await connection.run(self._page(connection.dialect, where, after, limit))

    def check(self, tx: SyncTx) -> list[Finding]:
        """Refuse a database in which events would not be safe; return what to be warned of.

        Call it when the application starts. It reads, and changes nothing.

        Raises:
            SchemaMismatchError: with each thing that is wrong, and its remedy.

        """
        connection = self._reading.sync(tx)
        checks = _checks()
        return _warnings(connection.run(checks.verify(connection.dialect)), checks)

    async def acheck(self, tx: AsyncTx) -> list[Finding]:
        """Refuse a database in which events would not be safe; return what to be warned of."""
        connection = await self._reading.aio(tx)
        checks = _checks()
        return _warnings(await connection.run(checks.verify(connection.dialect)), checks)

    def register(
        self, cls: type, *, sync: Factory | None = None, aio: Factory | None = None
    ) -> None:
        """Accept connections of *cls* by an adapter of your own: ``factory(tx, schema)``."""
        self._adapters[f"{cls.__module__}.{cls.__qualname__}"] = Adapters(sync=sync, aio=aio)
        for lookup in ("_lookup", "_reading"):
            self.__dict__.pop(lookup, None)

    def __repr__(self) -> str:
        return f"Outbox(namespace={self._settings.namespace!r}, schema={self._settings.schema!r})"

    @cached_property
    def _settings(self) -> Settings:
        # Looked for when it is first needed: reading files has no place in an import.
        settings: Settings = import_module("outrider.config").load(self._given)
        return settings

    @cached_property
    def _lookup(self) -> Lookup:
        known: Mapping[str, Adapters] = {**KNOWN, **self._adapters}
        return Lookup(
            schema=self._settings.schema, known=known, refuse_autocommit=self._refuse_autocommit
        )

    @cached_property
    def _reading(self) -> Lookup:
        return msgspec.structs.replace(self._lookup, refuse_autocommit=False)

    @cached_property
    def _recorder(self) -> Recorder:
        return Recorder(
            namespace=self._settings.namespace,
            new_id=self._new_id,
            payload_bytes_max=self._settings.payload_bytes_max,
            trace=_trace_context,
        )

    @cached_property
    def _sealer(self) -> Sealer | None:
        cipher = _optional("cryptography", "outrider.encryption", "AesGcm")
        return cipher() if cipher else None

    def _emission(self, draft: Draft) -> Emission:
        return self._recorder.emission(draft, current_origin())

    def _emissions(self, events: Iterable[object]) -> list[Emission]:
        origin = current_origin()
        return [self._recorder.emission(_drafted(event), origin) for event in events]

    def _page(
        self, dialect: Dialect, where: Where, after: int, limit: int
    ) -> Plan[list[Event[Any]]]:
        selected = parse_filter(where) if isinstance(where, str) else where
        return events_of(
            dialect, read_plans.forward, selected, after, limit=limit, sealer=self._sealer
        )

    def _write(self, tx: Tx, emissions: Sequence[Emission]) -> list[EventRef]:
        lookup = self._lookup
        if (unit := lookup.unit(tx)) is not None:
            if awaited := next((e for e in emissions if e.needs_answer), None):
                raise UnsupportedConnectionError(
                    f"{awaited.record.event_type!r} asks the database something (an idempotency "
                    "key, an id, a version, a lock or a subject's key), which an AsyncSession "
                    "cannot do without an await.\n  fix: await outbox.aemit(session, …)"
                )
            for emission in emissions:
                unit.add(emission.record)
            return [emission.reference for emission in emissions]
        connection = lookup.sync(tx)
        if len(emissions) == 1 and not emissions[0].needs_answer:
            connection.execute(emit_plans.single(connection.dialect, emissions[0].record))
            return [emissions[0].record.reference]
        return connection.run(emit_plans.emit(connection.dialect, emissions, self._sealer))

    async def _awrite(self, tx: AsyncTx, emissions: Sequence[Emission]) -> list[EventRef]:
        connection = await self._lookup.aio(tx)
        return await connection.run(emit_plans.emit(connection.dialect, emissions, self._sealer))


def _checks() -> Any:
    # Emitting never needs it, so importing us does not pay for it.
    return import_module("outrider.sql.verify")


def _warnings(findings: list[Finding], checks: Any) -> list[Finding]:
    checks.require(findings)
    return [finding for finding in findings if finding.level == "warning"]


def _id_from(new_id: Callable[[], UUID]) -> UUID:
    made = new_id()
    if not isinstance(made, UUID):
        raise ConfigError(f"new_id= returned {shown(made)}; it returns UUIDs, which sort by time")
    return plain_uuid(made)


def _trace_context() -> Mapping[str, str] | None:
    # A process that has not imported the API traces nothing, and this is called for every event.
    if "opentelemetry.context" not in sys.modules:
        return None
    capture = _optional("opentelemetry", "outrider.tracing", "trace_context")
    context: Mapping[str, str] | None = capture() if capture else None
    return context


def _drafted(event: object) -> Draft:
    if isinstance(event, str):
        raise InvalidEventError(
            f"{shown(event)} is a name alone; give its data too: Draft('order.placed', {{…}})"
        )
    return event if isinstance(event, Draft) else Draft(event)


@cache
def _optional(package: str, module: str, name: str) -> Any:
    """Return *name* of our *module* if the *package* it is an adapter of is installed."""
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        return None
