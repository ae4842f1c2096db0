"""On PostgreSQL a writer holds its transaction id before it draws a position.

Else a reader could not tell a position in flight from one that was rolled back: whoever looks
for older transactions would find none.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest

from tests.fixtures.schema import Database, Row, create, new_event

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ", ".join(new_event(1))
PARTS = "gen_random_uuid(), '', 'shop', 'order.placed', 1, '{}', 'application/json', ''"
FORMS = {
    "one row": "INSERT INTO outbox_events (<columns>) VALUES (<parts>)",
    "rows": "INSERT INTO outbox_events (<columns>) VALUES (<parts>), (<parts>)",
    "rows with DEFAULT": "INSERT INTO outbox_events (position, <columns>)"
    " VALUES (DEFAULT, <parts>), (DEFAULT, <parts>)",
    "a query": "INSERT INTO outbox_events (<columns>) SELECT <parts> FROM generate_series(1, 2)",
    "a copy": "COPY outbox_events (<columns>) FROM STDIN",
}
COPIED = "".join(
    f"{UUID(int=number)}\t\tshop\torder.placed\t1\t{{}}\tapplication/json\t\n" for number in (1, 2)
)

# A writer holds lock 1 until it pauses, and then waits for lock 2.
PAUSES = (
    """
    CREATE FUNCTION pause() RETURNS uuid LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_unlock_all();
        PERFORM pg_advisory_xact_lock_shared(2);
        RETURN gen_random_uuid();
    END
    $$
    """,
    """
    CREATE FUNCTION pause_before_insert() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pause();
        RETURN new;
    END
    $$
    """,
    """
    CREATE TRIGGER pause BEFORE INSERT ON outbox_events
    FOR EACH ROW EXECUTE FUNCTION pause_before_insert()
    """,
)


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    with create(postgres_url) as opened:
        for statement in PAUSES:
            opened.run(statement)
        yield opened


def write(connection: psycopg.Connection[Any], statement: str) -> None:
    with connection.cursor() as cursor:
        if statement.startswith("COPY"):
            with cursor.copy(statement.encode()) as copy:
                copy.write(COPIED)
        else:
            cursor.execute(statement.encode())


def paused_writer(observer: Database, url: str, statement: str) -> Row:
    """Answer how a writer looks from outside when it has drawn a position and not yet committed.

    Forty positions are drawn before: every 32nd makes a transaction take its id by itself.
    """
    observer.run("SELECT nextval('outbox_events_position_seq') FROM generate_series(1, 40)")
    (warm,) = observer.run("SELECT last_value FROM outbox_events_position_seq")
    observer.run("SELECT pg_advisory_lock(2)")
    with psycopg.connect(url) as writer, ThreadPoolExecutor(1) as threads:
        writer.execute("SELECT pg_advisory_lock(1)")
        writer.commit()
        writing = threads.submit(write, writer, statement)
        observer.run("SELECT pg_advisory_lock(1)")
        (seen,) = observer.run(
            "SELECT a.backend_xid::text AS xid,"
            " pg_snapshot_xmin(pg_current_snapshot())::xid::text AS xmin,"
            " (SELECT last_value FROM outbox_events_position_seq) AS last_value"
            " FROM pg_stat_activity AS a WHERE a.pid = :pid",
            pid=writer.info.backend_pid,
        )
        observer.run("SELECT pg_advisory_unlock_all()")
        writing.result()
        writer.rollback()
    assert seen["last_value"] > warm["last_value"]
    return seen


def statement_of(form: str) -> str:
    return FORMS[form].replace("<columns>", COLUMNS).replace("<parts>", PARTS)


@pytest.mark.parametrize("form", FORMS)
def test_a_writer_holds_its_transaction_id_before_it_draws_a_position(
    postgres: Database, postgres_url: str, form: str
) -> None:
    seen = paused_writer(postgres, postgres_url, statement_of(form))

    assert seen["xid"] is not None
    assert int(seen["xmin"]) <= int(seen["xid"])


@pytest.mark.parametrize("form", FORMS)
def test_a_plain_default_would_draw_a_position_without_a_transaction_id(
    postgres: Database, postgres_url: str, form: str
) -> None:
    postgres.run(
        "ALTER TABLE outbox_events ALTER COLUMN position"
        " SET DEFAULT nextval('outbox_events_position_seq')"
    )

    # A checkpoint in between makes the sequence take an id after all, so one try may mislead.
    seen = [paused_writer(postgres, postgres_url, statement_of(form)) for _ in range(2)]

    assert None in [writer["xid"] for writer in seen]


def test_a_column_of_transaction_ids_in_front_would_not_help(
    postgres: Database, postgres_url: str
) -> None:
    postgres.run(
        "CREATE TABLE log_with_ids (xid xid8 DEFAULT pg_current_xact_id(),"
        " position bigint DEFAULT nextval('outbox_events_position_seq'), event_id uuid)"
    )
    statement = (
        "INSERT INTO log_with_ids (position, event_id)"
        " VALUES (DEFAULT, pause()), (DEFAULT, pause())"
    )

    seen = [paused_writer(postgres, postgres_url, statement) for _ in range(2)]

    assert None in [writer["xid"] for writer in seen]


def test_the_sequence_of_positions_keeps_none_in_store(postgres: Database) -> None:
    (sequence,) = postgres.run(
        "SELECT cache_size, increment_by FROM pg_sequences"
        " WHERE sequencename = 'outbox_events_position_seq'"
    )

    assert sequence == {"cache_size": 1, "increment_by": 1}
