"""What goes in comes out: every value, by every way an event can take into the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest

from outrider import payloads
from outrider.events import Draft, EmitOptions, Event
from outrider.filters import Filter
from outrider.testing.contracts.callers import Application
from outrider.testing.contracts.emitting import EmitContract

TEXTS = (
    "",
    "ü ß 漢字 \N{PARTY POPPER} \U0010ffff",
    "é is not e\N{COMBINING ACUTE ACCENT}",
    "'single' \"double\" `back` ''",
    "%s %(name)s %d %% 100%",
    "{0} {name} {{}}",
    ":name ::text $1 ? @p",
    "back\\slash \\n \\' \\u0041",
    "'; DROP TABLE outbox_events; --",
    "lines\r\nand\ttabs \x01\x1f\x7f\N{LINE SEPARATOR}\N{ZERO WIDTH NO-BREAK SPACE}",
    " spaces at both ends ",
    "null",
)
KEYS = (
    *("a", "A", "a ", " a", "  ", "á", "a\N{COMBINING ACUTE ACCENT}", "ß", "ss", "SS"),
    *("1", "01", "1.0", "1e0", "0x1", "%", "_", "%s", "'", "\\", "\\x41", '"', ":k", "\t", "NULL"),
    *("k" * 255, "é" * 127, "\U0010ffff" * 63),
)
TIMES = (
    datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
    # The very first and the very last instant stand for infinity in some drivers.
    datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    datetime(1899, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC),
    datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    datetime(2026, 7, 1, 0, 0, 0, 1, tzinfo=timezone(-timedelta(hours=9, minutes=30, seconds=7))),
)
NUMBERS = (
    *(0, -1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400),
    *(0.1, -0.0, 1e308, 5e-324, 1e22, 123456789.123456789),
)
BYTES = (bytes(range(256)), b"", b"\x00", b"\\x00'%s\\", "text, ü".encode())
DOCUMENTS = (
    b'{ "b" : 1.0,\n\t"a": [ 1E5 , 1e-7, 0.10, -0 ] }\r\n',
    '{"\\u00fc":"ü","\\ud83c\\udf89":"\\/"}'.encode(),
    b'"only text"',
    b" null ",
    b"[[],{},[[]]]",
)
HEADERS: tuple[dict[str, str], ...] = (
    {},
    {"X-Trace": "a b", "x-empty": "", "X-Odd": "%s {0} :name $1 'quoted' \\n \"x\" <>"},
    {f"x-{n}": str(n) for n in range(100)},
)


class ValueContract(EmitContract):
    """The part of the contract that is about values: nothing is repaired, cut or converted."""

    guarded: ClassVar[bool] = True
    """Whether the kind takes events that ask the database something, like an idempotency key."""
    settings: ClassVar[Sequence[str]] = ()
    """What an application may have set on its session, and what must change nothing."""

    @pytest.mark.requirement("OO-EM-08", "OO-EM-09", "NEV-12")
    async def test_text_arrives_as_it_was_emitted(self, app: Application) -> None:
        data = [{"text": text, text: [text]} for text in TEXTS]

        for events in await self.written(
            app, [Draft("contract_text.noted", each) for each in data]
        ):
            assert [event.data for event in events] == data
            assert [event.payload for event in events] == [payloads.encode(each) for each in data]

    @pytest.mark.requirement("OO-EM-08")
    async def test_numbers_arrive_as_they_were_emitted(self, app: Application) -> None:
        drafts = [Draft("contract_number.noted", {"number": number}) for number in NUMBERS]

        for events in await self.written(app, drafts):
            found = [event.data["number"] for event in events]
            assert [repr(number) for number in found] == [repr(number) for number in NUMBERS]

    @pytest.mark.requirement("OO-EM-08", "OO-EM-09")
    async def test_bytes_arrive_as_they_were_emitted(self, app: Application) -> None:
        options = EmitOptions(content_type="application/x-things; v=1")

        for events in await self.written(
            app, [Draft("contract_blob.stored", raw, options) for raw in BYTES]
        ):
            assert [event.payload for event in events] == list(BYTES)
            assert {event.content_type for event in events} == {"application/x-things; v=1"}

    @pytest.mark.requirement("OO-EM-09")
    async def test_json_that_somebody_else_wrote_arrives_byte_for_byte(
        self, app: Application
    ) -> None:
        options = EmitOptions(content_type="application/json")

        drafts = [Draft("contract_json.noted", raw, options) for raw in DOCUMENTS]
        for events in await self.written(app, drafts):
            assert [event.payload for event in events] == list(DOCUMENTS)

    async def test_keys_are_kept_and_compared_byte_for_byte(self, app: Application) -> None:
        drafts = [Draft("contract_key.used", {}, {"key": key, "tenant": key}) for key in KEYS]

        for events in await self.written(app, drafts):
            assert [event.key for event in events] == list(KEYS)
            assert [event.tenant for event in events] == list(KEYS)
            assert [event.entity for event in events] == [("contract_key", key) for key in KEYS]

        for key in KEYS:
            found = await app.read(Filter(key=key, tenant=key))
            assert {event.key for event in found} == {key}

    @pytest.mark.requirement("OO-OR-06", "OO-OR-19", "OO-OR-20")
    async def test_what_is_ordered_and_what_is_partitioned_by_may_differ(
        self, app: Application
    ) -> None:
        await app.emit("contract_order.placed", {}, key="order-1")
        await app.emit("contract_order.placed", {}, key="order-2", partition_key="customer-7")
        await app.emit("contract_order.placed", {}, entity=("basket", 3))

        same, different, none = await app.read()
        assert (same.key, same.partition_key) == ("order-1", "order-1")
        assert (different.key, different.partition_key) == ("order-2", "customer-7")
        assert (none.key, none.partition_key, none.entity) == (None, None, ("basket", "3"))

    @pytest.mark.requirement("CAN-27", "EKB-29")
    async def test_times_arrive_to_the_microsecond_whatever_their_zone(
        self, app: Application
    ) -> None:
        drafts = [Draft("contract_time.noted", {}, {"occurred_at": t, "at": t}) for t in TIMES]

        for events in await self.written(app, drafts):
            assert [event.time for event in events] == list(TIMES)
            assert [event.available_at for event in events] == list(TIMES)
            assert {event.time.tzinfo for event in events} == {UTC}

    @pytest.mark.requirement("OO-EM-33", "CAN-27")
    async def test_a_delay_counts_from_the_databases_clock(self, app: Application) -> None:
        delay = timedelta(days=40, microseconds=1)

        for events in await self.written(
            app, [Draft("contract_order.placed", {}, {"delay": delay})] * 2
        ):
            for event in events:
                assert event.available_at == event.created_at + delay
                assert event.time == event.created_at

    @pytest.mark.requirement("OO-EM-27")
    async def test_headers_and_metadata_arrive_as_they_were_emitted(self, app: Application) -> None:
        metadata = {"texts": list(TEXTS), "numbers": [2**63, 0.1], "none": None}
        drafts = [
            Draft("contract_order.placed", {}, {"headers": headers, "metadata": metadata})
            for headers in HEADERS
        ]

        for events in await self.written(app, drafts):
            assert [dict(event.headers) for event in events] == list(HEADERS)
            assert [list(event.headers) for event in events] == [list(each) for each in HEADERS]
            assert all(event.metadata == metadata for event in events)

    async def test_what_is_not_said_stays_unsaid(self, app: Application) -> None:
        for (event,) in await self.written(app, [Draft("contract_order.placed", None)]):
            assert event.data is None
            assert (event.headers, event.metadata) == ({}, {})
            unsaid = (event.key, event.entity, event.entity_version, event.tenant, event.actor)
            assert set(unsaid) == {None}
            assert {event.causation_id, event.available_at, event.keep_seconds} == {None}

    @pytest.mark.requirement("EKB-29")
    async def test_settings_of_the_session_change_nothing(self, app: Application) -> None:
        for setting in self.settings:
            await app.run(setting)
        drafts = [
            *(Draft("contract_text.noted", {"text": text, "n": 0.1}) for text in TEXTS),
            *(
                Draft("contract_time.noted", {}, {"occurred_at": time, "at": time})
                for time in TIMES
            ),
            Draft("contract_blob.stored", BYTES[0], {"content_type": "application/x-things"}),
        ]

        for events in await self.written(app, drafts):
            assert [event.data["text"] for event in events[: len(TEXTS)]] == list(TEXTS)
            times = events[len(TEXTS) : -1]
            assert [event.time for event in times] == list(TIMES)
            assert [event.available_at for event in times] == list(TIMES)
            assert events[-1].payload == BYTES[0]

    async def written(self, app: Application, drafts: Sequence[Draft]) -> list[list[Event[Any]]]:
        """Write *drafts* by every way there is; return what each way brought into the log."""
        for draft in drafts:
            await app.emit(draft.event, draft.data, **draft.options)
        await app.emit_many(drafts)
        ways = 2
        if self.guarded:
            for draft in _identified(drafts, "one"):
                await app.emit(draft.event, draft.data, **draft.options)
            await app.emit_many(_identified(drafts, "many"))
            ways = 4
        events = await app.read()
        assert len(events) == ways * len(drafts)
        return [events[n * len(drafts) : (n + 1) * len(drafts)] for n in range(ways)]


def _identified(drafts: Iterable[Draft], prefix: str) -> list[Draft]:
    return [
        Draft(draft.event, draft.data, {**draft.options, "idempotency_key": f"{prefix}-{n}"})
        for n, draft in enumerate(drafts)
    ]
