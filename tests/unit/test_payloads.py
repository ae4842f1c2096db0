"""Payloads: strict JSON, made once; what is written reads back the same."""

from __future__ import annotations

import enum
import json
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider import payloads
from outrider.errors import EncodingError, shown


class Size(enum.Enum):
    LARGE = "l"


class Code(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Real(float):
    pass


class Moment(datetime):
    """As the libraries that freeze or improve time have them."""


class Table(dict[str, object]):
    pass


class Point(NamedTuple):
    x: int
    y: int


NAN = float("nan")
INFINITE = float("inf")


@dataclass(frozen=True)
class Inner:
    when: datetime
    amounts: dict[int, Decimal]


@dataclass(frozen=True)
class AsDataclass:
    inner: Inner
    raw: bytes
    tags: frozenset[str]
    size: Size
    ident: UUID
    span: timedelta
    day: date
    pair: tuple[int, str]
    big: int
    note: str | None = None


@attrs.frozen
class AsAttrs:
    inner: Inner
    numbers: list[float]


class AsStruct(msgspec.Struct, frozen=True, rename="camel"):
    inner_thing: Inner
    code: Code = Code.ONE


class Leaf(pydantic.BaseModel, frozen=True):
    amount: Decimal
    raw: bytes
    when: datetime


class AsModel(pydantic.BaseModel, frozen=True):
    leaf: Leaf
    leaves: dict[int, Leaf] = pydantic.Field(default_factory=dict)


@dataclass(frozen=True)
class Mixed:
    """A model of one kind inside a class of another."""

    leaf: Leaf
    leaves: list[Leaf] = field(default_factory=list)


INNER = Inner(when=datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC), amounts={1: Decimal("1.10")})
LEAF = Leaf(amount=Decimal("0.30"), raw=b"abc", when=datetime(2026, 1, 31, tzinfo=UTC))
OBJECTS: list[Any] = [
    AsDataclass(
        inner=INNER,
        raw=b"\x00\xff",
        tags=frozenset({"a"}),
        size=Size.LARGE,
        ident=UUID(int=5),
        span=timedelta(days=1, microseconds=1),
        day=date(2026, 1, 31),
        pair=(1, "b"),
        big=10**30,
    ),
    AsAttrs(inner=INNER, numbers=[0.1, -0.0, 1e308, 5e-324]),
    AsStruct(inner_thing=INNER),
    AsModel(leaf=LEAF, leaves={3: LEAF}),
    Mixed(leaf=LEAF, leaves=[LEAF]),
    Point(1, 2),
]


@pytest.mark.requirement("OO-EM-08")
@pytest.mark.parametrize("thing", OBJECTS, ids=lambda thing: type(thing).__name__)
def test_an_object_of_every_kind_reads_back_as_it_was(thing: object) -> None:
    text = payloads.encode(thing)

    assert payloads.convert(payloads.load(text), type(thing)) == thing


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"a": 1, "b": [True, False, None]}, '{"a":1,"b":[true,false,null]}'),
        ({"z": 1, "a": 2}, '{"z":1,"a":2}'),
        ({}, "{}"),
        ([], "[]"),
        (None, "null"),
        ("text", '"text"'),
        (5, "5"),
        (False, "false"),
        ("ü€𝄞\u2028\x7f", '"ü€𝄞\u2028\x7f"'),
        ('"\\/\b\f\n\r\t\x1f', '"\\"\\\\/\\b\\f\\n\\r\\t\\u001f"'),
        ("\\u0000", '"\\\\u0000"'),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (100000.0, "100000.0"),
        (2**63, str(2**63)),
        (2**64, str(2**64)),
        (-(2**64), str(-(2**64))),
        (10**30, str(10**30)),
        ({"n": 10**30, "t": "ü"}, '{"n":1' + "0" * 30 + ',"t":"ü"}'),
        ((1, 2), "[1,2]"),
        (Point(1, 2), "[1,2]"),
        (frozenset({1}), "[1]"),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        (MappingProxyType({"a": MappingProxyType({"b": 1})}), '{"a":{"b":1}}'),
        (Table(a=Table(b=1)), '{"a":{"b":1}}'),
        ([Text("a"), Whole(5), Real(1.5)], '["a",5,1.5]'),
        ([Size.LARGE, Code.ONE, Word.A], '["l",1,"a"]'),
        ({Text("a"): 1, Word.A.upper(): 2, Size.LARGE: 3}, '{"a":1,"A":2,"l":3}'),
        ({1: "a", 1.5: "b", None: "c", UUID(int=1): "d"}, None),
        ({True: 1}, '{"true":1}'),
        ({Code.ONE: 1}, '{"1":1}'),
        (datetime(2026, 1, 31, tzinfo=UTC), '"2026-01-31T00:00:00Z"'),
        (Moment(2026, 1, 31, tzinfo=UTC), '"2026-01-31T00:00:00+00:00"'),
        ([date(2026, 1, 31), time(1, 2), timedelta(seconds=1)], '["2026-01-31","01:02:00","PT1S"]'),
        (Decimal("1.10"), '"1.10"'),
        (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (b"\xff", '"/w=="'),
    ],
    ids=lambda value: shown(value)[:30],
)
def test_data_is_written_as_compact_json(data: object, text: str | None) -> None:
    written = payloads.encode(data).decode()

    assert text is None or written == text
    assert json.loads(written) == payloads.load(written.encode())


PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abü$", max_size=5), inner),
    max_leaves=10,
)


@given(PLAIN)
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_reads_back_the_same_here_and_in_other_readers(data: Any) -> None:
    text = payloads.encode(data)

    assert payloads.load(text) == data == json.loads(text)
    assert payloads.dump(data) == payloads.dump(payloads.load(text))


class Unprintable:
    def __repr__(self) -> str:
        raise AssertionError("shown")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (NAN, "$ is nan, which JSON cannot say"),
        ({"a": [0, INFINITE]}, "$.a[1] is inf, which JSON cannot say"),
        ({"a": Real("nan")}, "$.a is nan"),
        ({"a": {"b": -INFINITE}}, "$.a.b is -inf"),
        ({NAN: 1}, "$ has the key nan, which is no JSON"),
        ({INFINITE: 1}, "$ has the key inf, which is no JSON"),
        ({(1, 2): 1}, "$ has the key (1, 2), which is no JSON"),
        ({10**5000: 1}, "$ has the key an int too long to be shown, which is no JSON"),
        ({"a": {1: "x", "1": "y"}}, "$.a has two keys that become '1'"),
        ({None: 1, "null": 2}, "$ has two keys that become 'null'"),
        ("a\x00", "$ holds U+0000"),
        ({"a": ["\x00"]}, "$.a[0] holds U+0000"),
        ({"a\x00": 1}, "$ holds U+0000"),
        ("\ud800", "$ holds a lone surrogate at 0"),
        ({"a": "x\udfff"}, "$.a holds a lone surrogate at 1"),
        ({"\ud800": 1}, "$ holds a lone surrogate at 0"),
        (Text("\x00"), "$ holds U+0000"),
        ({"a": 10**5000}, "$.a is an integer too long to be read"),
        ([-(10**4300)], "$[0] is an integer too long to be read"),
        (object(), "the payload holds builtins.object, which has no JSON form"),
        ({"a": Unprintable()}, "Unprintable, which has no JSON form"),
        ([iter(())], "tuple_iterator, which has no JSON form"),
        ((n for n in range(2)), "generator, which has no JSON form"),
        (range(3), "range, which has no JSON form"),
        (1j, "complex, which has no JSON form"),
        (int, "type, which has no JSON form"),
        (msgspec.Raw(b'{"a":1,"a":2}'), "msgspec.Raw, which has no JSON form"),
        (msgspec.UNSET, "UnsetType, which has no JSON form"),
        (ValueError("x"), "ValueError, which has no JSON form"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else type(value).__name__,
)
def test_what_json_cannot_say_is_refused_with_its_place(data: object, problem: str) -> None:
    with pytest.raises(EncodingError) as refused:
        payloads.encode(data)

    assert problem in str(refused.value)
    assert len(str(refused.value)) < 250


class Broken(pydantic.BaseModel):
    raw: bytes


def test_a_model_that_cannot_be_dumped_is_refused_like_all_else() -> None:
    with pytest.raises(EncodingError, match="the payload cannot be written as JSON: 'utf-8' codec"):
        payloads.encode(Broken(raw=b"\xff"))
    with pytest.raises(EncodingError, match="the payload cannot be written as JSON: 'utf-8' codec"):
        payloads.encode([Broken(raw=b"\xff")])


def nested(depth: int) -> list[Any]:
    data: list[Any] = []
    for _ in range(depth - 1):
        data = [data]
    return data


def test_nesting_is_bounded() -> None:
    text = b"[" * 256 + b"]" * 256

    assert payloads.encode(nested(256)) == text
    assert payloads.load(text) == nested(256)


@pytest.mark.parametrize("depth", [257, 1_500, 100_000])
def test_deeper_nesting_is_refused_and_never_ends_the_stack(depth: int) -> None:
    with pytest.raises(EncodingError, match="is nested deeper than 256 levels; flatten") as refused:
        payloads.encode(nested(depth))
    assert len(str(refused.value)) < 250

    with pytest.raises(EncodingError, match="is nested deeper than 256 levels; flatten"):
        payloads.load(b"[" * depth + b"]" * depth)
    with pytest.raises(EncodingError, match="is nested deeper than 256 levels; flatten"):
        payloads.load(b'{"a":' * depth + b"1" + b"}" * depth)


def test_data_that_contains_itself_is_refused() -> None:
    data: dict[str, Any] = {}
    data["self"] = data

    with pytest.raises(EncodingError, match="is nested deeper"):
        payloads.encode(data)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "is not JSON at character 0"),
        (b"{", "is not JSON at character 1"),
        (b"{} {}", "is not JSON at character 3"),
        (b"{'a':1}", "is not JSON at character 1"),
        (b'{"a":1,}', "is not JSON at character 7"),
        (b"[1 2]", "is not JSON at character 3"),
        (b"01", "is not JSON at character 1"),
        (b"+1", "is not JSON at character 0"),
        (b".5", "is not JSON at character 0"),
        (b'"\t"', "is not JSON at character 1"),
        (b"// comment", "is not JSON at character 0"),
        (b"\xef\xbb\xbf{}", "is not JSON at character 0"),
        (b"\xff\xfe{\x00}\x00", "is not UTF-8 at byte 0"),
        (b'"a\xff"', "is not UTF-8 at byte 2"),
        (b'"\xed\xa0\x80"', "is not UTF-8 at byte 1"),
        (b"NaN", "holds NaN, which is not JSON"),
        (b"[-Infinity]", "holds -Infinity, which is not JSON"),
        (b"1e400", "holds 1e400, which no float can hold"),
        (b"9" * 5000, "an integer of 5000 digits"),
        (b'{"a":1,"b":{"c":1,"c":2}}', "the key 'c' twice in one object"),
        (b'{"a":1,"\\u0061":2}', "the key 'a' twice in one object"),
        (b'"\\u0000"', "$ holds U+0000"),
        (b'{"a":["\\ud800"]}', "$.a[0] holds a lone surrogate"),
        (b'{"\\ud800":1}', "$ holds a lone surrogate"),
    ],
    ids=lambda value: shown(value)[:30],
)
def test_json_that_is_not_strict_is_refused_with_its_place(text: bytes, problem: str) -> None:
    with pytest.raises(EncodingError) as refused:
        payloads.load(text)

    assert problem in str(refused.value)
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (b' { "a" : [ 1 , 2.50 ] } ', {"a": [1, 2.5]}),
        (b"-0", 0),
        (b"1E5", 100000.0),
        (b"1" + b"0" * 30, 10**30),
        (b'"\\ud834\\udd1e"', "𝄞"),
        (b"1e-400", 0.0),
    ],
)
def test_strict_json_is_read(text: bytes, data: object) -> None:
    assert payloads.load(text) == data


@pytest.mark.parametrize(
    ("content_type", "is_json"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.shop.order+json", True),
        ("application/cloudevents+json;x=y", True),
        ("text/plain", False),
        ("application/jsonlines", False),
        ("application/json-seq", False),
        ("image/png", False),
    ],
)
def test_a_content_type_tells_whether_a_payload_is_json(content_type: str, is_json: bool) -> None:
    assert payloads.is_json(content_type) is is_json


class Card(pydantic.BaseModel):
    number: int


@dataclass
class Wallet:
    cards: list[Card]


@pytest.mark.parametrize(
    ("data", "cls"),
    [({"number": "4242 4242"}, Card), ({"cards": [{"number": "4242 4242"}]}, Wallet)],
)
def test_data_that_does_not_fit_is_refused_without_quoting_it(data: Any, cls: type) -> None:
    with pytest.raises(ValueError, match=r"valid integer.* - at .*number") as refused:
        payloads.convert(data, cls)

    assert "4242" not in "".join(traceback.format_exception(refused.value))


class Custom:
    """A class that nobody knows how to build."""


@dataclass
class Holder:
    thing: Custom


def test_a_class_that_cannot_be_built_is_named() -> None:
    with pytest.raises(ValueError, match="no way to build Custom from a payload"):
        payloads.convert({"thing": 1}, Holder)


@pytest.mark.parametrize("cls", [int, list[int], dict[str, int]])
def test_plain_classes_are_checked_too(cls: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        payloads.convert("text", cls)  # type: ignore[arg-type] # a generic alias works like a type
