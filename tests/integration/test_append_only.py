"""The log accepts new events and refuses every other change, whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.fixtures.schema import REFUSED, Database, connect, create, event, new_event

if TYPE_CHECKING:
    from collections.abc import Iterator

APPEND_ONLY = "append-only"
FULL = {
    "entity_type": "order",
    "entity_id": "o-1",
    "entity_version": 1,
    "idempotency_key": "once",
}


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with create(database_url) as opened:
        opened.insert("outbox_events", **new_event(1, **FULL))
        yield opened


@pytest.fixture
def other_session(database: Database, database_url: str) -> Iterator[Database]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    with create(postgres_url) as opened:
        opened.insert("outbox_events", **new_event(1))
        yield opened


@pytest.fixture
def sqlite(sqlite_path: object) -> Iterator[Database]:
    with create(f"sqlite:///{sqlite_path}") as opened:
        opened.insert("outbox_events", **new_event(1, **FULL))
        yield opened


@pytest.mark.requirement(
    "OO-EM-03", "OO-EM-06", "OO-EM-10", "OO-EM-14", "OO-EM-45", "OO-EX-16", "OO-TM-02"
)
@pytest.mark.requirement("OO-V1-01", "OO-V1-02", "NEV-03", "CAN-03", "CAN-88", "CAN-93")
def test_no_column_of_an_event_can_be_updated(database: Database) -> None:
    before = database.rows("outbox_events")

    for column in database.columns("outbox_events"):
        with pytest.raises(REFUSED, match=APPEND_ONLY):
            database.update("outbox_events", **{column: 99 if column == "position" else None})

    assert database.rows("outbox_events") == before


@pytest.mark.requirement("OO-TM-02", "NEV-03", "CAN-03", "CAN-93")
def test_an_event_cannot_be_deleted(database: Database) -> None:
    before = database.rows("outbox_events")

    with pytest.raises(REFUSED, match=APPEND_ONLY):
        database.run("DELETE FROM outbox_events")

    assert database.rows("outbox_events") == before


@pytest.mark.requirement("CAN-93")
def test_an_event_cannot_be_written_over_by_an_upsert(database: Database) -> None:
    before = database.rows("outbox_events")

    with pytest.raises(REFUSED, match=APPEND_ONLY):
        database.run(
            "INSERT INTO outbox_events (event_id, tenant_id, namespace, event_type,"
            " schema_version, payload, content_type, correlation_id)"
            " SELECT event_id, tenant_id, namespace, event_type, schema_version, payload,"
            " content_type, correlation_id FROM outbox_events WHERE position = 1"
            " ON CONFLICT (event_id) DO UPDATE SET event_type = 'order.changed'"
        )

    assert database.rows("outbox_events") == before


@pytest.mark.requirement("CAN-93")
def test_the_log_cannot_be_truncated(postgres: Database) -> None:
    for table in ("outbox_events", "outbox_events, outbox_deliveries", "outbox_events CASCADE"):
        with pytest.raises(psycopg.errors.RestrictViolation, match=APPEND_ONLY):
            postgres.run(f"TRUNCATE {table}")

    assert len(postgres.rows("outbox_events")) == 1


@pytest.mark.requirement("CAN-93")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE outbox_events SET payload = '[]'",
        "DELETE FROM outbox_events",
        "TRUNCATE outbox_events",
    ],
)
def test_a_session_that_calls_itself_a_replica_is_refused_too(
    postgres: Database, change: str
) -> None:
    postgres.run("SET session_replication_role = replica")

    with pytest.raises(psycopg.errors.RestrictViolation, match=APPEND_ONLY):
        postgres.run(change)


@pytest.mark.requirement("CAN-93")
@pytest.mark.parametrize(
    "same",
    [
        {"position": 1},
        {"event_id": event(1)["event_id"]},
        {"idempotency_key": FULL["idempotency_key"]},
        {name: FULL[name] for name in ("entity_type", "entity_id", "entity_version")},
    ],
    ids=" ".join,
)
def test_an_event_cannot_be_replaced_through_any_of_its_keys(
    sqlite: Database, same: dict[str, object]
) -> None:
    before = sqlite.rows("outbox_events")
    values = {**event(2), **same}

    with pytest.raises(REFUSED, match=APPEND_ONLY):
        sqlite.insert("outbox_events", verb="INSERT OR REPLACE", **values)

    assert sqlite.rows("outbox_events") == before


def test_an_event_cannot_be_replaced_by_an_update(sqlite: Database) -> None:
    sqlite.insert("outbox_events", **event(2))

    with pytest.raises(REFUSED, match=APPEND_ONLY):
        sqlite.run("UPDATE OR REPLACE outbox_events SET position = 1 WHERE position = 2")

    assert len(sqlite.rows("outbox_events")) == 2


def test_the_pruning_door_opens_up_to_where_the_log_is_pruned(database: Database) -> None:
    for position in (2, 3):
        database.insert("outbox_events", **event(position))

    database.update("outbox_log", settled=3, pruned_to=2, pruning=True)
    with pytest.raises(REFUSED, match=APPEND_ONLY):
        database.run("DELETE FROM outbox_events WHERE position = 3")
    database.run("DELETE FROM outbox_events WHERE position <= 2")

    assert [row["position"] for row in database.rows("outbox_events")] == [3]


def test_what_is_pruned_stays_until_the_door_is_opened(database: Database) -> None:
    database.update("outbox_log", settled=1, pruned_to=1)

    with pytest.raises(REFUSED, match=APPEND_ONLY):
        database.run("DELETE FROM outbox_events")


def test_an_open_door_allows_no_update(database: Database) -> None:
    database.update("outbox_log", settled=1, pruned_to=1, pruning=True)

    with pytest.raises(REFUSED, match=APPEND_ONLY):
        database.run("UPDATE outbox_events SET payload = '[]'")


def test_a_door_that_another_session_opened_is_closed_for_this_one(
    database: Database, other_session: Database
) -> None:
    database.run("BEGIN")
    database.update("outbox_log", settled=1, pruned_to=1, pruning=True)
    if not database.is_postgres:
        other_session.run("PRAGMA busy_timeout = 0")

    with pytest.raises(REFUSED, match=APPEND_ONLY if database.is_postgres else "locked"):
        other_session.run("DELETE FROM outbox_events")

    database.run("ROLLBACK")
    assert len(database.rows("outbox_events")) == 1


def test_a_door_closes_with_the_transaction_that_gave_up(
    database: Database, other_session: Database
) -> None:
    database.run("BEGIN")
    database.update("outbox_log", settled=1, pruned_to=1, pruning=True)
    database.run("DELETE FROM outbox_events")
    database.run("ROLLBACK")

    for session in (database, other_session):
        with pytest.raises(REFUSED, match=APPEND_ONLY):
            session.run("DELETE FROM outbox_events")


def test_nothing_is_pruned_that_is_not_settled(database: Database) -> None:
    with pytest.raises(REFUSED, match="outbox_log_pruned_is_settled"):
        database.update("outbox_log", settled=1, pruned_to=2)


def test_the_log_has_one_row_about_itself(database: Database) -> None:
    with pytest.raises(REFUSED, match="outbox_log_one_row"):
        database.insert("outbox_log", id=2)


def test_a_guard_finds_the_log_of_its_own_schema(postgres: Database) -> None:
    postgres.run("CREATE SCHEMA elsewhere")
    postgres.run("CREATE TABLE elsewhere.outbox_log AS SELECT TRUE AS pruning, 99 AS pruned_to")
    postgres.run("SET search_path = elsewhere, public")

    with pytest.raises(psycopg.errors.RestrictViolation, match=APPEND_ONLY):
        postgres.run("DELETE FROM public.outbox_events")


def test_a_position_below_one_is_refused(database: Database) -> None:
    for position in (0, -1):
        with pytest.raises(REFUSED, match="outbox_events_position_counts"):
            database.insert("outbox_events", **event(7, position=position))


@pytest.mark.requirement("CAN-67")
def test_a_position_is_not_given_again_when_its_event_was_pruned(database: Database) -> None:
    database.insert("outbox_events", **new_event(2))
    (last,) = database.run("SELECT max(position) AS position FROM outbox_events")
    database.update("outbox_log", settled=99, pruned_to=99, pruning=True)
    database.run("DELETE FROM outbox_events")

    database.insert("outbox_events", **new_event(3))

    assert database.rows("outbox_events")[0]["position"] > last["position"]
