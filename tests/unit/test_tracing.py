"""The W3C trace context of the span that emits, in the metadata of its events."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from outrider import Outbox, outbox
from outrider.events import Draft
from outrider.tracing import trace_context

TRACER = TracerProvider().get_tracer("test")
TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    """Let each test find out for itself what is installed."""
    outbox._optional.cache_clear()
    yield
    outbox._optional.cache_clear()


def metadata(**options: Any) -> Any:
    given: Any = options
    text = Outbox(namespace="shop")._emission(Draft("order.placed", {}, given)).record.metadata
    return None if text is None else json.loads(text)


@pytest.mark.requirement("OO-EM-23", "OO-TM-27")
def test_inside_a_span_events_carry_its_trace_context() -> None:
    with TRACER.start_as_current_span("checkout") as span:
        found = metadata()

    context = span.get_span_context()
    ids = f"{context.trace_id:032x}-{context.span_id:016x}"
    assert TRACEPARENT.fullmatch(found["traceparent"])
    assert found["traceparent"] == f"00-{ids}-{context.trace_flags:02x}"
    assert "tracestate" not in found


def test_the_trace_state_goes_along() -> None:
    context = SpanContext(
        trace_id=1, span_id=2, is_remote=True, trace_flags=TraceFlags(1),
        trace_state=TraceState([("vendor", "value")]),
    )  # fmt: skip
    with trace.use_span(NonRecordingSpan(context)):
        assert trace_context() == {
            "traceparent": f"00-{1:032x}-{2:016x}-01",
            "tracestate": "vendor=value",
        }


def test_outside_of_a_span_there_is_no_trace_context() -> None:
    assert trace_context() == {}
    assert metadata() is None


@pytest.mark.requirement("OO-EM-19")
def test_the_trace_context_stands_beside_the_callers_metadata() -> None:
    with TRACER.start_as_current_span("checkout"):
        found = metadata(metadata={"build": 7})

    assert found["build"] == 7
    assert TRACEPARENT.fullmatch(found["traceparent"])


def test_metadata_of_the_callers_own_wins_over_the_span() -> None:
    with TRACER.start_as_current_span("checkout"):
        assert metadata(metadata={"traceparent": "mine"})["traceparent"] == "mine"


def hide(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "outrider.tracing")


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.context"])
def test_without_opentelemetrys_api_events_are_emitted_all_the_same(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other packages may bring the namespace "opentelemetry" without the API in it.
    hide(monkeypatch, missing)

    assert metadata() is None
    assert metadata(metadata={"build": 7}) == {"build": 7}


def test_a_broken_module_of_ours_is_not_taken_for_a_missing_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "outrider.tracing", None)

    with pytest.raises(ModuleNotFoundError, match=r"outrider\.tracing"):
        outbox._optional("opentelemetry", "outrider.tracing", "trace_context")

    importlib.invalidate_caches()
