"""The keys of data subjects: sensitive fields are encrypted under them, and die with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from outrider.errors import SubjectErasedError
from outrider.records import Emission, Record
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan
from outrider.sql.statement import Statement

Subject = tuple[str, str]


class Sealer(Protocol):
    """Encrypts and decrypts one value; the only thing here that knows a cipher."""

    def new_key(self) -> bytes:
        """Return a fresh random key."""
        ...

    def seal(self, key: bytes, context: str, value: bytes) -> str:
        """Encrypt *value*, bound to *context*."""
        ...

    def open(self, key: bytes, context: str, sealed: str) -> bytes:
        """Decrypt what ``seal`` returned for the same context."""
        ...


def sealed(
    dialect: Dialect, emissions: Sequence[Emission], sealer: Sealer | None
) -> Plan[list[Record]]:
    """Return the records of *emissions* with their sensitive fields encrypted."""
    if not any(emission.sensitive for emission in emissions):
        return [emission.record for emission in emissions]
    assert sealer is not None
    keys: dict[Subject, bytes] = {}
    # In one order everywhere, so that two writers about the same subjects cannot deadlock.
    for subject in sorted({_subject(e.record) for e in emissions if e.sensitive}):
        keys[subject] = yield from _key_for(dialect, subject, sealer)
    records = []
    for emission in emissions:
        record = emission.record
        if emission.sensitive:
            key = keys[_subject(record)]
            record = emission.sealed(_seal(sealer, key, record), key)
        records.append(record)
    return records


def find_keys(dialect: Dialect, subjects: Iterable[Subject]) -> Plan[dict[Subject, bytes]]:
    """Return the keys of *subjects* that have one and were not erased."""
    keys: dict[Subject, bytes] = {}
    for tenant, subject in sorted(set(subjects)):
        rows = yield Statement(dialect["find_key"], {"tenant_id": tenant, "data_subject": subject})
        if rows and rows[0]["key"] is not None:
            keys[tenant, subject] = bytes(rows[0]["key"])
    return keys


def context_of(event_id: object, field: str) -> str:
    """Return what a sealed value is bound to, so that it cannot be moved elsewhere."""
    return f"{event_id}:{field}"


def _subject(record: Record) -> Subject:
    return record.tenant_id, str(record.data_subject)


def _seal(sealer: Sealer, key: bytes, record: Record) -> Callable[[bytes, str], str]:
    def seal(value: bytes, field: str) -> str:
        return sealer.seal(key, context_of(record.event_id, field), value)

    return seal


def _key_for(dialect: Dialect, subject: Subject, sealer: Sealer) -> Plan[bytes]:
    names = {"tenant_id": subject[0], "data_subject": subject[1]}
    rows = yield Statement(dialect["find_key"], names)
    if not rows:
        yield Statement(dialect["add_key"], {**names, "key": sealer.new_key()})
        # Another writer may have been first, and then its key counts.
        rows = yield Statement(dialect["find_key"], names)
    if not rows or rows[0]["key"] is None:
        raise SubjectErasedError(
            f"data subject {subject[1]!r} was erased, so nothing can be written about it any more. "
            "Nothing was written; emit an event without personal data, or under a new data subject"
        )
    return bytes(rows[0]["key"])
