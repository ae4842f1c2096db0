"""The view outbox_status: the state of an event for each subscription and recipient."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.schema import (
    CLAIM,
    LATER,
    NO_CLAIM,
    NOW,
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

COLUMNS = [
    *("position", "event_id", "tenant_id", "event_type", "subscription", "recipient"),
    *("generation", "state", "attempts", "available_at", "claimed_at", "claimed_by"),
    *("published_at", "last_error"),
]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with create(database_url) as opened:
        yield opened


def write_log(database: Database, *event_types: str) -> None:
    for position, event_type in enumerate(event_types, start=1):
        database.insert("outbox_events", **event(position, event_type))


def subscribe(
    database: Database,
    name: str = "billing",
    *,
    patterns: str = '["order.*"]',
    bookmark: int | None = 0,
    generation: int = 0,
) -> None:
    database.insert("outbox_subscriptions", name=name, patterns=patterns, target="handler")
    if bookmark is not None:
        database.insert(
            "outbox_bookmarks", subscription=name, position=bookmark, generation=generation
        )


def status(database: Database) -> list[Row]:
    return database.run("SELECT * FROM outbox_status ORDER BY position, subscription, recipient")


def states(database: Database) -> dict[int, str]:
    records = status(database)
    assert len({record["position"] for record in records}) == len(records)
    return {record["position"]: record["state"] for record in records}


def generations(database: Database) -> list[tuple[str, int, str]]:
    return [(row["recipient"], row["generation"], row["state"]) for row in status(database)]


@pytest.mark.requirement("OO-EM-01", "OO-EX-01", "OO-V1-03")
def test_a_record_has_the_columns_of_the_event_model(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database)

    (record,) = status(database)

    assert list(record) == COLUMNS
    assert record == {
        **dict.fromkeys(COLUMNS),
        "position": 1,
        "event_id": database.stored(event(1)["event_id"]),
        "event_type": "order.placed",
        "subscription": "billing",
        "recipient": "",
        "generation": 0,
        "state": "PENDING",
        "attempts": 0,
    }


def test_a_matching_event_above_the_bookmark_is_pending(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "user.created", "order.sent")
    subscribe(database, bookmark=1)

    assert states(database) == {2: "PENDING", 4: "PENDING"}


def test_an_event_that_is_not_due_yet_is_pending_with_its_time(database: Database) -> None:
    database.insert("outbox_events", **event(1, available_at=LATER))
    subscribe(database)

    (record,) = status(database)

    assert (record["state"], record["available_at"]) == ("PENDING", database.stored(LATER))


@pytest.mark.parametrize(
    ("pattern", "event_type", "matches"),
    [
        ("*", "order.placed", True),
        ("order.placed", "order.placed", True),
        ("order.placed", "order.placed.again", False),
        ("order.placed", "an.order.placed", False),
        ("order.*", "order.placed", True),
        ("order.*", "order.item.added", True),
        ("order.*", "orders.placed", False),
        ("order.*", "order", False),
        ("*.placed", "order.placed", True),
        ("o*r.*d", "order.placed", True),
        ("**", "order.placed", True),
        ("ORDER.*", "order.placed", False),
        ("order.*", "ORDER.placed", False),
        ("ORDER_*", "ORDER_PLACED", True),
        ("order_placed", "order_placed", True),
        ("order_placed", "orderXplaced", False),
        ("order%", "order.placed", False),
        ("order?placed", "order.placed", False),
        ("[o]rder.placed", "order.placed", False),
        ("order.[*", "order.placed", False),
        ("order\\.*", "order.placed", False),
        ("", "order.placed", False),
    ],
)
def test_only_the_star_of_a_pattern_has_a_meaning(
    database: Database,
    pattern: str,
    event_type: str,
    matches: bool,
) -> None:
    escaped = pattern.replace("\\", "\\\\")
    write_log(database, event_type)
    subscribe(database, patterns=f'["never.*", "{escaped}"]')

    assert states(database) == ({1: "PENDING"} if matches else {})


def test_an_event_that_two_patterns_match_has_one_record(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, patterns='["order.*", "*", "order.placed"]')

    assert states(database) == {1: "PENDING"}


def test_below_the_bookmark_only_an_event_in_a_gap_is_pending(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "user.created", "order.sent")
    subscribe(database, bookmark=4)
    database.insert("outbox_gaps", subscription="billing", first_position=2, last_position=3)

    assert states(database) == {2: "PENDING"}


def test_a_gap_of_another_subscription_says_nothing(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    subscribe(database, "audit", bookmark=1)
    database.insert("outbox_gaps", subscription="audit", first_position=1, last_position=1)

    assert [row["subscription"] for row in status(database)] == ["audit"]


def test_gaps_of_several_partitions_give_one_record(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    database.insert("outbox_bookmarks", subscription="billing", partition_number=1, position=1)
    for partition_number in (0, 1):
        database.insert(
            "outbox_gaps",
            subscription="billing",
            partition_number=partition_number,
            first_position=1,
            last_position=1,
        )

    assert states(database) == {1: "PENDING"}


def test_the_last_position_of_a_batch_counts_as_the_bookmark(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 2, {1, 2}))

    assert states(database) == {1: "CLAIMED", 2: "CLAIMED", 3: "PENDING"}


def test_a_batch_of_another_generation_does_not_count_as_the_bookmark(
    database: Database,
) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database, bookmark=1)
    database.insert("outbox_batches", **batch(1, 3, {1}, generation=1))

    assert states(database) == {1: "CLAIMED", 2: "PENDING", 3: "PENDING"}


def test_of_several_partitions_the_slowest_counts(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent", "order.closed")
    subscribe(database, bookmark=1)
    database.insert("outbox_bookmarks", subscription="billing", partition_number=1, position=0)
    database.insert("outbox_batches", **batch(1, 3, {1, 3}, partition_number=1))

    assert states(database) == {1: "CLAIMED", 2: "PENDING", 3: "CLAIMED", 4: "PENDING"}


def test_a_member_of_an_unfinished_batch_is_claimed_even_when_it_is_done(
    database: Database,
) -> None:
    write_log(database, "order.placed", "order.paid")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 2, {1, 2}, done={1}, attempts=3, flushed_at=NOW))

    for record in status(database):
        assert (record["state"], record["attempts"]) == ("CLAIMED", 3)
        assert record["claimed_by"] == CLAIM["claimed_by"]
        assert record["claimed_at"] == database.stored(NOW)
        assert record["published_at"] is None


def test_all_members_are_published_when_the_batch_completes(database: Database) -> None:
    write_log(database, "order.placed", "order.paid")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 2, {1, 2}))

    database.update(
        "outbox_batches",
        **NO_CLAIM,
        state="PUBLISHED",
        done=batch(1, 2, {1, 2})["members"],
        published_at=LATER,
    )

    for record in status(database):
        assert (record["state"], record["attempts"]) == ("PUBLISHED", 1)
        assert (record["claimed_by"], record["claimed_at"]) == (None, None)
        assert record["published_at"] == database.stored(LATER)


def test_an_event_that_is_no_member_has_no_record(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 3, {1, 3}))

    assert states(database) == {1: "CLAIMED", 3: "CLAIMED"}


def test_a_reclaimed_batch_leaves_what_is_done_published_and_the_rest_claimed(
    database: Database,
) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 3, {1, 2, 3}, done={2}, flushed_at=NOW))

    database.update(
        "outbox_batches",
        **NO_CLAIM,
        state="PUBLISHED",
        members=batch(1, 3, {2})["members"],
        published_at=NOW,
    )
    database.insert("outbox_batches", **batch(1, 3, {1, 3}, attempts=2))

    assert [(row["position"], row["state"], row["attempts"]) for row in status(database)] == [
        (1, "CLAIMED", 2),
        (2, "PUBLISHED", 1),
        (3, "CLAIMED", 2),
    ]


def test_a_late_batch_tells_its_members_from_those_of_the_range_it_lies_in(
    database: Database,
) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 3, {1, 3}, published_at=NOW))
    database.insert("outbox_batches", **batch(2, 2, {2}))

    assert states(database) == {1: "PUBLISHED", 2: "CLAIMED", 3: "PUBLISHED"}


def test_a_batch_is_found_over_the_whole_of_its_span(database: Database) -> None:
    for position in (1, 2, 8191, 8192, 8193):
        database.insert("outbox_events", **event(position))
    subscribe(database, bookmark=8193)
    database.insert("outbox_batches", **batch(1, 8192, {1, 8191, 8192}))

    assert states(database) == {1: "CLAIMED", 8191: "CLAIMED", 8192: "CLAIMED"}


@pytest.mark.parametrize("seed", range(3))
def test_members_are_the_bits_counted_from_the_least_significant(
    database: Database, seed: int
) -> None:
    chance = random.Random(seed)
    first, last = 5, 5 + chance.randrange(20, 90)
    members = {position for position in range(first, last + 1) if chance.random() < 0.5}
    for position in range(first, last + 1):
        database.insert("outbox_events", **event(position))
    subscribe(database)
    database.insert("outbox_batches", **batch(first, last, members))

    assert set(states(database)) == members


def test_a_delivery_goes_before_the_batch_that_it_came_from(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 3, {1, 2, 3}, published_at=NOW))
    database.insert(
        "outbox_deliveries",
        **delivery("PENDING", position=1, available_at=LATER, last_error="timeout"),
    )
    database.insert("outbox_deliveries", **delivery("DEAD", position=2, last_error="refused"))

    pending, dead, published = status(database)

    assert (pending["state"], pending["last_error"]) == ("PENDING", "timeout")
    assert pending["available_at"] == database.stored(LATER)
    assert (dead["state"], dead["last_error"]) == ("DEAD", "refused")
    assert (published["state"], published["last_error"]) == ("PUBLISHED", None)


def test_a_delivery_ahead_of_the_slowest_partition_has_one_record(database: Database) -> None:
    write_log(database, "order.placed", "order.paid")
    subscribe(database, bookmark=2)
    database.insert("outbox_bookmarks", subscription="billing", partition_number=1, position=0)
    database.insert("outbox_deliveries", **delivery("DEAD", position=2))

    assert states(database) == {1: "PENDING", 2: "DEAD"}


def test_a_claimed_delivery_shows_its_claim(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    database.insert("outbox_deliveries", **delivery("CLAIMED", attempts=4))

    (record,) = status(database)

    assert (record["state"], record["attempts"]) == ("CLAIMED", 4)
    assert record["claimed_by"] == CLAIM["claimed_by"]
    assert record["claimed_at"] == database.stored(NOW)


def test_a_replayed_delivery_shows_its_newest_generation(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    for generation, state in enumerate(("DEAD", "PUBLISHED", "PENDING")):
        database.insert("outbox_deliveries", **delivery(state, generation=generation))

    assert generations(database) == [("", 2, "PENDING")]


def test_a_replay_by_delivery_hides_the_batch_of_the_first_time(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 1, {1}, published_at=NOW))
    database.insert("outbox_deliveries", **delivery("CLAIMED", generation=1))

    assert generations(database) == [("", 1, "CLAIMED")]


def test_a_replay_by_batch_hides_the_delivery_of_the_first_time(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    database.insert("outbox_deliveries", **delivery("DEAD"))
    database.insert("outbox_batches", **batch(1, 1, {1}, generation=1))

    assert generations(database) == [("", 1, "CLAIMED")]


def test_a_replay_by_batch_hides_the_batch_of_the_first_time(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    database.insert("outbox_batches", **batch(1, 1, {1}, generation=1))
    database.insert("outbox_batches", **batch(1, 1, {1}, published_at=NOW))

    assert generations(database) == [("", 1, "CLAIMED")]


def test_a_failure_in_a_replay_by_batch_is_shown_by_its_delivery(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    database.insert("outbox_batches", **batch(1, 1, {1}, published_at=NOW))
    database.insert("outbox_batches", **batch(1, 1, {1}, generation=1, published_at=NOW))
    database.insert("outbox_deliveries", **delivery("PENDING", generation=1))

    assert generations(database) == [("", 1, "PENDING")]


def test_after_a_bookmark_was_moved_back_everything_above_it_is_pending_again(
    database: Database,
) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent", "order.closed")
    subscribe(database, bookmark=1, generation=1)
    database.insert("outbox_batches", **batch(1, 4, {1, 2, 3, 4}, published_at=NOW))
    database.insert("outbox_deliveries", **delivery("DEAD", position=3))
    database.insert("outbox_batches", **batch(2, 2, {2}, generation=1))

    assert [(row["position"], row["generation"], row["state"]) for row in status(database)] == [
        (1, 0, "PUBLISHED"),
        (2, 1, "CLAIMED"),
        (3, 1, "PENDING"),
        (4, 1, "PENDING"),
    ]


def test_an_event_that_a_rebuild_no_longer_matches_keeps_its_record(database: Database) -> None:
    write_log(database, "order.placed", "order.paid")
    subscribe(database, patterns='["invoice.*"]', generation=1)
    database.insert("outbox_batches", **batch(1, 2, {1, 2}, published_at=NOW))
    database.insert("outbox_deliveries", **delivery("DEAD", position=2))

    assert states(database) == {1: "PUBLISHED", 2: "DEAD"}


def test_each_recipient_has_a_record_instead_of_the_batch(database: Database) -> None:
    write_log(database, "order.placed", "order.paid")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 2, {1, 2}))
    for recipient, state in {"shop-1": "PUBLISHED", "shop-2": "DEAD"}.items():
        database.insert("outbox_deliveries", **delivery(state, recipient=recipient))

    assert generations(database) == [
        ("shop-1", 0, "PUBLISHED"),
        ("shop-2", 0, "DEAD"),
        ("", 0, "CLAIMED"),
    ]


def test_recipients_keep_their_records_while_a_replay_fans_out(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    database.insert("outbox_deliveries", **delivery("PUBLISHED", recipient="shop-1"))
    database.insert("outbox_batches", **batch(1, 1, {1}, generation=1))

    assert generations(database) == [("", 1, "CLAIMED"), ("shop-1", 0, "PUBLISHED")]


def test_a_replay_to_one_recipient_leaves_the_others_as_they_are(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=1)
    for recipient in ("shop-1", "shop-2"):
        database.insert("outbox_deliveries", **delivery("PUBLISHED", recipient=recipient))
    database.insert("outbox_deliveries", **delivery("PENDING", recipient="shop-2", generation=1))

    assert generations(database) == [("shop-1", 0, "PUBLISHED"), ("shop-2", 1, "PENDING")]


def test_an_addressed_subscription_has_records_of_its_deliveries_only(
    database: Database,
) -> None:
    write_log(database, "order.placed", "order.paid")
    subscribe(database, patterns="[]", bookmark=0)
    database.insert("outbox_deliveries", **delivery("PENDING", position=2))

    assert states(database) == {2: "PENDING"}


def test_records_of_our_own_event_types_are_left_out(database: Database) -> None:
    for position, event_type in enumerate(("outrider.action", "outrider.dead", "outriders.x"), 1):
        database.insert("outbox_events", **event(position, event_type))
    subscribe(database, patterns='["*"]')
    subscribe(database, "audit", patterns='["*"]')
    database.insert("outbox_batches", **batch(1, 2, {1, 2}))
    database.insert("outbox_deliveries", **delivery("DEAD", position=2))

    assert {row["event_type"] for row in status(database)} == {"outriders.x"}


def test_the_subscription_that_delivers_nothing_has_no_records(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database, "log", patterns='["*"]')
    database.insert("outbox_batches", **batch(1, 1, {1}, subscription="log"))
    database.insert("outbox_deliveries", **delivery("DEAD", position=2, subscription="log"))

    assert status(database) == []


def test_a_retired_subscription_keeps_its_records_and_gets_no_more(database: Database) -> None:
    write_log(database, "order.placed", "order.paid", "order.sent")
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 1, {1}, published_at=NOW))
    database.insert("outbox_deliveries", **delivery("DEAD", position=2))

    database.update("outbox_subscriptions", retired_at=NOW)

    assert states(database) == {1: "PUBLISHED", 2: "DEAD"}


def test_a_paused_subscription_still_has_its_pending_records(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database)

    database.update("outbox_subscriptions", paused_by="anna", paused_at=NOW)

    assert states(database) == {1: "PENDING"}


def test_a_subscription_without_a_bookmark_has_not_begun(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database, bookmark=None)

    assert status(database) == []


def test_subscriptions_have_records_of_their_own(database: Database) -> None:
    write_log(database, "order.placed")
    subscribe(database)
    subscribe(database, "audit", patterns='["*"]', bookmark=1)
    subscribe(database, "mail", patterns='["user.*"]')
    database.insert("outbox_batches", **batch(1, 1, {1}, subscription="audit", published_at=NOW))

    assert [(row["subscription"], row["state"]) for row in status(database)] == [
        ("audit", "PUBLISHED"),
        ("billing", "PENDING"),
    ]


@pytest.mark.requirement("NEV-05", "OO-EX-22")
def test_an_event_of_no_tenant_shows_none(database: Database) -> None:
    for position, tenant in enumerate(("", "acme") * 3, start=1):
        database.insert("outbox_events", **event(position, tenant_id=tenant))
    subscribe(database)
    database.insert("outbox_batches", **batch(1, 4, {1, 2, 3, 4}))
    for position in (3, 4):
        database.insert("outbox_deliveries", **delivery("DEAD", position=position))

    records = status(database)

    assert [row["state"] for row in records[::2]] == ["CLAIMED", "DEAD", "PENDING"]
    assert [row["tenant_id"] for row in records] == [None, "acme"] * 3


@pytest.mark.requirement("OO-ST-01", "OO-ST-07")
def test_an_event_has_no_record_before_its_transaction_commits(
    database: Database, database_url: str
) -> None:
    subscribe(database)

    with connect(database_url) as other_session:
        database.run("BEGIN")
        database.insert("outbox_events", **new_event(1))
        before = status(other_session)
        database.run("ROLLBACK")
        rolled_back = status(other_session)
        database.insert("outbox_events", **new_event(2))
        committed = status(other_session)

    assert before == rolled_back == []
    assert [row["event_id"] for row in committed] == [database.stored(event(2)["event_id"])]
