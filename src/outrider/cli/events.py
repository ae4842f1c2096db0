"""``outrider events``: look at the log. Every command here only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import click

from outrider.cli.commands import Command, Group, json_option, verbose_option
from outrider.cli.database import Database, database_options
from outrider.cli.failures import DONE, NOTHING_FOUND, NothingFoundError
from outrider.cli.output import (
    ABSENT,
    cell,
    json_pretty,
    json_text,
    painted,
    print_json,
    print_line,
    print_note,
    print_table,
    safe,
    safe_lines,
)
from outrider.cli.parameters import POSITION, where_option
from outrider.cli.parameters import fields as read_fields
from outrider.errors import ConfigError
from outrider.events import Event
from outrider.filters import Filter
from outrider.log.export import document, plain_event
from outrider.sql import read
from outrider.sql.dialect import Dialect
from outrider.sql.plan import Plan, Row

PAYLOAD_SHOWN_MAX = 64 * 1024
_COLUMNS = ("position", "created_at", "type", "key", "id")
_BINARY_SHOWN_MAX = 32
_DIGITS_MAX = 19
_POSITION_MAX = 2**63 - 1


@click.group(
    cls=Group,
    lazy={
        "list": "outrider.cli.events:list_events",
        "show": "outrider.cli.events:show",
        "tail": "outrider.cli.tail:tail",
        "export": "outrider.cli.export:export",
    },
    examples=(
        "outrider events list --where 'type:order.* since:2h'",
        "outrider events show 0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e",
        "outrider events tail --where key:42",
    ),
)
@verbose_option
def events() -> None:
    """Look at the log: list, show, follow and export events. Nothing is changed."""


@click.command(
    "list",
    cls=Command,
    examples=(
        "outrider events list --limit 50",
        "outrider events list --where 'entity:order/42 tenant:acme' --fields position,type,data",
        "outrider events list --where 'type:order.* since:2h' --jsonl | jq .data",
    ),
)
@where_option
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option(
    "--before", type=POSITION, metavar="POSITION", help="Only events before this position."
)
@click.option(
    "--fields",
    type=read_fields,
    metavar="NAME,…",
    help="Which fields, in this order; also those of --json and --jsonl.",
)
@json_option
@click.option("--jsonl", is_flag=True, help="Write one JSON object per event and line.")
@database_options
def list_events(
    database: Database,
    *,
    where: Filter,
    limit: int,
    before: int | None,
    fields: Sequence[str] | None,
    as_json: bool,
    jsonl: bool,
) -> int:
    """List events, newest first.

    Tables cut long values; --json and --jsonl have everything.
    """
    if as_json and jsonl:
        raise ConfigError("--json and --jsonl are both given; keep one")
    with database.open() as connection:
        rows = connection.read(read.backward(connection.dialect, where, before, limit))
    found = [_picked(document(plain_event(row)), fields) for row in rows]
    following = rows[-1]["position"] if len(rows) == limit else None
    if as_json:
        print_json({"events": found, "next": following and {"before": following}})
    elif jsonl:
        for one in found:
            print_line(json_text(one))
    elif found:
        columns = fields or _COLUMNS
        print_table(
            [name.upper() for name in columns],
            [[cell(one[name]) for name in columns] for one in found],
        )
    if not rows:
        print_note(nothing_matches(where))
        return NOTHING_FOUND
    if following is not None and not as_json:
        print_note(f"older events: --before {following}")
    return DONE


@click.command(
    cls=Command,
    examples=(
        "outrider events show 0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e",
        "outrider events show 1847",
        "outrider events show 1847 --json | jq .event.headers",
    ),
)
@click.argument("event", metavar="ID")
@json_option
@database_options
def show(database: Database, *, event: str, as_json: bool) -> None:
    """Show everything about one event: payload, headers, metadata, context and action.

    ID is the event's id or its position. Encrypted values are masked.
    """
    wanted = _wanted(event)
    with database.open() as connection:
        row = connection.read(wanted(connection.dialect))
    if row is None:
        raise NothingFoundError(
            f"there is no event {event} in {database.shown}\n"
            "  fix: outrider events list shows what is there"
        )
    found = plain_event(row)
    if as_json:
        print_json({"event": document(found)})
        return
    for line in _told(found):
        print_line(line)


def nothing_matches(where: Filter) -> str:
    """Say that nothing was found, and what is often the reason."""
    if where.tenant is None and (where.entity_id or where.correlation_id or where.idempotency_key):
        return (
            "no event without a tenant matches; entities, correlations and idempotency keys live "
            "within a tenant, so add tenant:NAME to look there"
        )
    return "no event matches" if str(where) else "the log is empty"


def _picked(full: dict[str, Any], fields: Sequence[str] | None) -> dict[str, Any]:
    return full if fields is None else {name: full[name] for name in fields}


def _wanted(text: str) -> Callable[[Dialect], Plan[Row | None]]:
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        position = min(int(text), _POSITION_MAX)
        return lambda dialect: _at(dialect, position)
    try:
        event_id = UUID(text)
    except ValueError as error:
        raise ConfigError(
            f"{text[:40]!r} is neither the id of an event (a UUID) nor a position"
        ) from error
    return lambda dialect: read.one(dialect, event_id)


def _at(dialect: Dialect, position: int) -> Plan[Row | None]:
    rows = yield from read.forward(dialect, Filter(), position - 1, 1)
    return rows[0] if rows and rows[0]["position"] == position else None


def _told(event: Event[Any]) -> Iterator[str]:
    """Tell an event to a person; whatever came out of the log is made safe."""
    told = document(event)
    yield f"{painted(safe(event.type), bold=True)}  version {event.version}"
    yield from _pairs(
        {
            "position": told["position"],
            "id": told["id"],
            "stored": told["created_at"],
            "occurred": told["time"],
            "due": told["available_at"],
            "namespace": told["namespace"],
            "tenant": told["tenant"],
            "key": told["key"],
            "partition": told["partition_key"],
            "entity": _entity(event),
            "correlation": told["correlation_id"],
            "cause": told["causation_id"],
            "request": told["request_id"],
            "idempotency": told["idempotency_key"],
            "actor": told["actor"],
            "source": told["source"],
            "data subject": told["data_subject"],
            "keep": None if event.keep_seconds is None else f"{event.keep_seconds} s",
        }
    )
    if event.action is not None:
        yield from _section("action", _pairs(told["action"]))
    yield from _section("headers", _pairs(event.headers))
    yield from _section("metadata", _pairs(event.metadata))
    yield from _section(f"payload  {safe(event.content_type)}", _payload(event))


def _section(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield ""
    yield painted(title, bold=True)
    yield from lines


def _pairs(values: Mapping[str, Any]) -> Iterator[str]:
    width = max((len(name) for name in values), default=0)
    if not values:
        yield f"  {ABSENT}"
    for name, value in values.items():
        yield f"  {safe(name):{width}}  {safe(cell(value))}"


def _entity(event: Event[Any]) -> str | None:
    if event.entity is None:
        return None
    version = "" if event.entity_version is None else f"  version {event.entity_version}"
    return f"{'/'.join(event.entity)}{version}"


def _payload(event: Event[Any]) -> Iterator[str]:
    text = _payload_text(event)
    for line in text[:PAYLOAD_SHOWN_MAX].split("\n"):
        yield f"  {line}"
    if len(text) > PAYLOAD_SHOWN_MAX:
        yield f"  … {len(text) - PAYLOAD_SHOWN_MAX} more characters; --json has all of it"


def _payload_text(event: Event[Any]) -> str:
    if not isinstance(event.data, bytes):
        return json_pretty(event.data)
    if event.content_type.startswith("text/") or event.payload[:1] in b"{[":
        return safe_lines(event.data.decode(errors="backslashreplace"))
    start = event.data[:_BINARY_SHOWN_MAX].hex(" ")
    more = " …" if len(event.data) > _BINARY_SHOWN_MAX else ""
    return f"{len(event.data)} bytes: {start}{more}"
