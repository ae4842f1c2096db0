"""The errors: one tree, stable codes, messages with the value and the remedy."""

from __future__ import annotations

import inspect
import re
from typing import Any
from uuid import UUID

import pytest

from outrider import errors
from outrider.errors import OutriderError, shown

TREE: list[Any] = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)
]


def test_every_error_has_one_root() -> None:
    assert all(issubclass(cls, OutriderError) for cls in TREE)


def test_every_error_has_a_code_of_its_own() -> None:
    codes = [cls.code for cls in TREE]

    assert len(set(codes)) == len(TREE)
    assert all(re.fullmatch(r"OUT[0-9]{3}", code) for code in codes)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.UnsupportedConnectionError, TypeError),
        (errors.InvalidEventError, ValueError),
        (errors.EncodingError, ValueError),
        (errors.EventTooLargeError, ValueError),
    ],
)
def test_an_error_is_also_what_python_would_have_raised(
    error: type[Exception], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"── (\w+Error)\b", str(errors.__doc__))

    assert sorted(["OutriderError", *drawn]) == sorted(cls.__name__ for cls in TREE)


def test_errors_carry_their_data() -> None:
    stale = errors.StaleVersionError("order", "42", 3)
    reused = errors.KeyReusedError("idempotency key 'k'", UUID(int=7))
    large = errors.EventTooLargeError("the payload", 11, 10, "shrink it")
    missing = errors.MissingDependencyError("Kafka", "kafka")

    assert (stale.entity_type, stale.entity_id, stale.version) == ("order", "42", 3)
    assert reused.original_id == UUID(int=7)
    assert (large.size_bytes, large.limit_bytes) == (11, 10)
    assert (missing.feature, missing.extra) == ("Kafka", "kafka")


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (errors.StaleVersionError("order", "42", 3), ["order '42'", "version 3", "read the"]),
        (errors.KeyReusedError("key 'k'", UUID(int=7)), ["key 'k'", str(UUID(int=7)), "use a new"]),
        (errors.EventTooLargeError("it", 11, 10, "shrink it"), ["11 bytes", "10", "shrink it"]),
        (
            errors.MissingDependencyError("Kafka", "kafka"),
            ["Kafka", 'pip install "outrider[kafka]"'],
        ),
    ],
)
def test_a_message_says_what_happened_and_what_to_do(
    error: OutriderError, parts: list[str]
) -> None:
    assert all(part in str(error) for part in parts)


def test_a_value_is_shown_short_and_escaped() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert shown("\u202egpj.exe") == "'\\u202egpj.exe'"
    assert len(shown("x" * 10**6)) == 80


def test_an_integer_too_long_to_be_read_is_shown_by_its_type() -> None:
    assert shown(10**5000) == "an int too long to be shown"
