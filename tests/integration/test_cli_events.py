"""``outrider events``: what it shows of a log, and that it changes nothing."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from click.testing import CliRunner, Result

from outrider import Actor, Draft, Filter, Outbox, event
from outrider.cli.events import PAYLOAD_SHOWN_MAX
from outrider.cli.main import cli
from outrider.log.export import FIELDS, PAGE_EVENTS
from tests.fixtures import schema

outbox = Outbox(namespace="shop", payload_bytes_max=16 * 1024 * 1024)

HOSTILE = [
    "'; DROP TABLE outbox_events;--",
    "%s %(x)s",
    "{0}",
    "\\",
    ":name",
    "<img src=x onerror=alert(1)>",
    "</script><script>",
    "{{7*7}}",
    "a\x1b[2J\x1b]0;x\x07b",
    "gnp.\u202egpj",
    "two\nlines",
    '"quoted"',
    "ключ 漢字 🎉",
]


@event("cli.customer.joined", data_subject="customer", sensitive=("email",))
@dataclass
class CustomerJoined:
    """An event with something to hide."""

    customer: int
    email: str


@contextmanager
def transaction(url: str) -> Iterator[Any]:
    """Answer a connection of an application, and commit at the end."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            yield connection
    else:
        with psycopg.connect(url) as server:
            yield server


@pytest.fixture
def url(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Answer the URL of a database with the schema, which the environment names too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTRIDER_DATABASE_URL", database_url)
    assert invoke("migrate").exit_code == 0
    return database_url


def invoke(*args: str) -> Result:
    return CliRunner().invoke(cli, args)


def emit(url: str, *drafts: Draft) -> list[str]:
    with transaction(url) as tx:
        return [str(ref.id) for ref in outbox.emit_many(tx, drafts)]


def order(number: int, **options: Any) -> Draft:
    return Draft("order.placed", {"order_id": number}, cast("Any", {"key": number, **options}))


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def everything(url: str) -> dict[str, list[schema.Row]]:
    """Answer all rows of all tables."""
    with schema.connect(url) as database:
        tables = [
            row["name"]
            for row in database.run(
                "SELECT table_name AS name FROM information_schema.tables"
                " WHERE table_name LIKE 'outbox_%' AND table_type = 'BASE TABLE'"
                if database.is_postgres
                else "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'outbox_%'"
            )
        ]
        assert "outbox_events" in tables
        return {table: database.rows(table) for table in tables}


@pytest.mark.requirement("OO-TM-12")
def test_events_are_listed_newest_first(url: str) -> None:
    ids = emit(url, order(1), order(2), order(3))

    result = invoke("events", "list", "--limit", "2")

    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["POSITION", "CREATED_AT", "TYPE", "KEY", "ID"]
    assert [(row[0], row[2], row[3], row[4]) for row in rows[1:]] == [
        ("3", "order.placed", "3", ids[2]),
        ("2", "order.placed", "2", ids[1]),
    ]
    assert result.stderr == "older events: --before 2\n"
    older = invoke("events", "list", "--before", "2")
    assert ids[0] in older.stdout
    assert ids[1] not in older.stdout


def test_a_list_is_one_document_or_lines(url: str) -> None:
    ids = emit(url, order(1), order(2))

    document = json.loads(invoke("events", "list", "--json").stdout)
    page = json.loads(invoke("events", "list", "--json", "--limit", "1").stdout)
    written = lines(invoke("events", "list", "--jsonl").stdout)

    assert document.keys() == {"v", "ok", "events", "next"}
    assert (document["v"], document["ok"], document["next"]) == (1, True, None)
    assert [one["id"] for one in document["events"]] == ids[::-1]
    assert all(tuple(one) == FIELDS for one in document["events"])
    assert written == document["events"]
    assert page["next"] == {"before": 2}


def test_fields_are_chosen_and_ordered(url: str) -> None:
    emit(url, order(1))

    table = invoke("events", "list", "--fields", "data,position")
    document = invoke("events", "list", "--fields", "data, position", "--json")

    assert table.stdout.splitlines()[0].split() == ["DATA", "POSITION"]
    assert json.loads(document.stdout)["events"] == [{"data": {"order_id": 1}, "position": 1}]


@pytest.mark.requirement("OO-TM-12")
@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("type:order.*", [1, 2, 3]),
        ("type:order.p*", [1, 2, 3]),
        ("type:order", []),
        ("type:*d", [1, 2, 3, 4]),
        ("type:cart_cleared", [4]),
        ("type:cartXcleared", []),
        ("key:2", [2]),
        ("tenant:acme", [3]),
        ("entity:order/3 tenant:acme", [3]),
        ("entity:order", [1, 2, 3]),
        ("entity:order/3", []),
        ("request:r-1 source:web namespace:shop", [1]),
        ("actor:user", [1, 2]),
        ("actor:user:7", [2]),
        ("since:1h", [1, 2, 3, 4]),
        ("until:1h", []),
        ("since:2000-01-01 until:2000-01-02", []),
        ("until:9999-01-01", [1, 2, 3, 4]),
    ],
)
def test_a_filter_selects(url: str, where: str, found: list[int]) -> None:
    emit(
        url,
        order(1, request_id="r-1", source="web", actor="user:6"),
        order(2, actor="user:7"),
        order(3, tenant="acme"),
        Draft("cart_cleared", {}),
    )

    result = invoke("events", "list", "--where", where, "--jsonl", "--fields", "position")

    assert [line["position"] for line in lines(result.stdout)] == found[::-1]
    assert result.exit_code == (0 if found else 5)


def test_an_id_selects_one_event(url: str) -> None:
    ids = emit(url, order(1), order(2), order(3))

    result = invoke("events", "list", "--where", f"id:{ids[1]} type:order.*", "--jsonl")
    other = invoke("events", "list", "--where", f"id:{ids[1]} type:cart.*", "--jsonl")

    assert [line["id"] for line in lines(result.stdout)] == [ids[1]]
    assert other.exit_code == 5


def test_nothing_found_exits_with_5_and_says_why(url: str) -> None:
    empty = invoke("events", "list", "--json")
    emit(url, order(1, tenant="acme"))
    other_tenant = invoke("events", "list", "--where", "entity:order/1")

    assert (empty.exit_code, other_tenant.exit_code) == (5, 5)
    assert json.loads(empty.stdout)["events"] == []
    assert empty.stderr == "the log is empty\n"
    assert "add tenant:NAME" in other_tenant.stderr


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_found_byte_for_byte_and_shown_as_one_line(url: str, text: str) -> None:
    emit(url, Draft("order.placed", {"note": text}, {"key": text, "tenant": text}), order(1))

    found = invoke("events", "list", "--where", str(Filter(key=text)), "--jsonl")
    table = invoke("events", "list", "--fields", "key,tenant,data")
    shown = invoke("events", "show", "1")
    followed = invoke("events", "tail", "--from-start", "--count", "2")

    (only,) = lines(found.stdout)
    assert (only["key"], only["tenant"], only["data"]) == (text, text, {"note": text})
    assert len(table.stdout.splitlines()) == 3
    assert len(followed.stdout.splitlines()) == 2
    for result in (found, table, shown, followed):
        assert all(line.isprintable() for line in result.output.splitlines())


@pytest.mark.requirement("OO-RO-04", "OO-RO-05", "OO-RO-06")
def test_everything_about_an_event_is_shown(url: str) -> None:
    with transaction(url) as tx:
        cause = outbox.emit(tx, "cart.closed", {})
        with outbox.action(tx, "checkout", {"cart": 9}) as action:
            action.emit(
                "order.placed",
                {"order_id": 42, "total": 2**70},
                key="42",
                partition_key="p-1",
                entity_version=3,
                headers={"x-flow": "web"},
                metadata={"release": "r-7", "deep": {"a": 1}},
                causation=cause,
                actor=Actor(type="user", id="7", name="Anna", metadata={"ip": "10.0.0.1"}),
                tenant="acme",
                request_id="r-1",
                source="web",
                idempotency_key="k-1",
                keep="7d",
            )
        event_id = str(action.events[0].id)

    people = invoke("events", "show", event_id).stdout
    document = json.loads(invoke("events", "show", event_id, "--json").stdout)["event"]

    assert tuple(document) == FIELDS
    expected = {
        "position": 2,
        "id": event_id,
        "type": "order.placed",
        "version": 1,
        "tenant": "acme",
        "namespace": "shop",
        "key": "42",
        "partition_key": "p-1",
        "entity": {"type": "order", "id": "42", "version": 3},
        "correlation_id": cause.correlation_id,
        "causation_id": str(cause.id),
        "request_id": "r-1",
        "idempotency_key": "k-1",
        "actor": {"type": "user", "id": "7", "name": "Anna", "metadata": {"ip": "10.0.0.1"}},
        "source": "web",
        "keep_seconds": 604800,
        "headers": {"x-flow": "web"},
        "content_type": "application/json",
        "data": {"order_id": 42, "total": 2**70},
        "data_base64": None,
    }
    assert {name: document[name] for name in expected} == expected
    assert document["metadata"].items() >= {"release": "r-7", "deep": {"a": 1}}.items()
    assert document["action"]["name"] == "checkout"
    assert document["action"]["params"] == {"cart": 9}
    for text in ("42", "p-1", "x-flow", "r-7", "Anna", "acme", "k-1", "checkout", str(2**70)):
        assert text in people
    assert str(cause.id) in people


def test_an_event_is_found_by_its_position_too(url: str) -> None:
    ids = emit(url, order(1), order(2))

    assert json.loads(invoke("events", "show", "2", "--json").stdout)["event"]["id"] == ids[1]


@pytest.mark.parametrize("wanted", ["7", "0", "9" * 19, "0199f2c4-7a6e-7c3b-9d52-3f1b2a4c5d6e"])
def test_an_event_that_is_not_there_exits_with_5(url: str, wanted: str) -> None:
    people = invoke("events", "show", wanted)
    machines = invoke("events", "show", wanted, "--json")

    assert (people.exit_code, machines.exit_code) == (5, 5)
    assert f"there is no event {wanted}" in people.stderr
    assert json.loads(machines.stdout).items() >= {"v": 1, "ok": False, "code": "OUT012"}.items()


def test_a_payload_is_shown_with_every_digit_that_was_stored(url: str) -> None:
    payload = b'{"a": 1.10,\n "b": 12345678901234567890.125, "c": -0.0, "d": [1e5]}'
    emit(url, Draft("order.placed", payload, {"content_type": "application/json"}))

    written = invoke("events", "export").stdout

    assert '"data":{"a":1.10,"b":12345678901234567890.125,"c":-0.0,"d":[1E+5]}' in written


def test_bytes_are_shown_short_and_exported_whole(url: str) -> None:
    data = bytes(range(256))
    emit(url, Draft("image.stored", data, {"content_type": "image/png"}))

    people = invoke("events", "show", "1").stdout
    document = json.loads(invoke("events", "show", "1", "--json").stdout)["event"]

    assert "256 bytes: 00 01 02" in people
    assert document["data"] is None
    assert document["data_base64"].startswith("AAECAwQF")


def test_a_payload_that_somebody_else_wrote_badly_is_still_shown(url: str) -> None:
    with schema.connect(url) as database:
        database.insert("outbox_events", **schema.new_event(1, payload='{"a": 1, "a": \n2}'))

    people = invoke("events", "show", "1")
    document = json.loads(invoke("events", "show", "1", "--json").stdout)["event"]

    assert '  {"a": 1, "a": \n  2}' in people.stdout
    assert (document["data"], document["data_base64"]) == (None, "eyJhIjogMSwgImEiOiAKMn0=")


def test_a_huge_payload_is_cut_for_people(url: str) -> None:
    emit(url, Draft("blob.stored", {f"k{number}": "x" * 20 for number in range(100_000)}))

    people = invoke("events", "show", "1")
    listed = invoke("events", "list", "--fields", "data")
    document = json.loads(invoke("events", "show", "1", "--json").stdout)

    assert len(people.stdout) < PAYLOAD_SHOWN_MAX * 2
    assert "more characters; --json has all of it" in people.stdout
    assert len(listed.stdout) < 200
    assert len(document["event"]["data"]) == 100_000


def test_encrypted_values_are_masked_everywhere(url: str) -> None:
    with transaction(url) as tx:
        outbox.emit(tx, CustomerJoined(customer=5, email="anna@example.com"))

    results = [
        invoke("events", "list", "--fields", "data"),
        invoke("events", "list", "--json"),
        invoke("events", "list", "--jsonl"),
        invoke("events", "show", "1"),
        invoke("events", "show", "1", "--json"),
        invoke("events", "tail", "--from-start", "--count", "1"),
        invoke("events", "tail", "--from-start", "--count", "1", "--jsonl"),
        invoke("events", "export"),
        invoke("events", "export", "--format", "cloudevents"),
    ]

    for result in results:
        assert result.exit_code == 0
        assert "•••" in result.stdout
        assert "$sealed" not in result.output
        assert "anna@example.com" not in result.output


@pytest.mark.requirement("OO-RO-09", "NEV-35")
def test_looking_changes_nothing(url: str) -> None:
    emit(url, order(1), order(2, tenant="acme"))
    before = everything(url)

    for args in (
        ["list"],
        ["list", "--where", "type:order.*", "--json"],
        ["show", "1"],
        ["tail", "--from-start", "--count", "2"],
        ["export"],
        ["export", "--format", "cloudevents"],
    ):
        assert invoke("events", *args).exit_code == 0
    invoke("verify")
    invoke("migrate", "--plan")

    assert everything(url) == before


def test_the_commands_need_no_right_to_write(postgres_url: str) -> None:
    assert invoke("migrate", "-d", postgres_url).exit_code == 0
    emit(postgres_url, order(1))
    read_only = f"{postgres_url}?options=-c%20default_transaction_read_only%3Don"

    assert invoke("events", "list", "-d", read_only).exit_code == 0
    assert invoke("events", "export", "-d", read_only).exit_code == 0


def test_a_database_without_the_schema_says_migrate(database_url: str) -> None:
    if database_url.startswith("sqlite:"):
        sqlite3.connect(database_url.removeprefix("sqlite:///")).close()
        Path(database_url.removeprefix("sqlite:///")).touch()

    result = invoke("events", "list", "-d", database_url)

    assert result.exit_code == 3
    assert "error OUT032" in result.stderr
    assert "outrider migrate" in result.stderr


def test_an_export_goes_through_the_whole_log_in_pages(url: str) -> None:
    ids = emit(url, *(order(number) for number in range(2 * PAGE_EVENTS + 1)))

    result = invoke("events", "export")

    assert [line["id"] for line in lines(result.stdout)] == ids
    last = 2 * PAGE_EVENTS + 1
    assert result.stderr == f"{last} events, last position {last}; go on with --after {last}\n"


def test_an_export_goes_on_where_it_ended(url: str, tmp_path: Path) -> None:
    ids = emit(url, order(1), order(2))
    file = tmp_path / "events.jsonl"
    first = invoke("events", "export", "--output", str(file))
    ids += emit(url, order(3))

    again = invoke("events", "export", "--output", str(file))
    more = invoke("events", "export", "--output", str(file), "--append", "--after", "2")
    none = invoke("events", "export", "--output", str(file), "--append", "--after", "3")

    assert (first.exit_code, again.exit_code, more.exit_code, none.exit_code) == (0, 2, 0, 5)
    assert first.stdout == more.stdout == ""
    assert "is there already" in again.stderr
    assert [line["id"] for line in lines(file.read_text())] == ids


def test_an_export_takes_what_a_filter_selects(url: str) -> None:
    ids = emit(url, order(1), Draft("cart.closed", {}), order(2))

    result = invoke("events", "export", "--where", "type:cart.*")

    assert [line["id"] for line in lines(result.stdout)] == [ids[1]]
    assert "1 events, last position 2" in result.stderr


def test_an_export_speaks_cloudevents(url: str) -> None:
    (event_id,) = emit(url, order(42, tenant="acme", source="web", actor="user:7"))

    (found,) = lines(invoke("events", "export", "--format", "cloudevents").stdout)

    assert found["id"] == event_id
    assert found["specversion"] == "1.0"
    assert (found["source"], found["type"], found["subject"]) == (
        "shop",
        "order.placed",
        "order/42",
    )
    assert (found["origin"], found["authtype"], found["authid"]) == ("web", "user", "7")
    assert found["data"] == {"order_id": 42}


def test_a_line_is_a_line_whatever_the_event_says(url: str) -> None:
    payload = b'{\n"a":\r\n"x\\ny\\u2028"}'
    emit(url, Draft("order.placed", payload, {"content_type": "application/json", "key": "a\nb"}))

    for chosen in ("jsonl", "cloudevents"):
        result = invoke("events", "export", "--format", chosen)
        assert len(result.stdout.splitlines()) == 1
        assert json.loads(result.stdout)["data"] == {"a": "x\ny\u2028"}


def test_a_reader_that_leaves_is_no_mistake_of_ours(url: str) -> None:
    emit(url, *(Draft("order.placed", {"x": "y" * 1000}) for _ in range(1000)))

    with subprocess.Popen(
        [sys.executable, "-m", "outrider", "events", "export"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()

    assert process.returncode == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("where", ["", "type:order.*"])
def test_following_shows_what_comes_and_ends_with_130(url: str, where: str) -> None:
    emit(url, order(1))

    with subprocess.Popen(
        [
            *(sys.executable, "-m", "outrider", "events", "tail", "--from-start", "--jsonl"),
            *("--interval", "10ms", "--where", where),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        emit(url, order(2))
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        said = process.stderr.read()

    assert [first["key"], second["key"], rest] == ["1", "2", ""]
    assert process.returncode == 130
    assert "Traceback" not in said


def test_following_people_see_a_line_each(url: str) -> None:
    emit(url, order(1), Draft("image.stored", b"\x00", {"content_type": "image/png"}))

    result = invoke("events", "tail", "--from-start", "--count", "2")

    first, second = result.stdout.splitlines()
    assert first.split("  ")[2:] == ["order.placed", "1", '{"order_id":1}']
    assert second.split("  ")[2:] == ["image.stored", "-", "1 bytes"]
