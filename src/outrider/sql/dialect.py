"""A dialect: the queries of one database, what it can do, and how it writes values.

Dialects share query names, parameters and row shapes, never text. What a database can or
cannot do is a capability here; the plan that cares branches on it, in one place.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from outrider import grammar
from outrider.sql.statement import Query

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_END = re.compile(r";[ \t]*\n(?:[ \t]*\n)+")
_COMMENT = re.compile(r"^\s*--[^\n]*\n?", re.MULTILINE)
_MARKER = "/* schema */"


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One database's SQL, bound to the schema it lives in."""

    name: str
    schema: str | None
    queries: Mapping[str, Query]
    bulk: bool
    """One statement writes many events (a JSON document); else they are executed one by one."""
    locks_keys: bool
    """A writer must lock a key before it draws a position; else writers are serial anyway."""
    transactional_ddl: bool
    """A migration that fails half-way leaves nothing behind."""
    write: Callable[[dict[str, Any]], dict[str, Any]]
    """Bring parameters into the form this database stores."""
    row: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    """Bring the fields of a record into that form, in their order."""
    pattern: Callable[[str], str]
    """Bring a type pattern, in which ``*`` is any run, into the form its queries compare."""
    prelude: tuple[str, ...] = ()
    """What has to exist before the schema can be created."""

    def __getitem__(self, name: str) -> Query:
        """Return the query *name*."""
        return self.queries[name]

    def script(self, name: str) -> tuple[str, ...]:
        """Return the statements of one of this dialect's SQL files, for its schema."""
        return _script(self.name, name, self.schema)


def parse(text: str, schema: str | None = None) -> dict[str, Query]:
    """Split a ``queries.sql`` into its named queries; the file itself stays valid SQL."""
    _, *parts = _NAME.split(text)
    return {
        name: Query(name, _COMMENT.sub("", _placed(body, schema)).strip().removesuffix(";"))
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def load_queries(dialect: str, schema: str | None) -> dict[str, Query]:
    """Read the queries of *dialect*, bound to *schema*."""
    return parse(_file(dialect, "queries.sql"), schema)


@cache
def _script(dialect: str, name: str, schema: str | None) -> tuple[str, ...]:
    # Statements end with ';' and a blank line, so that bodies of triggers and functions need
    # no parser here; a test holds every file to it.
    pieces = _END.split(_placed(_file(dialect, name), schema) + "\n\n")
    return tuple(piece.strip() + ";" for piece in pieces if _COMMENT.sub("", piece + "\n").strip())


def _file(dialect: str, name: str) -> str:
    text = pkgutil.get_data("outrider.sql", f"{dialect}/{name}")
    assert text is not None
    return text.decode()


def _placed(text: str, schema: str | None) -> str:
    if schema is not None:
        grammar.identifier(schema, "schema")
    # Quoted, because a schema may be called like a word of SQL.
    return text.replace(_MARKER, f'"{schema}".' if schema else "")
