"""The indexes that the hot queries lean on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from outrider.filters import parse
from outrider.sql import read
from outrider.sql.statement import Statement
from tests.fixtures.schema import NOW, Database, batch, create

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


CAUSE = "00000000-0000-0000-0000-000000000017"
ACTION = "00000000-0000-0000-0000-000000000018"

# What readers ask the log in SQL of their own, by the index that answers it in its own order.
LOG_QUERIES = {
    "outbox_events_entity": (
        "SELECT * FROM outbox_events WHERE tenant_id = 'acme' AND entity_type = 'order'"
        " AND entity_id = '17' ORDER BY position"
    ),
    # The event that began the chain is its own correlation, and found by its id.
    "outbox_events_correlation": (
        "SELECT * FROM outbox_events WHERE tenant_id = 'acme' AND correlation_id = 'chain-17'"
        " AND correlation_id <> <event_id> ORDER BY position"
    ),
    "outbox_events_type": (
        "SELECT * FROM outbox_events WHERE tenant_id = 'acme' AND event_type = 'order.placed'"
        " ORDER BY position DESC LIMIT 10"
    ),
    "outbox_events_actor": (
        "SELECT * FROM outbox_events WHERE tenant_id = 'acme' AND actor_type = 'user'"
        " AND actor_id = '17' ORDER BY position DESC LIMIT 10"
    ),
    "outbox_events_causation": (
        "SELECT * FROM outbox_events WHERE tenant_id = 'acme' AND causation_id = '<cause>'"
    ),
    "outbox_events_action": "SELECT * FROM outbox_events WHERE action_id = '<action>'",
}

# The same questions, asked of Outrider.
FILTERS = {
    "outbox_events_entity": "tenant:acme entity:order/17",
    "outbox_events_type": "tenant:acme type:order.placed",
    "outbox_events_actor": "tenant:acme actor:user:17",
    "outbox_events_causation": f"tenant:acme causation:{CAUSE}",
    "outbox_events_action": f"action:{ACTION}",
}


def fill_log(database: Database) -> None:
    """Make a log of two tenants with the read indexes; PostgreSQL's planner needs rows in it.

    The type that is looked for is rare: of others the newest are found faster from the end.
    """
    for statement in database.dialect.script("reads.sql"):
        database.run(statement)
    if not database.is_postgres:
        return
    database.run(
        "INSERT INTO outbox_events (event_id, tenant_id, namespace, event_type, schema_version,"
        " payload, content_type, entity_type, entity_id, correlation_id, causation_id, actor_type,"
        " actor_id, action_id, action_name, action_params, action_started_at, action_completed_at)"
        " SELECT gen_random_uuid(), CASE g % 2 WHEN 0 THEN 'acme' ELSE 'globex' END, 'shop',"
        " CASE g % 400 WHEN 0 THEN 'order.placed' ELSE 'order.paid' END, 1, '{}',"
        " 'application/json', 'order', g % 1000, 'chain-' || g % 1000, gen_random_uuid(), 'user',"
        " g % 1000, gen_random_uuid(), 'pay', '{}', now(), now()"
        " FROM generate_series(1, 20000) AS g"
    )
    database.run("VACUUM ANALYZE outbox_events")


def plan_of_read(database: Database, text: str) -> str:
    """Answer how the newest page of what the filter selects is found."""
    statement = next(read.backward(database.dialect, parse(text), None, 50))
    assert isinstance(statement, Statement)
    return database.plan(statement.query.text, **statement.params)


@pytest.mark.parametrize(
    "index",
    [
        pytest.param("outbox_events_entity", marks=pytest.mark.requirement("CAN-14")),
        pytest.param("outbox_events_correlation", marks=pytest.mark.requirement("CAN-15")),
        # Newest is by position here: the order of the log, which no clock decides.
        pytest.param("outbox_events_type", marks=pytest.mark.requirement("CAN-16")),
        "outbox_events_actor",
        "outbox_events_causation",
        pytest.param("outbox_events_action", marks=pytest.mark.requirement("EKB-13")),
    ],
)
def test_a_query_of_the_log_uses_its_index(database: Database, index: str) -> None:
    fill_log(database)
    query = LOG_QUERIES[index].replace("<cause>", CAUSE).replace("<action>", ACTION)
    event_id = "event_id::text" if database.is_postgres else "event_id"

    plan = database.plan(query.replace("<event_id>", event_id))

    assert index in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize("index", FILTERS)
def test_a_read_uses_the_index_of_its_filter(postgres_url: str, index: str) -> None:
    with create(postgres_url) as database:
        fill_log(database)

        plan = plan_of_read(database, FILTERS[index])

    assert index in plan


@pytest.mark.parametrize("index", FILTERS)
def test_a_read_walks_the_log_by_position_on_sqlite(sqlite_path: Path, index: str) -> None:
    # The schema page says so: SQLite plans without looking at what the filter leaves out.
    with create(f"sqlite:///{sqlite_path}") as database:
        fill_log(database)

        plan = plan_of_read(database, FILTERS[index])

    assert plan == "SEARCH outbox_events USING INTEGER PRIMARY KEY (rowid<?)"
