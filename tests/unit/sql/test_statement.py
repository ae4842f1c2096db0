"""Queries are written once and rendered for each driver's style of parameters."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, get_args

import pytest

from outrider.sql.dialects import dialect_named, dialect_names
from outrider.sql.statement import Batch, ParamStyle, Query, Statement

STYLES: tuple[ParamStyle, ...] = get_args(ParamStyle)
TEXT = "SELECT :a, :b, :a"


@pytest.mark.parametrize(
    ("style", "sql", "order"),
    [
        ("named", "SELECT :a, :b, :a", ()),
        ("qmark", "SELECT ?, ?, ?", ("a", "b", "a")),
        ("format", "SELECT %s, %s, %s", ("a", "b", "a")),
        ("pyformat", "SELECT %(a)s, %(b)s, %(a)s", ()),
        ("numeric_dollar", "SELECT $1, $2, $1", ("a", "b")),
    ],
)
def test_a_query_is_rendered_in_every_style(
    style: ParamStyle, sql: str, order: tuple[str, ...]
) -> None:
    assert Query("q", TEXT).render(style) == (sql, order)


@pytest.mark.parametrize(
    ("style", "bound"),
    [
        ("named", {"a": 1, "b": None}),
        ("qmark", (1, None, 1)),
        ("format", (1, None, 1)),
        ("pyformat", {"a": 1, "b": None}),
        ("numeric_dollar", (1, None)),
    ],
)
def test_a_statement_is_bound_in_every_style(style: ParamStyle, bound: Any) -> None:
    params = {"a": 1, "b": None}

    assert Statement(Query("q", TEXT), params).bind(style)[1] == bound
    assert Batch(Query("q", TEXT), [params, params]).bind(style)[1] == [bound, bound]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST(1 AS text), 1::bigint, '2026-01-31 12:00:00'::timestamptz",
        "SELECT ':a', 'it''s :a', ''':a'",
        "SELECT 1 -- not :a\n, 2",
        "SELECT 1 -- it's not :a\n, 2",
        "SELECT '-- :a', 1",
    ],
)
def test_casts_literals_and_comments_hold_no_parameters(style: ParamStyle, text: str) -> None:
    query = Query("q", text)

    assert query.render(style) == (text, ())
    assert query.parameters == frozenset()


@pytest.mark.parametrize("style", STYLES)
def test_a_parameter_beside_casts_literals_and_comments_is_found(style: ParamStyle) -> None:
    query = Query("q", "SELECT ':x', :a::text, '''', :b -- :y\n, ':z' || :c")

    assert query.parameters == {"a", "b", "c"}
    sql, _ = query.render(style)
    assert all(kept in sql for kept in ("':x'", "::text", "''''", "-- :y\n", "':z'"))


@pytest.mark.parametrize(
    ("style", "percent"),
    [("named", "%"), ("qmark", "%"), ("numeric_dollar", "%"), ("format", "%%"), ("pyformat", "%%")],
)
def test_a_percent_sign_is_doubled_where_the_driver_would_read_it(
    style: ParamStyle, percent: str
) -> None:
    sql, _ = Query("q", "SELECT 5 % 2, 'a%b' -- 100 %\n").render(style)

    assert sql == f"SELECT 5 {percent} 2, 'a{percent}b' -- 100 {percent}\n"


@pytest.mark.parametrize(
    ("text", "params", "bound"),
    [
        ("SELECT 1", {}, ()),
        ("SELECT :a", {"a": (1, 2)}, ((1, 2),)),
        ("SELECT :a", {"a": "x", "unused": 1}, ("x",)),
    ],
)
def test_positional_parameters_are_always_a_tuple(text: str, params: Any, bound: object) -> None:
    assert Statement(Query("q", text), params).bind("qmark")[1] == bound


def test_a_parameter_that_is_missing_is_an_error() -> None:
    with pytest.raises(KeyError):
        Statement(Query("q", TEXT), {"a": 1}).bind("qmark")


@pytest.mark.parametrize("style", ["named", "qmark"])
def test_what_is_rendered_runs(style: ParamStyle) -> None:
    text = "SELECT :a, ':a', 7 % 4, :b, :a -- :a\n"
    sql, bound = Statement(Query("q", text), {"a": 1, "b": "%s"}).bind(style)

    with closing(sqlite3.connect(":memory:")) as connection:
        assert connection.execute(sql, bound).fetchone() == (1, ":a", 3, "%s", 1)


@pytest.mark.parametrize("dialect", sorted(dialect_names()))
@pytest.mark.parametrize("style", STYLES)
def test_every_query_of_every_dialect_is_rendered_without_a_rest(
    dialect: str, style: ParamStyle
) -> None:
    for query in dialect_named(dialect).queries.values():
        sql, order = query.render(style)
        if style not in ("named", "pyformat"):
            assert set(order) == query.parameters
        if style == "format":
            assert sql.replace("%%", "").count("%s") == len(order)


def test_dialects_ask_for_the_same_parameters() -> None:
    one, *others = (dialect_named(name) for name in sorted(dialect_names()))
    shared = set(one.queries).intersection(*(other.queries for other in others))

    assert {"emit", "originals", "read_forward", "find_key"} <= shared
    for name in shared:
        assert {one[name].parameters} == {other[name].parameters for other in others}, name
