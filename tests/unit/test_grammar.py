"""The grammar of names, keys and headers: refused rather than repaired."""

from __future__ import annotations

import enum
from collections import namedtuple
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import grammar
from outrider.errors import ConfigError, EventTooLargeError, InvalidEventError, shown


class Name(enum.StrEnum):
    PLACED = "order.placed"


class OldName(str, enum.Enum):  # noqa: UP042 - its str() is not its text
    PLACED = "order.placed"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


@dataclass
class Thing:
    id: int = 1


Pair = namedtuple("Pair", "x y")  # noqa: PYI024 - any tuple would do


@pytest.mark.requirement("OO-EM-05")
@pytest.mark.parametrize(
    "name",
    [
        *("order.placed", "a", "A", "OrderPlaced", "RUN_STARTED", "order.line.added", "order.2nd"),
        *("order.placed_v2", "shipping_zone.created", "a_", "a.b.c.d", "outrider"),
        "outriders.seen",
        *("x" * 200, "Outrider.seen"),
    ],
    ids=shown,
)
def test_a_name_is_letters_digits_and_underscores_in_segments(name: str) -> None:
    assert grammar.event_type(name) == name


@pytest.mark.requirement("OO-EM-07", "OO-EX-02", "OO-EX-03")
@pytest.mark.parametrize(
    "name",
    [
        *("topic://orders", "kafka:orders", "https://a.b/c", "orders/placed", "$JS.API.DELETE"),
        *("", " ", ".", "a.", ".a", "a..b", "1a", "_a", "a b", "a-b", "a.*", "*", ">", "order.>"),
        *("../../x", "a\n", "a\nb", "a\r\nb", "a\x00", "ä", "événement", "order.placéd"),
        *("\uff41", "a\uff11"),
        *("x" * 201, "a.b ", " a.b", "order.placed\u200b", "<b>", "{0}", "%s", "a;b", "'", '"'),
        *(None, 1, b"a.b", ["a"], object),
    ],
    ids=shown,
)
def test_what_is_no_name_is_refused_and_the_grammar_is_told(name: Any) -> None:
    with pytest.raises(InvalidEventError, match="is not an event type; use letters") as refused:
        grammar.event_type(name)

    assert len(str(refused.value)) < 350


def test_names_of_our_own_are_reserved() -> None:
    with pytest.raises(InvalidEventError, match=r"begins with 'outrider\.', which is reserved"):
        grammar.event_type("outrider.action")


@pytest.mark.parametrize("name", [Name.PLACED, OldName.PLACED])
def test_the_name_of_an_enum_is_its_value_as_plain_text(name: str) -> None:
    found = grammar.event_type(name)

    assert found == "order.placed"
    assert type(found) is str


@given(st.text(max_size=8))
@settings(max_examples=200)
def test_an_accepted_name_is_ascii_without_anything_that_a_transport_reads(text: str) -> None:
    try:
        grammar.event_type(text)
    except InvalidEventError:
        return

    assert text.isascii()
    assert not set(text) & set(" \t\r\n\0*>$/:;'\"\\%{}<>")


@pytest.mark.parametrize("name", ["shop", "shop.billing", "Shop_2"])
def test_a_namespace_names_a_service(name: str) -> None:
    assert grammar.namespace(name) == name


@pytest.mark.parametrize("name", ["", "shop-billing", "a b", "shop\n", "1shop", 7, None, "x" * 201])
def test_what_is_no_namespace_is_refused(name: Any) -> None:
    with pytest.raises(InvalidEventError, match="is not a namespace; name the writing service"):
        grammar.namespace(name)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("42", "42"),
        (42, "42"),
        (-1, "-1"),
        (2**64, str(2**64)),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (Decimal("1.0"), "1.0"),
        (date(2026, 1, 31), "2026-01-31"),
        (Number.ONE, "1"),
        (Name.PLACED, "order.placed"),
        (OldName.PLACED, "order.placed"),
        (Text("itself"), "itself"),
        (" spaces stay ", " spaces stay "),
        ("'; DROP TABLE x;-- %s {0} \\ :name", "'; DROP TABLE x;-- %s {0} \\ :name"),
        ("line\nbreak", "line\nbreak"),
        ("ü" * 127, "ü" * 127),
        ("x" * 255, "x" * 255),
    ],
    ids=shown,
)
def test_a_key_is_kept_byte_for_byte_as_plain_text(value: object, text: str) -> None:
    found = grammar.key(value, "key")

    assert found == text
    assert type(found) is str


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "key is empty"),
        ("x" * 256, "has 256 bytes, the limit is 255"),
        ("ü" * 128, "has 256 bytes, the limit is 255"),
        ("a\x00b", "holds a NUL character"),
        ("a\ud800", "holds a lone surrogate at 1"),
        (True, "True of type bool"),
        (1.0, "1.0 of type float"),
        (None, "None of type NoneType"),
        (b"a", "of type bytes"),
        (bytearray(b"a"), "of type bytearray"),
        (["a"], "of type list"),
        ({"a": 1}, "of type dict"),
        ({1}, "of type set"),
        (Pair(1, 2), "of type Pair"),
        (Thing(), "of type Thing"),
        (Thing, "of type type"),
        (test_a_namespace_names_a_service, "of type function"),
        (10**5000, "an int too long to be shown; use a shorter key"),
        (10**300, "has 301 bytes"),
    ],
    ids=lambda value: shown(value)[:20],
)
def test_what_is_no_key_is_refused_with_its_value(value: object, problem: str) -> None:
    with pytest.raises(InvalidEventError) as refused:
        grammar.key(value, "key")

    assert problem in str(refused.value)
    assert len(str(refused.value)) < 250


def test_a_key_without_a_text_of_its_own_is_refused_not_named_by_its_address() -> None:
    with pytest.raises(InvalidEventError, match="of type object"):
        grammar.key(object(), "key")


@given(st.text(min_size=1, max_size=300))
@settings(max_examples=200)
def test_an_accepted_key_fits_every_database(text: str) -> None:
    try:
        found = grammar.key(text, "key")
    except InvalidEventError:
        return

    assert found == text
    assert 0 < len(found.encode()) <= 255
    assert "\x00" not in found


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Region": "eu", "x": "", "Authorization": "Bearer xyz"},
        {"!#$%&'*+.^_`|~-": "any token"},
        {"X-Inner": "spaces\tand tabs inside"},
        MappingProxyType({"X-A": "b"}),
        {f"X-{n}": "v" for n in range(100)},
        {"X-A": "v" * (16 * 1024 - 3)},
    ],
    ids=lambda headers: shown(headers)[:20],
)
def test_headers_that_every_transport_carries_are_kept_as_they_are(headers: Any) -> None:
    found = grammar.headers(headers)

    assert found == dict(headers)
    assert found is not headers


@pytest.mark.parametrize(
    "name",
    ["", "X A", "X-A:", "X\nA", "X-Ä", "X\x00", "X-\u2028", "(x)", "a/b", "a@b", 1, None, b"X-A"],
)
def test_what_is_no_header_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidEventError, match="is not a header name; use letters"):
        grammar.headers({name: "v"})


@pytest.mark.parametrize(
    "value",
    [
        *("a\r\nX-Injected: 1", "a\n b", "a\nb", "a\r", "\n", "\x00", "a\x0bb", "\u2028", "\x7f"),
        "é",
        *("\U0001d4b3", " a", "a ", "\ta", "a\t", " "),
        *(None, 1, b"a", ["a"]),
    ],
    ids=shown,
)
def test_what_is_no_header_value_is_refused_without_showing_it(value: Any) -> None:
    with pytest.raises(
        InvalidEventError, match="the value of header 'X-A' cannot be sent"
    ) as error:
        grammar.headers({"X-A": value})

    assert "Injected" not in str(error.value)


@pytest.mark.parametrize(
    "name",
    [
        *("Content-Length", "content-type", "HOST", "Transfer-Encoding", "Connection", "TE"),
        *("webhook-signature", "Webhook-Id", "ce-id", "CE_type", "cloudEvents:id"),
        *("cloudEvents_id", "Outrider-Position", "Idempotency-Key", "Nats-Msg-Id"),
    ],
)
def test_headers_that_a_transport_sets_are_reserved(name: str) -> None:
    with pytest.raises(InvalidEventError, match=r"(is reserved|is not a header name)"):
        grammar.headers({name: "v"})


def test_headers_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(InvalidEventError, match="'X-A' and 'x-a' differ only in case"):
        grammar.headers({"X-A": "1", "x-a": "2"})


def test_too_many_headers_are_refused() -> None:
    with pytest.raises(InvalidEventError, match="101 headers, the limit is 100"):
        grammar.headers({f"X-{n}": "v" for n in range(101)})


def test_one_byte_of_headers_too_many_is_refused() -> None:
    with pytest.raises(EventTooLargeError, match="16385 bytes, the limit is 16384"):
        grammar.headers({"X-A": "v" * (16 * 1024 - 2)})


@pytest.mark.parametrize("headers", [[("X-A", "b")], "X-A: b", 5])
def test_headers_that_are_no_mapping_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidEventError, match="give a mapping of texts"):
        grammar.headers(headers)


@pytest.mark.parametrize(
    "value",
    [
        *("image/png", "application/json", "application/vnd.shop+json"),
        "text/plain; charset=utf-8",
        *('multipart/x; boundary="a b"', "text/plain;charset=utf-8;format=flowed"),
    ],
)
def test_a_media_type_is_a_content_type(value: str) -> None:
    assert grammar.content_type(value) == value


@pytest.mark.parametrize(
    "value",
    [
        *("", "png", "image/", "/png", "image/png\n", "image/png\r\nX: y", "image / png", "a/b;"),
        *("text/plain; charset", "text/ü", 'a/b; c="\n"', "a/b" + "c" * 255, 5, None, b"a/b"),
    ],
    ids=shown,
)
def test_what_is_no_media_type_is_refused(value: Any) -> None:
    with pytest.raises(InvalidEventError, match="is not a media type; write it like 'image/png'"):
        grammar.content_type(value)


@pytest.mark.parametrize("name", ["outbox", "_o", "a1", "x" * 48])
def test_an_identifier_needs_no_quoting(name: str) -> None:
    assert grammar.identifier(name, "schema") == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "1a", "Outbox", "événements", "events\n", "events; DROP TABLE users", 'ev"ents'),
        *("ev`ents", "public.events", "x" * 49, "a b", "a-b", "a\x00", "\uff41", "a\uff11", 5),
        None,
    ],
    ids=shown,
)
def test_what_would_need_quoting_is_no_identifier(name: Any) -> None:
    with pytest.raises(ConfigError, match="is not a schema name; use lower-case letters"):
        grammar.identifier(name, "schema")
