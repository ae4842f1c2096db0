"""The plans that write events, against recorded rows: what is asked, and what is made of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import repeat
from typing import Any
from uuid import UUID

import pytest

from outrider import Draft, EventRef, KeyReusedError, StaleVersionError, StoreError
from outrider.events import NOWHERE
from outrider.identity import UuidV7
from outrider.records import Emission, Recorder
from outrider.sql.dialects import dialect_named
from outrider.sql.emit import CHUNK_EVENTS, emit, params, script
from outrider.sql.plan import Row, Rows, Step, run
from outrider.sql.statement import Batch, Statement

RECORDER = Recorder(namespace="shop", new_id=UuidV7())
POSTGRES = dialect_named("postgres")
SQLITE = dialect_named("sqlite")
NAME = "teapot.filled"
both = pytest.mark.parametrize("dialect", [POSTGRES, SQLITE], ids=["bulk", "one by one"])


def emission(data: object = None, /, **options: Any) -> Emission:
    given: Any = options
    return RECORDER.emission(Draft(NAME, data, given), NOWHERE)


def written(step: Step) -> Rows:
    """Answer a guarded statement as a database that holds nothing yet does."""
    assert isinstance(step, Statement)
    if "events" in step.params:
        return [{"event_id": e["event_id"]} for e in json.loads(step.params["events"])]
    return [{"event_id": step.params["event_id"]}]


GUARDED = {"emit_guarded", "emit_many_guarded"}


class Recording:
    """Answers statements with recorded rows, by the name of the query, in their order."""

    def __init__(self, **answers: Iterable[Rows]) -> None:
        self.steps: list[Step] = []
        self._answers = {name: iter(rows) for name, rows in answers.items()}

    def __call__(self, step: Step) -> Rows:
        self.steps.append(step)
        name = step.query.name
        if name in self._answers:
            return next(self._answers[name])
        return written(step) if name in GUARDED else []

    @property
    def names(self) -> list[str]:
        return [step.query.name for step in self.steps]

    def documents(self, name: str) -> list[list[dict[str, Any]]]:
        """Return the events of each bulk statement *name*."""
        return [
            json.loads(step.params["events"])
            for step in self.steps
            if isinstance(step, Statement) and step.query.name == name
        ]


def original(refused: Emission, reason: str, **other: Any) -> Row:
    """Answer a row of `originals`: what an event conflicts with."""
    return {
        "refused_id": str(refused.record.event_id),
        "reason": reason,
        "event_id": UUID(int=7),
        "event_type": NAME,
        "correlation_id": "first",
        "body_digest": refused.record.body_digest,
        **other,
    }


FIRST = EventRef(id=UUID(int=7), type=NAME, correlation_id="first", duplicate=True)


@both
def test_one_event_is_one_statement(dialect: Any) -> None:
    recording = Recording()
    one = emission({"pot": 1}, key=1)

    assert run(emit(dialect, [one]), recording) == [one.reference]
    assert recording.names == ["emit"]


@both
def test_no_events_are_no_statement(dialect: Any) -> None:
    recording = Recording()

    assert run(emit(dialect, []), recording) == []
    assert recording.names == []


def test_many_events_are_one_statement_of_a_document_in_their_order() -> None:
    recording = Recording()
    many = [emission(n) for n in range(CHUNK_EVENTS)]

    assert run(emit(POSTGRES, many), recording) == [one.reference for one in many]
    assert recording.names == ["emit_many"]
    (document,) = recording.documents("emit_many")
    assert [event["payload"] for event in document] == [str(n) for n in range(CHUNK_EVENTS)]


def test_more_than_a_thousand_events_are_several_statements() -> None:
    recording = Recording()

    run(emit(POSTGRES, [emission(n) for n in range(2 * CHUNK_EVENTS + 1)]), recording)

    assert recording.names == ["emit_many", "emit_many", "emit"]


def test_where_no_document_can_be_written_many_events_are_one_batch() -> None:
    recording = Recording()

    run(emit(SQLITE, [emission(n) for n in range(3)]), recording)

    (batch,) = recording.steps
    assert isinstance(batch, Batch)
    assert [row["payload"] for row in batch.rows] == ["0", "1", "2"]


@both
def test_parameters_are_exactly_those_of_the_statement(dialect: Any) -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC)
    given = params(dialect, emission(b"\x00", content_type="image/png", at=moment).record)

    assert given.keys() == dialect["emit"].parameters
    assert given["payload_bytes"] == b"\x00"
    assert given["payload"] is None
    assert given["available_at"] == (moment if dialect is POSTGRES else 1_769_860_800_000_001)


@pytest.mark.requirement("NEV-14")
@both
def test_a_guarded_event_is_written_only_where_nothing_conflicts(dialect: Any) -> None:
    recording = Recording()
    one = emission({"pot": 1}, idempotency_key="k")

    assert run(emit(dialect, [one]), recording) == [one.reference]
    assert recording.names == ["emit_guarded"]


@both
def test_a_repetition_is_the_original_marked_as_duplicate(dialect: Any) -> None:
    one = emission({"pot": 1}, idempotency_key="k")
    recording = Recording(emit_guarded=[[]], originals=[[original(one, "key")]])

    assert run(emit(dialect, [one]), recording) == [FIRST]
    assert recording.names == ["emit_guarded", "originals"]


@both
def test_a_repeated_id_of_the_callers_own_is_a_duplicate_too(dialect: Any) -> None:
    one = emission({"pot": 1}, id=UUID(int=7))
    recording = Recording(emit_guarded=[[]], originals=[[original(one, "id")]])

    assert run(emit(dialect, [one]), recording) == [FIRST]


@both
@pytest.mark.parametrize(
    ("options", "reason", "what"),
    [
        ({"idempotency_key": "k"}, "key", "idempotency key 'k'"),
        ({"id": UUID(int=7)}, "id", "event id"),
    ],
)
@pytest.mark.parametrize("digest", ["other", None])
def test_the_same_key_with_another_body_is_refused_with_the_originals_id(
    dialect: Any, options: Any, reason: str, what: str, digest: str | None
) -> None:
    one = emission({"pot": 1}, **options)
    recording = Recording(
        emit_guarded=[[]], originals=[[original(one, reason, body_digest=digest)]]
    )

    with pytest.raises(KeyReusedError, match=f"^{what} was used before by event") as refused:
        run(emit(dialect, [one]), recording)

    assert refused.value.original_id == UUID(int=7)


@both
def test_a_version_that_another_writer_has_taken_is_stale(dialect: Any) -> None:
    one = emission({"pot": 1}, key="pot1", entity_version=3)
    recording = Recording(emit_guarded=[[]], originals=[[original(one, "version")]])

    with pytest.raises(StaleVersionError, match="teapot 'pot1' already has version 3") as refused:
        run(emit(dialect, [one]), recording)

    assert (refused.value.entity_type, refused.value.version) == ("teapot", 3)


@both
def test_version_zero_is_a_version(dialect: Any) -> None:
    one = emission({"pot": 1}, key="pot1", entity_version=0)
    recording = Recording(emit_guarded=[[]], originals=[[original(one, "version")]])

    with pytest.raises(StaleVersionError, match="already has version 0"):
        run(emit(dialect, [one]), recording)


@both
@pytest.mark.parametrize("order", [["key", "version"], ["version", "key"]])
def test_a_repetition_of_a_versioned_event_is_no_stale_version(
    dialect: Any, order: list[str]
) -> None:
    one = emission({"pot": 1}, key="pot1", entity_version=3, idempotency_key="k")
    rows = [original(one, reason) for reason in order]
    recording = Recording(emit_guarded=[[]], originals=[rows])

    assert run(emit(dialect, [one]), recording) == [FIRST]


@both
def test_many_guarded_events_are_looked_up_before_any_is_written(dialect: Any) -> None:
    many = [emission({"pot": n}, idempotency_key=f"k{n}") for n in range(3)]
    recording = Recording(originals=[[original(many[1], "key")], []])

    refs = run(emit(dialect, many), recording)

    assert refs == [many[0].reference, FIRST, many[2].reference]
    assert recording.names[0] == "originals"
    assert Counter(recording.names)[_many(dialect)] == (1 if dialect.bulk else 2)


@both
def test_an_event_that_is_not_written_takes_no_place_from_others(dialect: Any) -> None:
    def versioned(version: int, **options: Any) -> Emission:
        return emission({}, entity=("pot", 1), entity_version=version, **options)

    first, repeated = versioned(1, idempotency_key="k"), versioned(2, idempotency_key="k")
    other = versioned(2)

    refs = run(emit(dialect, [first, repeated, other]), Recording())

    assert [ref.id for ref in refs] == [first.record.event_id] * 2 + [other.record.event_id]
    assert [ref.duplicate for ref in refs] == [False, True, False]


@both
def test_one_refusal_among_many_writes_none_of_them(dialect: Any) -> None:
    many = [emission({"pot": n}, idempotency_key=f"k{n}") for n in range(3)]
    recording = Recording(originals=[[original(many[1], "key", body_digest="other")]])

    with pytest.raises(KeyReusedError):
        run(emit(dialect, many), recording)

    assert recording.names == ["originals"]


@both
def test_a_writer_who_commits_between_the_look_and_the_write_is_found_too(dialect: Any) -> None:
    many = [emission({"pot": n}, idempotency_key=f"k{n}") for n in range(2)]
    answers = [[], written(_guarded(many[1]))] if not dialect.bulk else [written(_guarded(many[1]))]
    looks = [[], [original(many[0], "key")]]
    recording = Recording(originals=looks, **{_many(dialect): answers})

    assert run(emit(dialect, many), recording) == [FIRST, many[1].reference]


def _many(dialect: Any) -> str:
    return "emit_many_guarded" if dialect.bulk else "emit_guarded"


def _guarded(one: Emission) -> Statement:
    return Statement(SQLITE["emit_guarded"], params(SQLITE, one.record))


@both
def test_plain_events_among_guarded_ones_keep_their_place(dialect: Any) -> None:
    many = [emission(0), emission(1, idempotency_key="k"), emission(2)]
    recording = Recording()

    assert run(emit(dialect, many), recording) == [one.reference for one in many]
    if dialect.bulk:
        (document,) = recording.documents("emit_many_guarded")
        assert [event["payload"] for event in document] == ["0", "1", "2"]


@both
@pytest.mark.parametrize(
    "options", [{"idempotency_key": "k"}, {"id": UUID(int=5)}], ids=["key", "id"]
)
def test_a_repetition_within_one_call_is_written_once(dialect: Any, options: Any) -> None:
    first, again = emission({"pot": 1}, **options), emission({"pot": 1}, **options)
    recording = Recording()

    refs = run(emit(dialect, [first, again]), recording)

    assert refs == [
        first.reference,
        EventRef(
            id=first.record.event_id,
            type=NAME,
            correlation_id=first.record.correlation_id,
            duplicate=True,
        ),
    ]
    assert recording.names == ["emit_guarded"]


@both
@pytest.mark.parametrize(
    "options", [{"idempotency_key": "k"}, {"id": UUID(int=5)}], ids=["key", "id"]
)
def test_two_bodies_under_one_key_within_one_call_are_refused_unasked(
    dialect: Any, options: Any
) -> None:
    recording = Recording()

    with pytest.raises(KeyReusedError):
        run(emit(dialect, [emission(1, **options), emission(2, **options)]), recording)

    assert recording.names == []


@both
def test_one_version_twice_within_one_call_is_stale_unasked(dialect: Any) -> None:
    recording = Recording()
    twice = [emission(n, key="pot1", entity_version=1) for n in range(2)]

    with pytest.raises(StaleVersionError):
        run(emit(dialect, twice), recording)

    assert recording.names == []


@both
def test_keys_and_versions_are_told_apart_by_tenant(dialect: Any) -> None:
    recording = Recording()
    tenants = [
        emission(n, key=1, entity_version=1, idempotency_key="k", tenant=tenant)
        for n, tenant in enumerate("ab")
    ]

    refs = run(emit(dialect, tenants), recording)

    assert not any(ref.duplicate for ref in refs)


@both
def test_a_repetition_within_one_call_of_an_event_in_the_log_is_the_original(dialect: Any) -> None:
    first, again = (emission({"pot": 1}, idempotency_key="k") for _ in range(2))
    recording = Recording(emit_guarded=[[]], originals=[[original(first, "key")]])

    assert run(emit(dialect, [first, again]), recording) == [FIRST, FIRST]


@both
def test_an_event_that_was_not_written_and_has_no_original_is_never_taken_for_written(
    dialect: Any,
) -> None:
    # The original is a row that the writer may not see.
    recording = Recording(emit_guarded=repeat([]), originals=repeat([]))

    with pytest.raises(StoreError, match="conflicts with one that cannot be read and was not"):
        run(emit(dialect, [emission({"pot": 1}, idempotency_key="k")]), recording)


@both
def test_an_event_whose_original_was_pruned_in_between_is_written_at_last(dialect: Any) -> None:
    one = emission({"pot": 1}, idempotency_key="k")
    recording = Recording(emit_guarded=[[], written(_guarded(one))], originals=[[], []])

    assert run(emit(dialect, [one]), recording) == [one.reference]


def test_locks_are_taken_first_once_per_key_and_in_one_order() -> None:
    recording = Recording()
    many = [emission(n, key=key, lock=True) for n, key in enumerate(["b", "a", "b"])]
    many += [emission(3, key="a", lock=True, tenant="acme"), emission(4, key="unlocked")]

    run(emit(POSTGRES, many), recording)

    assert recording.names == ["lock_key", "lock_key", "lock_key", "emit_many"]
    locks = [
        step.params["lock_name"] for step in recording.steps[:3] if isinstance(step, Statement)
    ]
    assert locks == ["\na", "\nb", "acme\na"]


def test_where_writers_are_serial_nothing_is_locked() -> None:
    recording = Recording()

    run(emit(SQLITE, [emission(key="a", lock=True)]), recording)

    assert recording.names == ["emit"]


@both
def test_a_plan_that_is_cut_off_writes_nothing_more(dialect: Any) -> None:
    plan = emit(dialect, [emission(n, idempotency_key=f"k{n}") for n in range(3)])

    assert next(plan).query.name == "originals"
    plan.close()

    with pytest.raises(StopIteration):
        next(plan)


@pytest.mark.parametrize(
    ("options", "names"),
    [({}, ["emit_many"]), ({"key": "a", "lock": True}, ["lock_key", "emit_many"])],
    ids=["plain", "locked"],
)
def test_a_script_is_what_a_plan_would_execute(options: Any, names: list[str]) -> None:
    statements = script(POSTGRES, [emission(n, **options) for n in range(3)])

    assert [statement.query.name for statement in statements] == names


def test_a_script_of_one_guarded_event_is_its_insert_alone() -> None:
    assert [s.query.name for s in script(POSTGRES, [emission(idempotency_key="k")])] == [
        "emit_guarded"
    ]


def test_a_script_for_a_database_without_documents_is_event_after_event() -> None:
    assert [s.query.name for s in script(SQLITE, [emission(n) for n in range(3)])] == ["emit"] * 3


@both
def test_a_script_of_many_guarded_events_has_no_look_ups(dialect: Any) -> None:
    many = [emission(n, idempotency_key=f"k{n}") for n in range(3)]

    names = [statement.query.name for statement in script(dialect, many)]

    assert names == [_many(dialect)] * (1 if dialect.bulk else 3)
