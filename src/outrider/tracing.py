"""The W3C trace context of the span that emits, where OpenTelemetry is installed."""

from __future__ import annotations

from opentelemetry.context import get_current
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_propagator = TraceContextTextMapPropagator()


def trace_context() -> dict[str, str]:
    """Return ``traceparent`` and ``tracestate`` of the current span; nothing outside a span."""
    if not get_current():  # nothing is traced here, which is cheap to see
        return {}
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier
