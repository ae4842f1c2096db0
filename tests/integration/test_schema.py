"""What the tables themselves hold to, whoever writes to them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING
from uuid import UUID

import psycopg
import pytest

from outrider.sql.dialects import dialect_named
from tests.fixtures.schema import (
    CLAIM,
    LATER,
    NEW_TOKEN,
    NO_CLAIM,
    NOW,
    REFUSED,
    TOKEN,
    Database,
    Row,
    batch,
    connect,
    create,
    delivery,
    event,
    new_event,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

TOO_LONG = "é" * 128  # 256 bytes
FITS = "é" * 127 + "x"

SUBSCRIPTION: Row = {"name": "billing", "patterns": '["order.*"]', "target": "handler"}
ENDPOINT: Row = {
    "subscription": "webhooks",
    "recipient": "shop-1",
    "url": "https://shop.example/hooks",
    "secret": "whsec_b3V0cmlkZXI=",
}
SNAPSHOT: Row = {"name": "totals", "position": 7, "payload": "{}"}
SEAL: Row = {
    "seal_number": 1,
    "epoch": 1,
    "first_position": 1,
    "last_position": 10,
    "event_count": 9,
    "digest": bytes(32),
}
OPERATION: Row = {"operation_id": TOKEN, "action": "retry", "requested_by": "anna"}
ATTEMPT: Row = {
    "subscription": "billing",
    "position": 1,
    "attempt": 1,
    "outcome": "failed",
    "started_at": NOW,
}
RELAY: Row = {"relay": "relay-1", "host": "host", "process_id": 4242, "version": "0.1.0"}
ROLLUP: Row = {"minute_at": NOW, "metric": "published", "total": 1}

GOOD: list[tuple[str, Row]] = [
    ("outbox_subscriptions", SUBSCRIPTION),
    ("outbox_subscriptions", {**SUBSCRIPTION, "patterns": "[]", "name": FITS}),
    ("outbox_subscriptions", {**SUBSCRIPTION, "paused_by": "anna", "paused_at": NOW}),
    ("outbox_bookmarks", {"subscription": "billing"}),
    (
        "outbox_bookmarks",
        {"subscription": "a", "owner": "r", "token": TOKEN, "lease_until": LATER},
    ),
    ("outbox_batches", batch(1, 1, {1})),
    ("outbox_batches", batch(10, 8201, {10, 8201}, done={10}, attempts=3, releases=3)),
    ("outbox_batches", batch(1, 9, set(), published_at=NOW)),
    ("outbox_deliveries", delivery("PENDING", attempts=0)),
    ("outbox_deliveries", delivery("PENDING", parked=True, ordering_key="k", attempts=0)),
    ("outbox_deliveries", delivery("CLAIMED", recipient=FITS, max_attempts=2**31 - 1)),
    ("outbox_deliveries", delivery("PUBLISHED", releases=1, crashes=1)),
    ("outbox_deliveries", delivery("DEAD")),
    ("outbox_deliveries", delivery("DEAD", attempts=0)),
    (
        "outbox_gaps",
        {"subscription": "billing", "first_position": 1, "last_position": 100_000},
    ),
    ("outbox_attempts", ATTEMPT),
    ("outbox_attempts", {**ATTEMPT, "outcome": "unknown", "duration_us": 0}),
    ("outbox_endpoints", ENDPOINT),
    (
        "outbox_endpoints",
        {**ENDPOINT, "previous_secret": "whsec_b2xk", "previous_secret_until": LATER},
    ),
    ("outbox_snapshots", SNAPSHOT),
    ("outbox_snapshots", {**SNAPSHOT, "payload": None, "payload_bytes": b""}),
    ("outbox_inbox", {"consumer": "billing", "message_id": FITS, "result": "null"}),
    ("outbox_seals", SEAL),
    ("outbox_seals", {**SEAL, "seal_number": 2, "previous_digest": bytes(32)}),
    ("outbox_operations", OPERATION),
    ("outbox_operations", {**OPERATION, "state": "DONE", "finished_at": NOW}),
    ("outbox_keys", {"tenant_id": "", "data_subject": "anna", "key": b"key"}),
    ("outbox_keys", {"tenant_id": "", "data_subject": "anna", "erased_at": NOW}),
    ("outbox_relays", RELAY),
    ("outbox_rollups", ROLLUP),
]

BAD: list[tuple[str, str, Row, list[Row]]] = [
    (
        "outbox_events",
        "one_payload",
        event(1),
        [{"payload": None}, {"payload_bytes": b""}],
    ),
    ("outbox_events", "not_its_own_cause", event(1), [{"causation_id": UUID(int=1)}]),
    (
        "outbox_events",
        "action_whole",
        event(1),
        [{"action_id": TOKEN}, {"action_name": "PlaceOrder"}],
    ),
    (
        "outbox_subscriptions",
        "name_fits",
        SUBSCRIPTION,
        [{"name": ""}, {"name": TOO_LONG}],
    ),
    (
        "outbox_subscriptions",
        "patterns_are_an_array",
        SUBSCRIPTION,
        [{"patterns": '"order.*"'}, {"patterns": "{}"}],
    ),
    (
        "outbox_subscriptions",
        "settings_are_an_object",
        SUBSCRIPTION,
        [{"settings": "[]"}, {"settings": "1"}],
    ),
    (
        "outbox_subscriptions",
        "numbers",
        SUBSCRIPTION,
        [{"version": 0}, {"generation": -1}, {"start_position": -1}],
    ),
    (
        "outbox_subscriptions",
        "pause_whole",
        SUBSCRIPTION,
        [{"paused_by": "anna"}, {"paused_at": NOW}],
    ),
    (
        "outbox_bookmarks",
        "numbers",
        {"subscription": "billing"},
        [{"position": -1}, {"generation": -1}, {"partition_number": -1}],
    ),
    (
        "outbox_bookmarks",
        "owner_whole",
        {"subscription": "billing", "owner": "r", "token": TOKEN, "lease_until": LATER},
        [{"owner": None}, {"token": None}, {"lease_until": None}],
    ),
    (
        "outbox_batches",
        "numbers",
        batch(1, 2, {1}),
        [{"generation": -1}, {"partition_number": -1}],
    ),
    (
        "outbox_batches",
        "span",
        batch(1, 2, {1}),
        [
            {"first_position": 0, "last_position": 1},
            {"first_position": 5, "last_position": 4},
            {"last_position": 8193, "members": bytes(1025), "done": bytes(1025)},
        ],
    ),
    (
        "outbox_batches",
        "state",
        {**batch(1, 2, set()), **NO_CLAIM},
        [{"state": "PENDING"}, {"state": "DEAD"}, {"state": ""}],
    ),
    (
        "outbox_batches",
        "attempts",
        batch(1, 2, {1}),
        [{"attempts": 0}, {"releases": 2}, {"releases": -1}],
    ),
    ("outbox_batches", "claimed_by", batch(1, 2, {1}), [{"claimed_by": None}]),
    ("outbox_batches", "claimed_at", batch(1, 2, {1}), [{"claimed_at": None}]),
    ("outbox_batches", "lease", batch(1, 2, {1}), [{"lease_until": None}]),
    ("outbox_batches", "token", batch(1, 2, {1}), [{"token": None}]),
    ("outbox_batches", "published", batch(1, 2, {1}), [{"published_at": NOW}]),
    (
        "outbox_batches",
        "claimed_by",
        batch(1, 2, {1}, published_at=NOW),
        [{"claimed_by": "relay-1"}],
    ),
    ("outbox_batches", "claimed_at", batch(1, 2, {1}, published_at=NOW), [{"claimed_at": NOW}]),
    ("outbox_batches", "lease", batch(1, 2, {1}, published_at=NOW), [{"lease_until": NOW}]),
    ("outbox_batches", "token", batch(1, 2, {1}, published_at=NOW), [{"token": TOKEN}]),
    (
        "outbox_batches",
        "published",
        {**batch(1, 2, {1}, published_at=NOW), "published_at": None},
        [{}],
    ),
    (
        "outbox_batches",
        "bitmaps_fit",
        batch(1, 9, {1}),
        [{"members": bytes(1)}, {"members": bytes(3)}, {"done": b""}, {"done": bytes(3)}],
    ),
    (
        "outbox_batches",
        "published_is_done",
        batch(1, 9, {1}, published_at=NOW),
        [{"done": bytes(2)}],
    ),
    (
        "outbox_deliveries",
        "numbers",
        delivery(),
        [{"position": 0}, {"generation": -1}],
    ),
    (
        "outbox_deliveries",
        "keys_fit",
        delivery(),
        [
            {name: TOO_LONG}
            for name in ("subscription", "recipient", "idempotency_key", "ordering_key")
        ],
    ),
    (
        "outbox_deliveries",
        "state",
        delivery(),
        [{"state": "pending"}, {"state": "FAILED"}, {"state": ""}],
    ),
    (
        "outbox_deliveries",
        "attempts",
        delivery(),
        [{"attempts": -1}, {"releases": 2}, {"releases": -1}, {"crashes": 2}, {"crashes": -1}],
    ),
    ("outbox_deliveries", "claim_is_an_attempt", delivery("CLAIMED"), [{"attempts": 0}]),
    ("outbox_deliveries", "claim_is_an_attempt", delivery("PUBLISHED"), [{"attempts": 0}]),
    ("outbox_deliveries", "max_attempts", delivery(), [{"max_attempts": 0}, {"max_attempts": -1}]),
    *(
        ("outbox_deliveries", "parked", delivery(state), [{"parked": True}])
        for state in ("CLAIMED", "PUBLISHED", "DEAD")
    ),
    *(
        ("outbox_deliveries", constraint, delivery("CLAIMED"), [{column: None}])
        for constraint, column in (
            ("claimed_by", "claimed_by"),
            ("claimed_at", "claimed_at"),
            ("lease", "lease_until"),
            ("token", "token"),
        )
    ),
    *(
        ("outbox_deliveries", constraint, delivery(state), [{column: CLAIM[column]}])
        for constraint, column in (
            ("claimed_by", "claimed_by"),
            ("claimed_at", "claimed_at"),
            ("lease", "lease_until"),
            ("token", "token"),
        )
        for state in ("PENDING", "PUBLISHED", "DEAD")
    ),
    ("outbox_deliveries", "published", delivery("PUBLISHED"), [{"published_at": None}]),
    *(
        ("outbox_deliveries", "published", delivery(state), [{"published_at": NOW}])
        for state in ("PENDING", "CLAIMED", "DEAD")
    ),
    (
        "outbox_deliveries",
        "dead_has_a_reason",
        delivery("DEAD"),
        [{"reason": None}, {"reason": ""}],
    ),
    (
        "outbox_gaps",
        "span",
        {"subscription": "billing", "first_position": 2, "last_position": 2},
        [{"first_position": 0}, {"last_position": 1}],
    ),
    (
        "outbox_gaps",
        "numbers",
        {"subscription": "billing", "first_position": 2, "last_position": 2},
        [{"partition_number": -1}],
    ),
    (
        "outbox_attempts",
        "numbers",
        ATTEMPT,
        [{"attempt": 0}, {"position": 0}, {"generation": -1}],
    ),
    ("outbox_attempts", "outcome", ATTEMPT, [{"outcome": "FAILED"}, {"outcome": "retried"}]),
    ("outbox_attempts", "duration", ATTEMPT, [{"duration_us": -1}]),
    (
        "outbox_endpoints",
        "keys_fit",
        ENDPOINT,
        [{"recipient": ""}, {"recipient": TOO_LONG}, {"tenant_id": TOO_LONG}],
    ),
    ("outbox_endpoints", "patterns_are_an_array", ENDPOINT, [{"patterns": "{}"}]),
    ("outbox_endpoints", "settings_are_an_object", ENDPOINT, [{"settings": "[]"}]),
    (
        "outbox_endpoints",
        "rotation_whole",
        ENDPOINT,
        [{"previous_secret": "whsec_b2xk"}, {"previous_secret_until": NOW}],
    ),
    (
        "outbox_endpoints",
        "disabled_whole",
        ENDPOINT,
        [{"disabled_at": NOW}, {"disabled_reason": "gone"}],
    ),
    (
        "outbox_snapshots",
        "keys_fit",
        SNAPSHOT,
        [
            {"name": ""},
            {"name": TOO_LONG},
            {"tenant_id": TOO_LONG},
            {"entity_type": TOO_LONG},
            {"entity_id": TOO_LONG},
        ],
    ),
    ("outbox_snapshots", "numbers", SNAPSHOT, [{"position": -1}, {"schema_version": 0}]),
    ("outbox_snapshots", "one_payload", SNAPSHOT, [{"payload": None}, {"payload_bytes": b""}]),
    (
        "outbox_inbox",
        "keys_fit",
        {"consumer": "billing", "message_id": "1"},
        [{"consumer": ""}, {"consumer": TOO_LONG}, {"message_id": ""}, {"message_id": TOO_LONG}],
    ),
    (
        "outbox_seals",
        "span",
        SEAL,
        [
            {"seal_number": 0, "previous_digest": bytes(32)},
            {"first_position": 0},
            {"last_position": 0},
            {"event_count": 11},
            {"event_count": -1},
        ],
    ),
    (
        "outbox_seals",
        "digests",
        {**SEAL, "seal_number": 2, "previous_digest": bytes(32)},
        [{"digest": bytes(31)}, {"previous_digest": b""}],
    ),
    ("outbox_seals", "chain", SEAL, [{"seal_number": 2}, {"previous_digest": bytes(32)}]),
    (
        "outbox_operations",
        "keys_fit",
        OPERATION,
        [{"requested_by": ""}, {"idempotency_key": ""}, {"idempotency_key": TOO_LONG}],
    ),
    ("outbox_operations", "state", {**OPERATION, "finished_at": NOW}, [{"state": "PENDING"}]),
    (
        "outbox_operations",
        "finished",
        OPERATION,
        [{"finished_at": NOW}, {"state": "DONE"}, {"state": "RUNNING", "finished_at": NOW}],
    ),
    (
        "outbox_operations",
        "counts",
        OPERATION,
        [{"total": -1}, {"processed": -1}, {"failed": 1}],
    ),
    (
        "outbox_operations",
        "owner_whole",
        {**OPERATION, "owner": "r", "token": TOKEN, "lease_until": LATER},
        [{"owner": None}, {"token": None}, {"lease_until": None}],
    ),
    (
        "outbox_keys",
        "keys_fit",
        {"tenant_id": "", "data_subject": "anna", "key": b"key"},
        [{"data_subject": ""}, {"data_subject": TOO_LONG}, {"tenant_id": TOO_LONG}],
    ),
    (
        "outbox_keys",
        "erased",
        {"tenant_id": "", "data_subject": "anna", "key": b"key"},
        [{"key": None}, {"erased_at": NOW}],
    ),
    ("outbox_relays", "name_fits", RELAY, [{"relay": ""}, {"relay": TOO_LONG}]),
    (
        "outbox_rollups",
        "keys_fit",
        ROLLUP,
        [{"metric": ""}, {"metric": TOO_LONG}, {"subscription": TOO_LONG}],
    ),
]

NASTY_KEYS = [
    *("Order-1", "order-1", "ORDER-1", "order-1 ", "order-1  ", " order-1", "order-1\t"),
    *("order-1\n", "order-1\u00a0", "order-1\u200b", "order\u20111"),
    *("é", "e\u0301", "e", "É", "ß", "ss", "ẞ", "ﬁ", "fi", "I", "i", "İ", "\u0131"),
    *("Å", "\u212b", "\uff10", "0", "Ω", "\u2126", "漢", "😀", "😁"),
    *("%", "_", "*", "\\", "'", "''", '"', "NULL", ":name", "%s", "{0}", "'; DROP TABLE x;--"),
]

KEYED: list[tuple[str, str, Row]] = [
    ("outbox_subscriptions", "name", SUBSCRIPTION),
    ("outbox_bookmarks", "subscription", {}),
    ("outbox_deliveries", "recipient", delivery()),
    ("outbox_endpoints", "recipient", ENDPOINT),
    ("outbox_inbox", "message_id", {"consumer": "billing"}),
    ("outbox_inbox", "consumer", {"message_id": "1"}),
    ("outbox_keys", "data_subject", {"tenant_id": "", "key": b"key"}),
    ("outbox_keys", "tenant_id", {"data_subject": "anna", "key": b"key"}),
]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with create(database_url) as opened:
        yield opened


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    with create(postgres_url) as opened:
        yield opened


# The files


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_the_first_migration_is_the_schema(dialect: str) -> None:
    folder = resources.files("outrider.sql") / dialect

    first = (folder / "migrations" / "0001_initial.sql").read_text(encoding="utf-8")

    assert first == (folder / "schema.sql").read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_a_script_falls_into_whole_statements(dialect: str) -> None:
    for statement in dialect_named(dialect).script("schema.sql"):
        lines = [line for line in statement.splitlines() if not line.startswith("--")]
        code = "\n".join(lines).strip().splitlines()
        assert code[0].split()[0] in {"CREATE", "INSERT", "ALTER"}
        assert "" not in code
        assert "/*" not in statement


def test_the_tables_can_be_in_a_schema_of_their_own(postgres_url: str) -> None:
    dialect = dialect_named("postgres", "audit")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for statement in (*dialect.prelude, *dialect.script("schema.sql")):
            connection.execute(statement.encode())
        database = Database(dialect, connection)
        database.insert("audit.outbox_events", **new_event(1))
        database.insert("audit.outbox_subscriptions", **SUBSCRIPTION)
        database.insert("audit.outbox_bookmarks", subscription="billing")

        records = database.rows("audit.outbox_status")
        schemas = database.run(
            "SELECT DISTINCT n.nspname FROM pg_class AS c JOIN pg_namespace AS n"
            " ON n.oid = c.relnamespace WHERE c.relname LIKE 'outbox%'"
        )

    assert [record["state"] for record in records] == ["PENDING"]
    assert schemas == [{"nspname": "audit"}]


def test_two_schemas_of_one_database_do_not_see_each_other(postgres_url: str) -> None:
    with create(postgres_url) as database:
        database.run("CREATE SCHEMA audit")
        for statement in dialect_named("postgres", "audit").script("schema.sql"):
            database.run(statement)
        database.insert("outbox_events", **new_event(1))
        database.run("UPDATE outbox_log SET settled = 1, pruned_to = 1, pruning = TRUE")

        database.insert("audit.outbox_events", **new_event(1))
        with pytest.raises(REFUSED, match="append-only"):
            database.run("DELETE FROM audit.outbox_events")
        database.run("DELETE FROM public.outbox_events")

        assert len(database.rows("audit.outbox_events")) == 1


def test_the_tables_can_be_in_an_attached_database(sqlite_path: object) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("ATTACH DATABASE ? AS audit", [str(sqlite_path)])
        database = Database(dialect_named("sqlite", "audit"), connection)
        for statement in database.dialect.script("schema.sql"):
            database.run(statement)
        database.insert("audit.outbox_events", **new_event(1))
        database.insert("audit.outbox_subscriptions", **SUBSCRIPTION)
        database.insert("audit.outbox_bookmarks", subscription="billing")
        with pytest.raises(REFUSED, match="append-only"):
            database.run("DELETE FROM audit.outbox_events")
        in_main = database.run("SELECT name FROM main.sqlite_schema")

    with connect(f"sqlite:///{sqlite_path}") as database:
        assert [record["state"] for record in database.rows("outbox_status")] == ["PENDING"]
    assert in_main == []


def test_both_databases_have_the_same_tables_and_columns(
    sqlite_path: object, postgres_url: str
) -> None:
    with create(f"sqlite:///{sqlite_path}") as sqlite, create(postgres_url) as postgres:
        tables = [
            row["name"]
            for row in sqlite.run(
                "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
                " AND name LIKE 'outbox%' ORDER BY name"
            )
        ]
        in_sqlite = [
            (table, row["name"], bool(row["notnull"] or row["pk"]))
            for table in tables
            for row in sqlite.run(f"PRAGMA table_info({table})")
        ]
        in_postgres = [
            (row["table_name"], row["column_name"], row["is_nullable"] == "NO")
            for row in postgres.run(
                "SELECT table_name, column_name, is_nullable FROM information_schema.columns"
                " WHERE table_schema = 'public'"
                ' ORDER BY table_name COLLATE "C", ordinal_position'
            )
        ]

    assert in_sqlite == in_postgres


# Rows


@pytest.mark.parametrize(("table", "row"), GOOD)
def test_a_whole_row_is_accepted(database: Database, table: str, row: Row) -> None:
    database.insert(table, **row)

    (kept,) = database.rows(table)
    assert {name: kept[name] for name in row} == {
        name: database.stored(value) for name, value in row.items()
    }


@pytest.mark.requirement("OO-EM-15", "OO-EX-22", "NEV-08", "NEV-09", "NEV-10", "NEV-16")
@pytest.mark.requirement("CAN-11")
def test_an_event_keeps_every_part_exactly(database: Database) -> None:
    parts: Row = {
        **new_event(1),
        "tenant_id": "acme",
        "schema_version": 3,
        "entity_type": "order",
        "entity_id": "o-1",
        "entity_version": 7,
        "ordering_key": "o-1",
        "partition_key": "eu",
        "payload": '{"b": 1, "a": 1E5, "a": -0, "text": "\\u0000"}',
        "headers": '{"X-Trace": "1",  "x": ""}',
        "metadata": "{ }",
        "causation_id": TOKEN,
        "request_id": "r-1",
        "idempotency_key": "once",
        "body_digest": "digest",
        "actor_type": "user",
        "actor_id": "u-1",
        "actor_name": "Anna",
        "actor_metadata": '{"ip": "192.0.2.1"}',
        "source": "admin",
        "action_id": NEW_TOKEN,
        "action_name": "PlaceOrder",
        "action_params": "[1]",
        "action_started_at": NOW,
        "action_completed_at": LATER,
        "data_subject": "anna",
        "keep_seconds": 3600,
        "occurred_at": NOW,
        "available_at": LATER,
    }

    database.insert("outbox_events", **parts)

    (kept,) = database.rows("outbox_events")
    assert set(kept) - set(parts) == {"position", "payload_bytes", "created_at"}
    assert {name: kept[name] for name in parts} == {
        name: database.stored(value) for name, value in parts.items()
    }


@pytest.mark.requirement("OO-EM-01", "OO-EX-01", "EKB-03", "EKB-11", "CAN-07", "CAN-35")
@pytest.mark.requirement("CAN-10", "CAN-41")
@pytest.mark.parametrize(
    "part",
    [
        *("event_id", "event_type", "payload", "created_at", "occurred_at", "tenant_id"),
        *("namespace", "schema_version", "content_type", "correlation_id"),
    ],
)
def test_an_event_without_one_of_its_parts_is_refused(database: Database, part: str) -> None:
    with pytest.raises(REFUSED, match=part):
        database.insert("outbox_events", **new_event(1, **{part: None}))

    assert database.rows("outbox_events") == []


@pytest.mark.requirement("OO-EM-13", "CAN-12", "CAN-37")
def test_the_database_says_when_an_event_was_created(database: Database) -> None:
    before = datetime.now(UTC)

    database.insert("outbox_events", **new_event(1))

    (kept,) = database.rows("outbox_events")
    # SQLite's clock counts milliseconds.
    earliest = before.replace(microsecond=before.microsecond // 1000 * 1000)
    for column in ("created_at", "occurred_at"):
        assert database.stored(earliest) <= kept[column] <= database.stored(datetime.now(UTC))


@pytest.mark.requirement("OO-EM-02", "CAN-67")
@pytest.mark.parametrize(
    "same",
    [
        {"position": 1},
        {"event_id": UUID(int=1)},
        {"tenant_id": "acme", "idempotency_key": "once"},
        {"tenant_id": "acme", "entity_type": "order", "entity_id": "1", "entity_version": 1},
    ],
    ids=" ".join,
)
def test_what_identifies_an_event_is_unique(database: Database, same: Row) -> None:
    database.insert("outbox_events", **{**event(1), **same})

    with pytest.raises(REFUSED):
        database.insert("outbox_events", **{**event(2), **same})

    assert len(database.rows("outbox_events")) == 1


def test_a_key_of_another_tenant_is_another_key(database: Database) -> None:
    for number, tenant in enumerate(("", "acme", "ACME"), start=1):
        database.insert(
            "outbox_events",
            **new_event(
                number,
                tenant_id=tenant,
                idempotency_key="once",
                entity_type="order",
                entity_id="1",
                entity_version=1,
            ),
        )

    assert len(database.rows("outbox_events")) == 3


@pytest.mark.requirement("CAN-13", "CAN-65", "CAN-66")
def test_the_database_counts_positions_up(database: Database) -> None:
    for number in range(1, 6):
        database.insert("outbox_events", **new_event(number))

    rows = database.run("SELECT position, event_id FROM outbox_events ORDER BY position")
    assert [row["event_id"] for row in rows] == [
        database.stored(UUID(int=number)) for number in range(1, 6)
    ]


@pytest.mark.requirement("NEV-22", "NEV-23", "NEV-24", "NEV-25", "CAN-39", "OO-TM-26")
@pytest.mark.requirement("OO-EX-06", "OO-EX-07", "OO-ST-45", "OO-EM-31")
def test_a_delivery_begins_due_and_unattempted_and_keeps_what_happens(
    database: Database,
) -> None:
    database.insert("outbox_deliveries", subscription="mail", position=1, max_attempts=4)
    (begun,) = database.rows("outbox_deliveries")

    database.update("outbox_deliveries", **CLAIM, state="CLAIMED", attempts=1)
    (claimed,) = database.rows("outbox_deliveries")
    database.update(
        "outbox_deliveries", **NO_CLAIM, state="PENDING", available_at=LATER, last_error="busy"
    )
    (failed,) = database.rows("outbox_deliveries")
    database.update("outbox_deliveries", **CLAIM, state="CLAIMED", attempts=2)
    database.update(
        "outbox_deliveries",
        **NO_CLAIM,
        state="PUBLISHED",
        published_at=LATER,
        result='{"id": 7}',
    )
    (published,) = database.rows("outbox_deliveries")

    assert (begun["state"], begun["attempts"], begun["max_attempts"]) == ("PENDING", 0, 4)
    assert begun["available_at"] is not None
    assert (claimed["claimed_by"], claimed["claimed_at"]) == ("relay-1", database.stored(NOW))
    assert (failed["available_at"], failed["last_error"]) == (database.stored(LATER), "busy")
    assert (published["result"], published["last_error"]) == ('{"id": 7}', "busy")
    assert published["attempts"] == 2


@pytest.mark.requirement("OO-EM-11", "OO-EM-49", "OO-EM-50", "OO-EM-51", "OO-TM-28")
@pytest.mark.requirement("OO-EX-18", "OO-EX-19", "OO-EX-20", "OO-EX-08", "OO-EX-09")
@pytest.mark.requirement("OO-EM-38", "OO-EM-40", "OO-PL-20", "OO-PL-21", "OO-PL-26", "OO-PL-27")
@pytest.mark.parametrize(
    ("table", "constraint", "good", "variants"),
    BAD,
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_row_that_breaks_a_rule_is_refused(
    database: Database, table: str, constraint: str, good: Row, variants: list[Row]
) -> None:
    for variant in variants:
        with pytest.raises(REFUSED, match=f"{table}_{constraint}"):
            database.insert(table, **{**good, **variant})

    assert database.rows(table) == []


@pytest.mark.parametrize(
    ("table", "column", "row"),
    [
        ("outbox_subscriptions", "patterns", SUBSCRIPTION),
        ("outbox_subscriptions", "settings", SUBSCRIPTION),
        ("outbox_deliveries", "result", delivery()),
        ("outbox_deliveries", "target", delivery()),
        ("outbox_endpoints", "patterns", ENDPOINT),
        ("outbox_endpoints", "settings", ENDPOINT),
        ("outbox_snapshots", "payload", SNAPSHOT),
        ("outbox_inbox", "result", {"consumer": "billing", "message_id": "1"}),
        ("outbox_operations", "selection", OPERATION),
        ("outbox_operations", "arguments", OPERATION),
        ("outbox_relays", "details", RELAY),
    ],
)
def test_what_is_not_json_is_refused_where_json_is_kept(
    database: Database, table: str, column: str, row: Row
) -> None:
    for text in ("", "{", "[1,]", "{'a': 1}"):
        with pytest.raises(REFUSED):
            database.insert(table, **{**row, column: text})

    assert database.rows(table) == []


def test_only_a_postgres_batch_refuses_done_bits_of_no_member(postgres: Database) -> None:
    for done in ({2}, {1, 2}, {9}):
        with pytest.raises(REFUSED, match="outbox_batches_done_are_members"):
            postgres.insert("outbox_batches", **batch(1, 9, {1, 3, 8}, done=done))


@pytest.mark.parametrize(("table", "column", "row"), KEYED)
def test_keys_that_differ_in_a_byte_are_different_keys(
    database: Database, table: str, column: str, row: Row
) -> None:
    for key in NASTY_KEYS:
        database.insert(table, **{**row, column: key})

    assert [kept[column] for kept in database.rows(table)] == NASTY_KEYS
    for key in NASTY_KEYS:
        assert [kept[column] for kept in database.rows(table, **{column: key})] == [key]


@pytest.mark.parametrize(
    ("column", "row"),
    [
        ("idempotency_key", {}),
        ("tenant_id", {"idempotency_key": "once"}),
        ("entity_id", {"entity_type": "order", "entity_version": 1}),
        ("entity_type", {"entity_id": "1", "entity_version": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_of_events_that_differ_in_a_byte_are_different_keys(
    database: Database, column: str, row: Row
) -> None:
    for number, key in enumerate(NASTY_KEYS, start=1):
        database.insert("outbox_events", **new_event(number, **row, **{column: key}))
    for number, key in enumerate(NASTY_KEYS, start=1000):
        with pytest.raises(REFUSED):
            database.insert("outbox_events", **new_event(number, **row, **{column: key}))

    assert len(database.rows("outbox_events")) == len(NASTY_KEYS)
