"""A query from a dialect's ``queries.sql``, and a statement: that query with its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import msgspec

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


class Query(msgspec.Struct, frozen=True):
    """A named query, its parameters written ``:name``."""

    name: str
    text: str

    def render(self, style: ParamStyle) -> tuple[str, tuple[str, ...]]:
        """Return the text in *style* and the order of its positional parameters."""
        sql, order, _ = _render(self.text, style)
        return sql, order

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the parameters in the order in which they stand."""
        return self.render("qmark")[1]

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the parameters."""
        return frozenset(self.render("qmark")[1])


class Statement(msgspec.Struct, frozen=True, gc=False):
    """One execution of a query."""

    query: Query
    params: Params

    def bind(self, style: ParamStyle) -> tuple[str, Bound]:
        """Return what a driver of *style* executes."""
        sql, _, pick = _render(self.query.text, style)
        return sql, pick(self.params)


class Placed(msgspec.Struct, frozen=True, gc=False):
    """One execution of a query that names each parameter once, its values in that order.

    It is what a hot path builds: nobody has to look a value up by its name.
    """

    query: Query
    values: tuple[Any, ...]

    def bind(self, style: ParamStyle) -> tuple[str, Bound]:
        """Return what a driver of *style* executes."""
        sql, order, _ = _render(self.query.text, style)
        return sql, self.values if order else self.params

    @property
    def params(self) -> Params:
        """The parameters by name."""
        return dict(zip(self.query.order, self.values, strict=True))


class Batch(msgspec.Struct, frozen=True, gc=False):
    """One query executed for many rows of parameters; it returns no rows."""

    query: Query
    rows: Sequence[Params]

    def bind(self, style: ParamStyle) -> tuple[str, Sequence[Bound]]:
        """Return what a driver of *style* executes many times."""
        sql, _, pick = _render(self.query.text, style)
        return sql, list(map(pick, self.rows))


@cache
def _render(text: str, style: ParamStyle) -> tuple[str, tuple[str, ...], Callable[[Params], Bound]]:
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

    return _TOKEN.sub(replace, text), tuple(order), _picker(style, order)


def _picker(style: ParamStyle, order: Sequence[str]) -> Callable[[Params], Bound]:
    """Return what takes the parameters of a statement in the form its style wants."""
    if style in ("named", "pyformat"):
        return lambda params: params
    if len(order) > 1:
        return itemgetter(*order)
    return lambda params: tuple(params[name] for name in order)
