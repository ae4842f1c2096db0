"""The lifecycle of deliveries and batches, held by the database for whoever writes."""

from __future__ import annotations

import os
from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.schema import (
    CLAIM,
    LATER,
    NEW_TOKEN,
    NO_CLAIM,
    NOW,
    REFUSED,
    Database,
    Row,
    batch,
    bits,
    create,
    delivery,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES = ("PENDING", "CLAIMED", "PUBLISHED", "DEAD")
TRANSITIONS = {
    ("PENDING", "CLAIMED"),
    ("CLAIMED", "PENDING"),
    ("CLAIMED", "PUBLISHED"),
    ("CLAIMED", "DEAD"),
}
# Not transitions: an earlier time, a renewed lease, another reason.
STAYS = {("PENDING", "PENDING"), ("CLAIMED", "CLAIMED"), ("DEAD", "DEAD")}
CLOSED: Row = {**NO_CLAIM, "state": "PUBLISHED", "published_at": NOW}


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with create(database_url) as opened:
        yield opened


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Database]:
    with create(postgres_url) as opened:
        yield opened


def changed(before: str, after: str) -> Row:
    """Answer what a well-formed update from one state to another sets."""
    values = delivery(after, attempts=2 if after == "CLAIMED" else 1)
    claim = {**CLAIM, "token": NEW_TOKEN} if after == "CLAIMED" else NO_CLAIM
    reason = {"reason": "exhausted" if after == "DEAD" else None}
    published = {"published_at": NOW if after == "PUBLISHED" else None}
    return {"state": after, "attempts": values["attempts"], **claim, **reason, **published}


@pytest.mark.requirement("OO-EM-47", "OO-EM-48", "OO-ST-04", "OO-ST-22", "OO-ST-25", "OO-V1-04")
@pytest.mark.requirement("OO-PL-01", "OO-PL-02", "OO-PL-03", "OO-PL-04", "OO-PL-07", "OO-PL-42")
@pytest.mark.parametrize(("before", "after"), [*product(STATES, STATES)])
def test_a_delivery_changes_state_only_along_the_lifecycle(
    database: Database, before: str, after: str
) -> None:
    database.insert("outbox_deliveries", **delivery(before))

    if (before, after) in TRANSITIONS | STAYS:
        database.update("outbox_deliveries", **changed(before, after))
        expected = after
    else:
        with pytest.raises(REFUSED, match="outbox_deliveries refuses"):
            database.update("outbox_deliveries", **changed(before, after))
        expected = before

    assert [row["state"] for row in database.rows("outbox_deliveries")] == [expected]


@pytest.mark.requirement("OO-EM-28")
@pytest.mark.parametrize(
    ("state", "values"),
    [
        ("PENDING", {"attempts": 0}),
        ("CLAIMED", {"attempts": 0, "state": "PENDING", **NO_CLAIM}),
        ("DEAD", {"attempts": 0}),
    ],
)
def test_attempts_of_a_delivery_never_go_down(database: Database, state: str, values: Row) -> None:
    database.insert("outbox_deliveries", **delivery(state))

    with pytest.raises(REFUSED, match="outbox_deliveries refuses"):
        database.update("outbox_deliveries", **values)


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_claim_counts_one_attempt(database: Database, attempts: int) -> None:
    database.insert("outbox_deliveries", **delivery("PENDING", attempts=1))

    with pytest.raises(REFUSED, match="outbox_deliveries refuses"):
        database.update("outbox_deliveries", **CLAIM, state="CLAIMED", attempts=attempts)


@pytest.mark.parametrize(
    ("table", "row"),
    [("outbox_deliveries", delivery("CLAIMED")), ("outbox_batches", batch(1, 2, {1}))],
)
def test_taking_over_needs_a_new_token(database: Database, table: str, row: Row) -> None:
    database.insert(table, **row)

    with pytest.raises(REFUSED, match=f"{table} refuses"):
        database.update(table, attempts=2, claimed_by="relay-2")
    database.update(table, attempts=2, claimed_by="relay-2", token=NEW_TOKEN)

    assert [kept["attempts"] for kept in database.rows(table)] == [2]


@pytest.mark.requirement("OO-EM-44", "OO-V1-05")
@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("outbox_deliveries", delivery("PUBLISHED")),
        ("outbox_batches", batch(1, 2, {1}, published_at=NOW)),
    ],
)
def test_what_was_published_never_changes(database: Database, table: str, row: Row) -> None:
    database.insert(table, **row)
    before = database.rows(table)

    for values in (
        {"published_at": LATER},
        {"attempts": 2},
        {"releases": 1},
        {"subscription": "other"},
    ):
        with pytest.raises(REFUSED, match=f"{table} refuses"):
            database.update(table, **values)

    assert database.rows(table) == before


def test_what_is_dead_can_be_discarded(database: Database) -> None:
    database.insert("outbox_deliveries", **delivery("DEAD"))

    database.update("outbox_deliveries", reason="discarded")

    assert [row["reason"] for row in database.rows("outbox_deliveries")] == ["discarded"]


@pytest.mark.parametrize(
    ("table", "row", "values"),
    [
        *(
            ("outbox_deliveries", delivery("PENDING"), values)
            for values in (
                {"subscription": "other"},
                {"position": 2},
                {"recipient": "other"},
                {"generation": 1},
            )
        ),
        *(
            ("outbox_batches", batch(2, 3, {2}), values)
            for values in (
                {"subscription": "other"},
                {"partition_number": 1},
                {"generation": 1},
                {"first_position": 1},
                {"last_position": 4},
            )
        ),
    ],
)
def test_what_a_record_is_about_never_changes(
    database: Database, table: str, row: Row, values: Row
) -> None:
    database.insert(table, **row)

    with pytest.raises(REFUSED, match=f"{table} refuses"):
        database.update(table, **values)


def test_a_batch_is_renewed_flushed_and_closed(database: Database) -> None:
    database.insert("outbox_batches", **batch(1, 9, {1, 2, 9}))

    database.update("outbox_batches", lease_until=LATER)
    database.update("outbox_batches", done=bits(1, 9, {1}), flushed_at=NOW)
    database.update("outbox_batches", done=bits(1, 9, {1, 9}), flushed_at=NOW)
    database.update("outbox_batches", **CLOSED, done=bits(1, 9, {1, 2, 9}))

    assert [row["state"] for row in database.rows("outbox_batches")] == ["PUBLISHED"]


def test_a_batch_is_closed_with_its_members_cut_to_what_is_done(database: Database) -> None:
    database.insert("outbox_batches", **batch(1, 9, {1, 2, 9}, done={2}))

    database.update("outbox_batches", **CLOSED, members=bits(1, 9, {2}))

    assert [row["members"] for row in database.rows("outbox_batches")] == [bits(1, 9, {2})]


@pytest.mark.requirement("OO-EM-28")
def test_attempts_of_a_batch_never_go_down(database: Database) -> None:
    database.insert("outbox_batches", **batch(1, 2, {1}, attempts=3))

    with pytest.raises(REFUSED, match="outbox_batches refuses"):
        database.update("outbox_batches", attempts=2, token=NEW_TOKEN)


@pytest.mark.requirement("OO-EM-48")
def test_a_batch_that_was_published_is_not_claimed_again(database: Database) -> None:
    database.insert("outbox_batches", **batch(1, 2, {1}, published_at=NOW))

    with pytest.raises(REFUSED, match="outbox_batches refuses"):
        database.update("outbox_batches", **CLAIM, state="CLAIMED", attempts=2, published_at=None)


@pytest.mark.parametrize("members", [{1}, {1, 2, 9, 3}, {1, 2, 3}, set()])
def test_the_members_of_an_open_batch_stay(database: Database, members: set[int]) -> None:
    database.insert("outbox_batches", **batch(1, 9, {1, 2, 9}))

    with pytest.raises(REFUSED, match="outbox_batches"):
        database.update("outbox_batches", members=bits(1, 9, members))


def test_a_batch_cannot_be_closed_with_more_than_is_done(database: Database) -> None:
    database.insert("outbox_batches", **batch(1, 9, {1, 2, 9}, done={2}))

    with pytest.raises(REFUSED, match="outbox_batches_published_is_done"):
        database.update("outbox_batches", **CLOSED)


@pytest.mark.parametrize("span", [9, 500, 8192])
def test_a_postgres_batch_refuses_to_lose_done_bits(postgres: Database, span: int) -> None:
    everything = set(range(1, span + 1))
    postgres.insert("outbox_batches", **batch(1, span, everything, done={1, span}))

    for done in ({1}, {span}, set(), everything - {span}):
        with pytest.raises(REFUSED, match="outbox_batches refuses"):
            postgres.update("outbox_batches", done=bits(1, span, done))


def test_a_postgres_batch_gets_no_members_when_it_is_closed(postgres: Database) -> None:
    postgres.insert("outbox_batches", **batch(1, 9, {1, 2}, done={1}))

    with pytest.raises(REFUSED, match="outbox_batches refuses"):
        postgres.update(
            "outbox_batches", **CLOSED, members=bits(1, 9, {1, 5}), done=bits(1, 9, {1, 5})
        )


def test_done_bits_can_be_added_in_sql_on_postgres(postgres: Database) -> None:
    postgres.insert("outbox_batches", **batch(1, 20, set(range(1, 21)), done={1, 9}))

    postgres.run(
        "UPDATE outbox_batches SET done = substring(varbit_send("
        "CAST('x' || encode(done, 'hex') AS varbit)"
        " | CAST('x' || encode(:more, 'hex') AS varbit)) FROM 5)",
        more=bits(1, 20, {1, 2, 20}),
    )

    assert postgres.rows("outbox_batches")[0]["done"] == bits(1, 20, {1, 2, 9, 20})


def test_only_the_closing_update_of_a_batch_leaves_its_page(postgres: Database) -> None:
    def updates() -> tuple[int, int]:
        (row,) = postgres.run(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables"
            " WHERE relname = 'outbox_batches'"
        )
        return row["n_tup_upd"], row["n_tup_hot_upd"]

    postgres.run("BEGIN")
    postgres.insert("outbox_batches", **batch(1, 9, {1, 2}))
    postgres.update("outbox_batches", lease_until=LATER)
    postgres.update("outbox_batches", done=bits(1, 9, {1}), flushed_at=NOW)
    postgres.update("outbox_batches", attempts=2, claimed_by="relay-2", token=NEW_TOKEN)
    postgres.update("outbox_batches", fanout_cursor="shop-1")
    while_open = updates()
    postgres.update("outbox_batches", **CLOSED, done=bits(1, 9, {1, 2}))
    closed = updates()
    postgres.run("COMMIT")

    assert while_open == (4, 4)
    assert closed == (5, 4)


def test_the_largest_bitmaps_stay_in_the_row(postgres: Database) -> None:
    members = os.urandom(1024)

    postgres.insert(
        "outbox_batches", **batch(1, 8192, set(), claimed_by="r" * 255) | {"members": members}
    )
    postgres.update("outbox_batches", **CLOSED, done=members)

    (size,) = postgres.run(
        "SELECT pg_column_size(b.members) AS members, pg_column_size(b.done) AS done,"
        " pg_relation_size(c.reltoastrelid) AS elsewhere"
        " FROM outbox_batches AS b, pg_class AS c WHERE c.oid = 'outbox_batches'::regclass"
    )
    assert size == {"members": 1028, "done": 1028, "elsewhere": 0}
