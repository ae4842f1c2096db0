"""Read the log: a page of events by position, one event by its id."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msgspec import structs

from outrider.filters import Filter
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan, Row
from outrider.sql.statement import Statement

PAGE_EVENTS_MAX = 1_000
_NEWEST = 2**63 - 1


def forward(dialect: Dialect, where: Filter, after: int, limit: int) -> Plan[list[Row]]:
    """Return the rows after position *after*, oldest first, at most *limit*."""
    return _page(dialect, "read_forward", where, {"after": after, "row_limit": limit})


def backward(dialect: Dialect, where: Filter, before: int | None, limit: int) -> Plan[list[Row]]:
    """Return the rows before position *before* (None: the end), newest first."""
    bounds = {"before": _NEWEST if before is None else before, "row_limit": limit}
    return _page(dialect, "read_backward", where, bounds)


def one(dialect: Dialect, event_id: UUID) -> Plan[Row | None]:
    """Return the row of one event."""
    rows = yield Statement(dialect["read_event"], dialect.write({"event_id": event_id}))
    return rows[0] if rows else None


def _page(dialect: Dialect, query: str, where: Filter, bounds: dict[str, int]) -> Plan[list[Row]]:
    assert 1 <= bounds["row_limit"] <= PAGE_EVENTS_MAX
    rows = yield Statement(dialect[query], {**_conditions(dialect, where), **bounds})
    return list(rows)


def _conditions(dialect: Dialect, where: Filter) -> dict[str, Any]:
    conditions = structs.asdict(where)
    pattern = conditions.pop("type")
    tenant = conditions.pop("tenant")
    if tenant is None and (where.entity_id or where.correlation_id or where.idempotency_key):
        # Keys live within a tenant; without one they are the keys of events without a tenant.
        tenant = ""
    return dialect.write(
        conditions
        | {
            "type_pattern": None if pattern is None else dialect.pattern(pattern),
            "tenant_id": tenant,
            "event_id": conditions.pop("id"),
            "ordering_key": conditions.pop("key"),
        }
    )
