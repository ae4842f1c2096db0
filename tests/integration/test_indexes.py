"""The indexes that the hot queries lean on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tests.fixtures.schema import NOW, Database, batch, create

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with create(database_url) as opened:
        yield opened


def fill(database: Database) -> None:
    """Make PostgreSQL's planner choose as it would in a used log; SQLite's does so unasked."""
    if not database.is_postgres:
        return
    database.run(
        "INSERT INTO outbox_subscriptions (name, patterns, target)"
        " VALUES ('billing', '[\"*\"]', 'handler'), ('audit', '[\"*\"]', 'handler')"
    )
    database.run(
        "INSERT INTO outbox_batches (subscription, first_position, last_position, state,"
        " attempts, published_at, members, done)"
        " SELECT 'billing', g * 500 + 1, g * 500 + 500, 'PUBLISHED', 1, now(),"
        " decode(repeat('ff', 63), 'hex'), decode(repeat('ff', 63), 'hex')"
        " FROM generate_series(0, 2999) AS g"
    )
    database.run(
        "INSERT INTO outbox_deliveries (subscription, position, state, attempts, published_at,"
        " reason, ordering_key)"
        " SELECT 'billing', g, CASE g % 3 WHEN 0 THEN 'PUBLISHED' WHEN 1 THEN 'DEAD'"
        " ELSE 'PENDING' END, 1, CASE g % 3 WHEN 0 THEN now() END,"
        " CASE g % 3 WHEN 1 THEN 'exhausted' END, 'key-' || g FROM generate_series(1, 5000) AS g"
    )
    database.run(
        "INSERT INTO outbox_events (event_id, tenant_id, namespace, event_type, schema_version,"
        " payload, content_type, correlation_id) SELECT gen_random_uuid(), '', 'shop',"
        " 'order.placed', 1, '{}', 'application/json', '' FROM generate_series(1, 5000)"
    )
    database.insert("outbox_batches", **batch(1_500_001, 1_500_009, {1_500_001}))
    database.run("ANALYZE")


QUERIES = {
    "outbox_batches_first": (
        "SELECT batch_id FROM outbox_batches WHERE subscription = 'billing'"
        " AND first_position BETWEEN 500000 - 8191 AND 500000"
    ),
    "outbox_batches_last": (
        "SELECT max(last_position) FROM outbox_batches WHERE subscription = 'billing'"
        " AND partition_number = 0 AND generation = 0"
    ),
    "outbox_batches_open": (
        "SELECT batch_id FROM outbox_batches WHERE subscription = 'billing'"
        " AND partition_number = 0 AND state = 'CLAIMED' ORDER BY first_position"
    ),
    "outbox_deliveries_due": (
        "SELECT position FROM outbox_deliveries WHERE subscription = 'billing'"
        " AND state = 'PENDING' AND <not parked> AND available_at <= :now"
        " ORDER BY available_at, position LIMIT 100"
    ),
    "outbox_deliveries_open": (
        "SELECT position FROM outbox_deliveries WHERE subscription = 'billing'"
        " AND state = 'CLAIMED' ORDER BY position"
    ),
    "outbox_deliveries_key": (
        "SELECT position FROM outbox_deliveries WHERE subscription = 'billing'"
        " AND state IN ('PENDING', 'CLAIMED') AND ordering_key = 'key-17'"
        " ORDER BY position LIMIT 1"
    ),
    "outbox_deliveries_dead": (
        "SELECT position FROM outbox_deliveries WHERE subscription = 'billing'"
        " AND state = 'DEAD' AND ordering_key = 'key-17'"
    ),
}


@pytest.mark.requirement("OO-ST-44")
@pytest.mark.parametrize("index", QUERIES)
def test_a_hot_query_uses_its_index(database: Database, index: str) -> None:
    fill(database)
    not_parked = "NOT parked" if database.is_postgres else "parked = 0"
    query = QUERIES[index].replace("<not parked>", not_parked)

    plan = database.plan(query, **({"now": NOW} if ":now" in query else {}))

    assert index in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


def test_the_status_of_one_event_scans_no_large_table(database: Database) -> None:
    fill(database)

    plan = database.plan("SELECT * FROM outbox_status WHERE event_id = :id", id=UUID(int=17))

    large = ("outbox_events", "outbox_batches", "outbox_deliveries")
    assert not [table for table in large if f"Seq Scan on {table}" in plan]
    # SQLite names tables by their aliases in the views.
    scans = {line for line in plan.splitlines() if line.startswith("SCAN ")}
    assert not [scan for scan in scans if scan.split()[1] in {"e", "b", "d", "m", "newer"}]
