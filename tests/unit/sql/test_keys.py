"""The keys of data subjects: made once, read back, and gone once they are erased."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from outrider import Draft, SubjectErasedError, event
from outrider.event_types import DECLARED
from outrider.events import NOWHERE
from outrider.identity import UuidV7
from outrider.payloads import SEALED
from outrider.records import Emission, Recorder
from outrider.sql.dialects import dialect_named
from outrider.sql.emit import emit
from outrider.sql.keys import context_of, find_keys, sealed
from outrider.sql.plan import Rows, Step, run
from outrider.sql.statement import Batch, Statement

RECORDER = Recorder(namespace="shop", new_id=UuidV7())
SQLITE = dialect_named("sqlite")


@dataclass(frozen=True)
class Registered:
    guest: str
    mail: str | None


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test declares end with it."""
    for name in ("_by_name", "_by_class", "_upcasts"):
        monkeypatch.setattr(DECLARED, name, dict(getattr(DECLARED, name)))
    event("guest.registered", sensitive=["mail"], data_subject="guest")(Registered)


class Readable:
    """Shows what it was asked to seal, and counts its keys."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def new_key(self) -> bytes:
        return b"key%d" % next(self._numbers)

    def seal(self, key: bytes, context: str, value: bytes) -> str:
        return f"{key.decode()}|{context}|{value.decode()}"

    def open(self, key: bytes, context: str, sealed: str) -> bytes:
        raise AssertionError("nothing is read here")


class Keys:
    """The table of keys: answers as a database does, and writes down what it was asked."""

    def __init__(self, **rows: bytes | None) -> None:
        self.rows = rows
        self.asked: list[str] = []
        self.race: bytes | None = None

    def __call__(self, step: Step) -> Rows:
        if isinstance(step, Batch):
            self.asked.append(step.query.name)
            return []
        subject = step.params.get("data_subject", "")
        self.asked.append(f"{step.query.name} {subject}".strip())
        if step.query.name == "add_key":
            self.rows.setdefault(subject, self.race or step.params["key"])
            return []
        if step.query.name == "find_key":
            return [{"key": self.rows[subject]}] if subject in self.rows else []
        return []


def registered(guest: str, mail: str | None = "a@b.c", **options: Any) -> Emission:
    given: Any = options
    return RECORDER.emission(Draft(Registered(guest, mail), None, given), NOWHERE)


def mails(keys: Keys, emissions: Sequence[Emission]) -> list[Any]:
    records = run(sealed(SQLITE, emissions, Readable()), keys)
    return [json.loads(str(record.payload))["mail"] for record in records]


def test_a_subjects_first_event_makes_its_key() -> None:
    keys = Keys()
    one = registered("anna")

    assert mails(keys, [one]) == [{SEALED: f'key1|{one.record.event_id}:mail|"a@b.c"'}]
    assert keys.asked == ["find_key anna", "add_key anna", "find_key anna"]
    assert keys.rows == {"anna": b"key1"}


def test_a_key_that_is_there_is_used() -> None:
    keys = Keys(anna=b"old")

    assert mails(keys, [registered("anna")])[0][SEALED].startswith("old|")
    assert keys.asked == ["find_key anna"]


def test_of_two_writers_who_make_a_key_at_once_the_first_ones_counts() -> None:
    keys = Keys()
    keys.race = b"first"

    assert mails(keys, [registered("anna")])[0][SEALED].startswith("first|")


def test_a_key_is_asked_for_once_per_subject_and_call() -> None:
    keys = Keys(anna=b"a", bert=b"b")

    mails(keys, [registered("anna"), registered("bert"), registered("anna")])

    assert keys.asked == ["find_key anna", "find_key bert"]


def test_keys_are_made_in_one_order_so_that_two_writers_cannot_deadlock() -> None:
    keys = Keys()

    mails(keys, [registered("bert"), registered("anna")])

    assert [asked for asked in keys.asked if asked.startswith("add")] == [
        "add_key anna",
        "add_key bert",
    ]


def test_subjects_are_told_apart_by_tenant() -> None:
    keys = Keys()
    tenants: list[str] = []

    def execute(step: Step) -> Rows:
        assert isinstance(step, Statement)
        tenants.append(step.params["tenant_id"])
        return keys(step)

    run(sealed(SQLITE, [registered("anna", tenant="acme")], Readable()), execute)

    assert set(tenants) == {"acme"}


@pytest.mark.parametrize("rows", [{"anna": None}, {"anna": None, "bert": b"b"}])
def test_nothing_is_written_about_a_subject_that_was_erased(rows: Any) -> None:
    keys = Keys(**rows)
    plan = emit(SQLITE, [registered("bert"), registered("anna")], Readable())

    with pytest.raises(SubjectErasedError, match="data subject 'anna' was erased, so nothing can"):
        run(plan, keys)

    assert not any(asked.startswith("emit") for asked in keys.asked)


def test_a_subject_that_is_erased_while_its_key_is_made_stays_erased() -> None:
    def execute(step: Step) -> Rows:
        assert isinstance(step, Statement)
        asked.append(step.query.name)
        return [{"key": None}] if asked.count("find_key") == 2 else []

    asked: list[str] = []

    with pytest.raises(SubjectErasedError):
        run(sealed(SQLITE, [registered("anna")], Readable()), execute)


def test_events_without_sensitive_fields_ask_for_no_keys() -> None:
    keys = Keys()
    plain = RECORDER.emission(Draft("teapot.filled", {}), NOWHERE)

    assert run(sealed(SQLITE, [plain], None), keys) == [plain.record]
    assert keys.asked == []


def test_only_sensitive_events_of_a_call_are_sealed() -> None:
    keys = Keys(anna=b"a")
    plain = RECORDER.emission(Draft("teapot.filled", {"mail": "open"}), NOWHERE)

    assert mails(keys, [plain, registered("anna")])[0] == "open"


def test_keys_are_made_before_anything_is_written() -> None:
    keys = Keys()

    run(emit(SQLITE, [registered("anna"), registered("bert")], Readable()), keys)

    assert [asked.split()[0] for asked in keys.asked] == [
        *["find_key", "add_key", "find_key"] * 2,
        "emit",
    ]


def test_reading_finds_the_keys_that_were_not_erased() -> None:
    keys = Keys(anna=b"a", bert=None)

    found = run(find_keys(SQLITE, [("", "bert"), ("", "anna"), ("", "anna"), ("", "carl")]), keys)

    assert found == {("", "anna"): b"a"}
    assert keys.asked == ["find_key anna", "find_key bert", "find_key carl"]


def test_a_sealed_value_is_bound_to_its_event_and_field() -> None:
    contexts = {context_of(event_id, name) for event_id in "ab" for name in ("x", "y")}

    assert len(contexts) == 4
