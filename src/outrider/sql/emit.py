"""Write events: one statement for one event, one statement for a thousand.

A conflict is an empty result, never a failed statement, because a failed statement would
abort a PostgreSQL transaction that belongs to somebody else. So a guarded event (one with an
idempotency key, an id of the caller's own, or an entity version) is written only where nothing
conflicts, and whatever did not come back is looked up and judged::

    emit_guarded --- all ids came back ---> done
         |
         +--- one is missing ---> originals ---> same body    duplicate: the original's id
                                            +--> other body   KeyReusedError
                                            +--> its version  StaleVersionError

Several guarded events are looked up before any is written, so a refusal writes nothing. Only
a writer who commits in between can still make the second look refuse, and then the others of that
call stand in the transaction: whoever catches the error rolls back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from outrider.errors import KeyReusedError, StaleVersionError, StoreError
from outrider.events import EventRef
from outrider.records import Emission, Record
from outrider.sql.dialect import Dialect
from outrider.sql.keys import Sealer, sealed
from outrider.sql.plan import Plan, Row, Rows, Step, run
from outrider.sql.statement import Batch, Placed, Statement

Params: TypeAlias = dict[str, Any]

CHUNK_EVENTS = 1_000
CHUNK_BYTES = 16 * 1024 * 1024
WRITES_MAX = 3

_json = msgspec.json.Encoder()
# Most fields of most records are absent, and are left out until the very end.
_ABSENT: Params = dict.fromkeys(Record.__struct_fields__)
_NATIVE = (bytes, datetime)


def emit(
    dialect: Dialect, emissions: Sequence[Emission], sealer: Sealer | None = None
) -> Plan[list[EventRef]]:
    """Write *emissions* in their order; return a reference to each."""
    if dialect.locks_keys:
        yield from _lock(dialect, emissions)
    records = yield from sealed(dialect, emissions, sealer)
    if any(emission.guarded for emission in emissions):
        return (yield from _emit_guarded(dialect, records))
    for chunk in _chunks(records):
        yield from _emit_plain(dialect, chunk)
    return [record.reference for record in records]


def single(dialect: Dialect, record: Record) -> Placed:
    """Return the statement that writes one event which asks the database nothing.

    It needs no plan, which for so little would cost more than the statement itself.
    """
    return Placed(dialect["emit"], dialect.row(msgspec.structs.astuple(record)))


def script(dialect: Dialect, emissions: Sequence[Emission]) -> list[Statement]:
    """Return the statements that write *emissions*, for somebody else to execute."""
    statements: list[Statement] = []

    def collect(step: Step) -> Rows:
        if isinstance(step, Batch):
            statements.extend(Statement(step.query, row) for row in step.rows)
        elif step.query.name == "originals":
            return ()
        else:
            assert isinstance(step, Statement)
            statements.append(step)
        # Nobody has executed anything, so all is taken as new and as written.
        return [{"event_id": emission.record.event_id} for emission in emissions]

    run(emit(dialect, emissions), collect)
    return statements


def params(dialect: Dialect, record: Record) -> Params:
    """Return the parameters of the statement that writes *record* alone."""
    return _ABSENT | dialect.write(msgspec.to_builtins(record, builtin_types=_NATIVE))


def _emit_plain(dialect: Dialect, records: Sequence[Record]) -> Plan[None]:
    if len(records) == 1:
        yield Statement(dialect["emit"], params(dialect, records[0]))
    elif dialect.bulk:
        yield Statement(dialect["emit_many"], _document(records))
    else:
        yield Batch(dialect["emit"], [params(dialect, record) for record in records])


def _emit_guarded(dialect: Dialect, records: Sequence[Record]) -> Plan[list[EventRef]]:
    repeated = _repeated(records)
    fresh = [record for n, record in enumerate(records) if n not in repeated]
    duplicates: dict[UUID, EventRef] = {}
    if len(fresh) > 1:
        duplicates = yield from _judged(dialect, fresh)
    for chunk in _chunks([record for record in fresh if record.event_id not in duplicates]):
        duplicates |= yield from _written_or_found(dialect, chunk)
    references = [repeated.get(n) or record.reference for n, record in enumerate(records)]
    # What an event repeats may itself be a repetition of one in the log.
    return [duplicates.get(reference.id, reference) for reference in references]


def _written_or_found(dialect: Dialect, records: Sequence[Record]) -> Plan[dict[UUID, EventRef]]:
    """Write what conflicts with nothing; return the rest as duplicates."""
    duplicates: dict[UUID, EventRef] = {}
    for _ in range(WRITES_MAX):
        written = yield from _write_guarded(dialect, records)
        missing = [record for record in records if record.event_id not in written]
        duplicates |= yield from _judged(dialect, missing)
        # What conflicted a moment ago may be gone: pruned, or rolled back.
        records = [record for record in missing if record.event_id not in duplicates]
        if not records:
            return duplicates
    raise StoreError(
        f"event {records[0].event_id} conflicts with one that cannot be read and was not written; "
        "roll back, and look at who may SELECT from outbox_events"
    )


def _write_guarded(dialect: Dialect, records: Sequence[Record]) -> Plan[set[UUID]]:
    if dialect.bulk and len(records) > 1:
        rows = yield Statement(dialect["emit_many_guarded"], _document(records))
        return {_uuid(row["event_id"]) for row in rows}
    written: set[UUID] = set()
    for record in records:
        rows = yield Statement(dialect["emit_guarded"], params(dialect, record))
        written |= {_uuid(row["event_id"]) for row in rows}
    return written


def _repeated(records: Iterable[Record]) -> dict[int, EventRef]:
    """Return, by their index, references for events that repeat an earlier one of this call."""
    repeated: dict[int, EventRef] = {}
    first: dict[tuple[object, ...], Record] = {}
    for n, record in enumerate(records):
        places = list(_places(record))
        taken = [(reason, first[place]) for reason, place in places if place in first]
        found = [_verdict(record, reason, _row(earlier)) for reason, earlier in taken]
        if repeats := [verdict for verdict in found if verdict]:
            repeated[n] = repeats[0]
        elif taken:
            raise _stale(record)
        else:
            first |= dict.fromkeys((place for _, place in places), record)
    return repeated


def _judged(dialect: Dialect, records: Sequence[Record]) -> Plan[dict[UUID, EventRef]]:
    """Look up what *records* conflict with; return the duplicates, refuse the rest."""
    duplicates: dict[UUID, EventRef] = {}
    for chunk in _chunks(records):
        by_id = {record.event_id: record for record in chunk}
        rows = yield Statement(dialect["originals"], _document(chunk))
        for row in rows:
            record = by_id[_uuid(row["refused_id"])]
            if found := _verdict(record, row["reason"], row):
                duplicates[record.event_id] = found
        for row in rows:
            # An equal version is fine only where the whole event is a repetition.
            if (refused := _uuid(row["refused_id"])) not in duplicates:
                raise _stale(by_id[refused])
    return duplicates


def _verdict(record: Record, reason: str, original: Row) -> EventRef | None:
    """Say whether *record* repeats *original*; refuse it where it only claims to."""
    if reason == "version":
        return None
    original_id = _uuid(original["event_id"])
    if record.body_digest is None or original["body_digest"] != record.body_digest:
        what = "event id" if reason == "id" else f"idempotency key {record.idempotency_key!r}"
        raise KeyReusedError(what, original_id)
    return EventRef(
        id=original_id,
        type=original["event_type"],
        correlation_id=original["correlation_id"],
        duplicate=True,
    )


def _stale(record: Record) -> StaleVersionError:
    return StaleVersionError(
        str(record.entity_type), str(record.entity_id), record.entity_version or 0
    )


def _places(record: Record) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield what must be unique about *record*, as the unique indexes see it."""
    yield "id", (record.event_id,)
    tenant = record.tenant_id
    if record.idempotency_key is not None:
        yield "key", (tenant, record.idempotency_key)
    if record.entity_version is not None:
        yield (
            "version",
            (tenant, record.entity_type, record.entity_id, record.entity_version),
        )


def _row(record: Record) -> Row:
    return {
        "event_id": record.event_id,
        "event_type": record.event_type,
        "correlation_id": record.correlation_id,
        "body_digest": record.body_digest,
    }


def _lock(dialect: Dialect, emissions: Iterable[Emission]) -> Plan[None]:
    # In one order everywhere, so that two writers of the same keys cannot deadlock.
    keys = {(e.record.tenant_id, e.record.ordering_key) for e in emissions if e.lock}
    for tenant, key in sorted(keys, key=repr):
        yield Statement(dialect["lock_key"], {"lock_name": f"{tenant}\n{key}"})


def _document(records: Sequence[Record]) -> Params:
    return {"events": _json.encode(records).decode()}


def _uuid(value: UUID | str) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _chunks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Cut *records* so that a statement stays bounded in events and in bytes."""
    start = size_bytes = 0
    for end, record in enumerate(records):
        # In bytes at most: a character of JSON text is up to four of them.
        own_bytes = 4 * len(record.payload or "") + 2 * len(record.payload_bytes or b"")
        if end > start and (end - start == CHUNK_EVENTS or size_bytes + own_bytes > CHUNK_BYTES):
            yield records[start:end]
            start, size_bytes = end, 0
        size_bytes += own_bytes
    if start < len(records):
        yield records[start:]
