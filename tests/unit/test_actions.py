"""Business actions: their events are written together, with the action beside each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from outrider import (
    Action,
    EmitError,
    EncodingError,
    EventRef,
    EventTooLargeError,
    InvalidEventError,
    actions,
)
from outrider.actions import ACTION_TYPE
from outrider.events import Draft, current_origin, originating
from outrider.identity import UuidV7
from outrider.records import Emission, Record, Recorder

RECORDER = Recorder(namespace="shop", new_id=UuidV7())


class Log:
    """Takes what an action writes."""

    def __init__(self) -> None:
        self.writes: list[list[Record]] = []

    @property
    def records(self) -> list[Record]:
        (written,) = self.writes
        return written

    def action(self, name: str = "deposit", params: object = None) -> Action:
        return Action(name, params, self.record, self.write, self.awrite)

    def record(self, draft: Draft) -> Emission:
        return RECORDER.emission(draft, current_origin())

    def write(self, emissions: Sequence[Emission]) -> list[EventRef]:
        self.writes.append([emission.record for emission in emissions])
        return [emission.reference for emission in emissions]

    async def awrite(self, emissions: Sequence[Emission]) -> list[EventRef]:
        return self.write(emissions)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.mark.requirement("EKB-04", "EKB-05", "EKB-06", "EKB-07", "EKB-14")
def test_every_event_carries_its_action(log: Log) -> None:
    before = datetime.now(UTC)
    with log.action("deposit", {"amount": 5}) as action:
        action.emit("account.credited", {"amount": 5}, key=1)
        action.emit("limit.raised", {"limit": 9})

    assert [record.event_type for record in log.records] == ["account.credited", "limit.raised"]
    for record in log.records:
        assert record.action_id == action.id
        assert record.action_name == "deposit"
        assert json.loads(str(record.action_params)) == {"amount": 5}
        assert record.action_started_at is not None
        assert record.action_completed_at is not None
        assert before <= record.action_started_at <= record.action_completed_at <= datetime.now(UTC)


def test_the_events_of_an_action_are_written_in_one_go_when_it_ends(log: Log) -> None:
    with log.action() as action:
        refs = [action.emit("account.credited"), action.emit("limit.raised")]
        assert log.writes == []
        assert action.events == []

    assert len(log.writes) == 1
    assert action.events == refs


@pytest.mark.requirement("EKB-20", "EKB-21")
def test_an_action_without_events_leaves_a_record_of_itself(log: Log) -> None:
    with log.action("deposit", {"amount": 0}) as action:
        pass

    (record,) = log.records
    assert record.event_type == ACTION_TYPE == "outrider.action"
    assert json.loads(str(record.payload)) == {"action": "deposit"}
    assert (record.action_id, record.action_name) == (action.id, "deposit")
    assert record.action_params == '{"amount":0}'
    assert record.correlation_id == str(action.id)
    assert [ref.id for ref in action.events] == [record.event_id]


def test_nobody_else_can_write_the_record_of_an_action(log: Log) -> None:
    with log.action() as action:
        with pytest.raises(InvalidEventError, match="which is reserved"):
            action.emit("outrider.action", {"action": "mine"})
        action.emit("account.credited")


def test_an_exception_writes_nothing(log: Log) -> None:
    action = log.action()

    def deposit() -> None:
        with action:
            action.emit("account.credited")
            raise LookupError

    with pytest.raises(LookupError):
        deposit()
    assert log.writes == []
    assert action.events == []


def test_a_refused_event_writes_nothing_of_the_action(log: Log) -> None:
    def deposit() -> None:
        with log.action() as action:
            action.emit("account.credited")
            action.emit("limit.raised", float("nan"))

    with pytest.raises(EncodingError):
        deposit()
    assert log.writes == []


def test_an_event_is_checked_when_it_is_emitted(log: Log) -> None:
    with log.action() as action:
        with pytest.raises(InvalidEventError, match="is not an event type"):
            action.emit("not a name")
        action.emit("account.credited")

    assert len(log.records) == 1


def test_events_are_as_they_were_when_they_were_emitted(log: Log) -> None:
    data = {"amount": 5}
    with log.action("deposit", data) as action:
        action.emit("account.credited", data)
        data["amount"] = 6

    assert log.records[0].payload == '{"amount":5}'
    assert log.records[0].action_params == '{"amount":5}'


@pytest.mark.requirement("CAN-28", "CAN-59")
def test_the_events_of_an_action_are_correlated_by_its_id(log: Log) -> None:
    with log.action() as action:
        action.emit("account.credited")
        action.emit("limit.raised", correlation_id=None)  # type: ignore[arg-type] # as not given

    assert {record.correlation_id for record in log.records} == {str(action.id)}


def test_a_correlation_that_is_known_is_kept(log: Log) -> None:
    cause = EventRef(id=UUID(int=7), type="a.b", correlation_id="cause's")
    with originating({"correlation_id": "outer"}), log.action() as action:
        action.emit("account.credited")
        action.emit("limit.raised", correlation_id="mine")
        action.emit("limit.raised", causation=cause)

    assert [record.correlation_id for record in log.records] == ["outer", "mine", "cause's"]
    assert log.records[2].causation_id == cause.id


def test_each_event_has_the_origin_it_was_emitted_in(log: Log) -> None:
    with log.action() as action:
        with originating({"tenant": "acme"}):
            action.emit("account.credited")
        action.emit("limit.raised")

    assert [record.tenant_id for record in log.records] == ["acme", ""]


@pytest.mark.parametrize("moment", ["before", "after", "after an error"])
def test_an_event_that_would_never_be_written_is_refused(log: Log, moment: str) -> None:
    action = log.action()
    if moment == "after":
        with action:
            action.emit("account.credited")
    elif moment == "after an error":
        with pytest.raises(LookupError), action:
            raise LookupError

    with pytest.raises(
        EmitError, match=r"action 'deposit' is not open, .* emit inside of its with"
    ):
        action.emit("limit.raised")


def test_an_action_happens_once(log: Log) -> None:
    action = log.action()
    with action:
        action.emit("account.credited")

    with pytest.raises(EmitError, match="action 'deposit' was used before"), action:
        pass
    with pytest.raises(EmitError, match="was used before"):
        action.__enter__()
    assert len(log.records) == 1


async def test_an_action_on_an_async_connection_is_awaited(log: Log) -> None:
    async with log.action() as action:
        action.emit("account.credited")

    assert len(log.records) == 1
    with pytest.raises(LookupError):
        async with log.action():
            raise LookupError
    assert len(log.writes) == 1


@pytest.mark.parametrize(
    ("name", "params", "problem"),
    [
        ("", None, "action name is empty"),
        ("a" * 256, None, "action name .* has 256 bytes"),
        ("deposit", {"at": object()}, "builtins.object, which has no JSON form"),
        ("deposit", {"at": float("inf")}, r"\$\.at is inf"),
    ],
)
def test_an_action_outside_the_grammar_is_refused(
    log: Log, name: str, params: object, problem: str
) -> None:
    with pytest.raises(InvalidEventError, match=problem):
        log.action(name, params)


def test_params_are_small_because_each_event_carries_them(log: Log) -> None:
    with pytest.raises(EventTooLargeError, match=r"the action's params has .* the limit is 16384"):
        log.action("deposit", {"text": "x" * 16_384})


def test_an_action_without_params_has_an_empty_object(log: Log) -> None:
    with log.action() as action:
        action.emit("account.credited")

    assert log.records[0].action_params == "{}"


class FrozenTime(datetime):
    """As the libraries that freeze time put it in the place of datetime."""

    @classmethod
    def now(cls, tz: Any = None) -> FrozenTime:
        return cls(2026, 1, 31, tzinfo=tz)


def test_the_times_of_an_action_are_plain_also_where_time_is_frozen(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "datetime", FrozenTime)

    with log.action() as action:
        action.emit("account.credited")

    assert type(log.records[0].action_started_at) is datetime
    assert log.records[0].action_completed_at == datetime(2026, 1, 31, tzinfo=UTC)
