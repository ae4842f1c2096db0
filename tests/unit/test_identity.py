"""UUIDv7: unique, increasing within a process, laid out as RFC 9562 says."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from uuid import RFC_4122, UUID

import pytest

from outrider.identity import UuidV7

MILLISECOND = 1_000_000
NOON = 1_800_000_000_000 * MILLISECOND


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the clock of the module: one number, in nanoseconds."""
    now = [NOON]
    monkeypatch.setattr("outrider.identity.time.time_ns", lambda: now[0])
    return now


def milliseconds_of(made: UUID) -> int:
    return made.int >> 80


@pytest.mark.requirement("OO-EM-04")
def test_an_id_is_laid_out_as_rfc_9562_says(clock: list[int]) -> None:
    made = UuidV7()()

    assert made.version == 7
    assert made.variant == RFC_4122
    assert milliseconds_of(made) == NOON // MILLISECOND
    assert type(made) is UUID


def test_the_time_in_an_id_is_now() -> None:
    before = time.time_ns() // MILLISECOND

    made = milliseconds_of(UuidV7()())

    assert before <= made <= time.time_ns() // MILLISECOND + 1


@pytest.mark.requirement("OO-EM-04", "OO-TM-13")
def test_ids_are_unique_and_increase_as_numbers_and_as_text() -> None:
    new_id = UuidV7()
    made = [new_id() for _ in range(20_000)]

    assert len(set(made)) == len(made)
    assert made == sorted(made)
    assert [str(one) for one in made] == sorted(str(one) for one in made)


def test_ids_of_many_threads_are_unique_and_increase_in_each() -> None:
    new_id = UuidV7()
    start = threading.Barrier(8)
    made: list[list[UUID]] = [[] for _ in range(8)]

    def make(mine: list[UUID]) -> None:
        start.wait()
        mine.extend(new_id() for _ in range(1_000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({one for mine in made for one in mine}) == 8_000
    assert all(mine == sorted(mine) for mine in made)


def test_a_clock_that_steps_back_changes_nothing(clock: list[int]) -> None:
    new_id = UuidV7()
    before = new_id()
    clock[0] -= 3_600_000 * MILLISECOND

    after = new_id()

    assert after > before
    assert milliseconds_of(after) == milliseconds_of(before)


def test_a_clock_that_stands_still_runs_into_the_next_millisecond(clock: list[int]) -> None:
    new_id = UuidV7()
    made = [new_id() for _ in range(3 * 4096)]

    assert made == sorted(set(made))
    assert milliseconds_of(made[-1]) - milliseconds_of(made[0]) in (2, 3, 4)


def test_two_sources_never_agree(clock: list[int]) -> None:
    one, other = UuidV7(), UuidV7()

    assert not {one() for _ in range(1_000)} & {other() for _ in range(1_000)}


FORK = """
import os
from outrider.identity import UuidV7
new_id = UuidV7()
new_id()
reader, writer = os.pipe()
if os.fork() == 0:
    os.write(writer, " ".join(str(new_id()) for _ in range(100)).encode())
    os._exit(0)
os.wait()
theirs = set(os.read(reader, 65536).decode().split())
ours = {str(new_id()) for _ in range(100)}
random_parts = [{one[19:] for one in made} for made in (ours, theirs)]
print(len(theirs), len(theirs & ours), len(set.intersection(*random_parts)))
"""


def test_a_forked_child_makes_ids_of_its_own() -> None:
    ran = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True)

    # Neither an id nor the random part of one is the same.
    assert ran.stdout.split() == ["100", "0", "0"]
