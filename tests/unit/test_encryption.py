"""AES-256-GCM: a sealed value opens under its key, at its place, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.encryption import AesGcm
from outrider.errors import StoreError

CIPHER = AesGcm()
KEY = bytes(range(32))


@given(st.binary(max_size=200), st.text(max_size=50))
@settings(max_examples=50)
def test_a_sealed_value_opens_at_its_place(value: bytes, place: str) -> None:
    assert CIPHER.open(KEY, place, CIPHER.seal(KEY, place, value)) == value


def test_keys_are_random_and_long_enough_for_aes_256() -> None:
    keys = {CIPHER.new_key() for _ in range(100)}

    assert len(keys) == 100
    assert {len(key) for key in keys} == {32}


def test_the_same_value_is_never_sealed_twice_in_the_same_way() -> None:
    sealed = {CIPHER.seal(KEY, "event:field", b"4242") for _ in range(100)}

    assert len(sealed) == 100


def test_a_sealed_value_names_its_version_and_shows_nothing() -> None:
    sealed = CIPHER.seal(KEY, "event:field", b"4242 4242 4242 4242")

    assert sealed.startswith("v1.")
    assert sealed.isascii()
    assert "4242 4242" not in sealed


@pytest.mark.parametrize(
    ("key", "place", "change"),
    [
        (bytes(32), "event:field", str),
        (KEY, "event:other", str),
        (KEY, "other:field", str),
        (KEY, "event:field", lambda sealed: sealed[:-4]),
        (KEY, "event:field", lambda sealed: sealed[:3] + "AAAA" + sealed[7:]),
        (KEY, "event:field", lambda sealed: "v2." + sealed[3:]),
        (KEY, "event:field", lambda _: "v1."),
        (KEY, "event:field", lambda _: "v1.ä"),
        (KEY, "event:field", lambda _: "not sealed at all"),
    ],
    ids=[
        *("another key", "another field", "another event", "cut", "changed", "another version"),
        *("empty", "no ASCII", "no base64"),
    ],
)  # fmt: skip
def test_a_value_that_was_moved_or_changed_does_not_open(
    key: bytes, place: str, change: object
) -> None:
    sealed = CIPHER.seal(KEY, "event:field", b"4242")

    with pytest.raises(StoreError, match=f"the sealed value of {place} does not open"):
        CIPHER.open(key, place, change(sealed))  # type: ignore[operator] # any of the above
