"""A query from a dialect's ``queries.sql``, and a statement: that query with its parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

ParamStyle: TypeAlias = Literal["named", "qmark", "format", "pyformat", "numeric_dollar"]
Params: TypeAlias = Mapping[str, Any]
Bound: TypeAlias = Mapping[str, Any] | tuple[Any, ...]

_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*' | --[^\n]* | ::   # never holds a parameter
    | %                                # doubled for %-style drivers
    | :(?P<name>[a-z_][a-z0-9_]*)      # a parameter
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A named query, its parameters written ``:name``."""

    name: str
    text: str

    def render(self, style: ParamStyle) -> tuple[str, tuple[str, ...]]:
        """Return the text in *style* and the order of its positional parameters."""
        return _render(self.text, style)

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the parameters."""
        return frozenset(self.render("qmark")[1])


@dataclass(frozen=True, slots=True)
class Statement:
    """One execution of a query."""

    query: Query
    params: Params

    def bind(self, style: ParamStyle) -> tuple[str, Bound]:
        """Return what a driver of *style* executes."""
        sql, order = _render(self.query.text, style)
        if style in ("named", "pyformat"):
            return sql, self.params
        return sql, tuple([self.params[name] for name in order])


@dataclass(frozen=True, slots=True)
class Batch:
    """One query executed for many rows of parameters; it returns no rows."""

    query: Query
    rows: Sequence[Params]

    def bind(self, style: ParamStyle) -> tuple[str, Sequence[Bound]]:
        """Return what a driver of *style* executes many times."""
        sql, order = _render(self.query.text, style)
        if style in ("named", "pyformat"):
            return sql, self.rows
        return sql, [tuple([row[name] for name in order]) for row in self.rows]


@cache
def _render(text: str, style: ParamStyle) -> tuple[str, tuple[str, ...]]:
    order: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0].replace("%", "%%") if style in ("format", "pyformat") else match[0]
        if style == "named":
            return match[0]
        if style == "pyformat":
            return f"%({name})s"
        if style == "numeric_dollar":
            if name not in order:
                order.append(name)
            return f"${order.index(name) + 1}"
        order.append(name)
        return "?" if style == "qmark" else "%s"

    return _TOKEN.sub(replace, text), tuple(order)
