"""Hostile and nasty inputs, each with what becomes of it: kept exactly, or refused with a reason.

Whatever is refused is refused before the first statement, so nothing is written; whatever is
accepted is read back as it was.
"""

from __future__ import annotations

import re
import sqlite3
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import outrider
from outrider import (
    ConfigError,
    Draft,
    EncodingError,
    Event,
    EventTooLargeError,
    KeyReusedError,
    MissingDependencyError,
    Outbox,
    OutriderError,
    config,
    event,
)
from outrider.config import safe_url
from outrider.errors import shown
from outrider.event_types import DECLARED
from outrider.testing import migrate
from tests.fixtures.documents import DOCUMENTS, Document

NAME = "teapot.filled"
SOURCE = Path(outrider.__file__).parent


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test declares end with it."""
    for name in ("_by_name", "_by_class", "_upcasts"):
        monkeypatch.setattr(DECLARED, name, dict(getattr(DECLARED, name)))


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        migrate(connection)
        yield connection


OUTBOX = Outbox(namespace="shop")


def kept(
    db: sqlite3.Connection, name: str = NAME, data: object = None, **options: Any
) -> Event[Any]:
    """Return the event as it is read back."""
    OUTBOX.emit(db, name, data, **options)
    (found,) = OUTBOX.read(db)
    return found


def refused(db: sqlite3.Connection, name: Any = NAME, data: object = None, **options: Any) -> str:
    """Return why the event is refused, having seen that it wrote nothing."""
    before = db.total_changes
    with pytest.raises(OutriderError) as error:
        OUTBOX.emit(db, name, data, **options)
    assert db.total_changes == before
    assert not db.in_transaction
    assert len(str(error.value)) < 400
    return str(error.value)


def test_there_are_forty_documents() -> None:
    assert len({document.name for document in DOCUMENTS}) == len(DOCUMENTS) == 40


@pytest.mark.requirement("OO-EM-08")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_a_document_is_kept_byte_for_byte_or_refused_with_the_reason(
    db: sqlite3.Connection, document: Document
) -> None:
    if document.problem is None:
        found = kept(db, data=document.text, content_type="application/json")
        assert found.payload == document.text
    else:
        problem = refused(db, data=document.text, content_type="application/json")
        assert document.problem in problem


@pytest.mark.requirement("OO-EM-08")
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_as_opaque_bytes_every_document_is_kept_byte_for_byte(
    db: sqlite3.Connection, document: Document
) -> None:
    found = kept(db, data=document.text, content_type="application/octet-stream")

    assert found.payload == found.data == document.text


def test_an_integer_of_30_digits_is_kept_because_integers_are_exact_here(
    db: sqlite3.Connection,
) -> None:
    # Other strict encoders refuse it, for the sake of readers that would cut it.
    number = 123_456_789_012_345_678_901_234_567_890

    assert kept(db, data={"n": number}).data == {"n": number}


@pytest.mark.parametrize(
    "data",
    [
        *(float("nan"), {"a": float("-inf")}, "\ud800", "a\x00", {1: "a", "1": "b"}, 10**5000),
        *({"a": object()}, {float("nan"): 1}, (n for n in range(3))),
    ],
    ids=lambda data: type(data).__name__,
)
def test_objects_that_json_cannot_say_are_refused(db: sqlite3.Connection, data: object) -> None:
    assert refused(db, data=data)


@pytest.mark.requirement("OO-EM-05", "OO-EM-07", "OO-EX-03")
@pytest.mark.parametrize(
    "name",
    [
        *("../../x", "a b", "*", ">", "x" * 300, "$JS.API.STREAM.DELETE.X", "topic://a", "a\r\nb"),
        *("x\r\nFLUSHALL\r\n", "<img src=x onerror=alert(1)>", "{{7*7}}", "\u202eorder.placed"),
        *("=cmd()", "a;b", "'; DROP TABLE x;--", "order.placed\x00", "", ".", "order..placed"),
    ],
    ids=shown,
)
def test_a_name_that_a_transport_or_a_screen_would_misread_is_refused(
    db: sqlite3.Connection, name: str
) -> None:
    assert "is not an event type" in refused(db, name)


HOSTILE = [
    "'; DROP TABLE outbox_events;--",
    "%s %(name)s %% %",
    "{0} {name!r}",
    "\\",
    "\\'",
    ":name ::text",
    "$1 ? ?1 @p",
    "*",
    "NULL",
    "null",
    " ",
    "a b",
    "<script>alert(1)</script>",
    "=cmd()",
    "a\r\nb",
    "\u202e",
    "ﬁ ﬁ",
    "e\u0301 é",
    "💥",
    "_%",
]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_in_any_key_is_stored_as_it_is(db: sqlite3.Connection, text: str) -> None:
    found = kept(
        db,
        data={text: text},
        key=text,
        partition_key=text,
        entity=(text, text),
        tenant=text,
        correlation_id=text,
        request_id=text,
        source=text,
        idempotency_key=text,
        data_subject=text,
        actor=outrider.Actor(type=text, id=text, name=text),
        metadata={text: text},
    )

    assert found.data == found.metadata == {text: text}
    assert found.actor == outrider.Actor(type=text, id=text, name=text)
    texts = [found.key, found.partition_key, found.tenant, found.correlation_id, found.request_id]
    texts += [found.source, found.idempotency_key, found.data_subject, *(found.entity or ())]
    assert set(texts) == {text}


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"X-A": "a\r\nX-Injected: 1"}, "cannot be sent as it is"),
        ({"X-A": "a\n b"}, "cannot be sent as it is"),
        ({"X-A": "a\x00"}, "cannot be sent as it is"),
        ({"X-A": "a\x0b"}, "cannot be sent as it is"),
        ({"X-A": "\u2028"}, "cannot be sent as it is"),
        ({"X-A": "é"}, "use printable ASCII"),
        ({"X A": "a"}, "is not a header name"),
        ({"X-A:": "a"}, "is not a header name"),
        ({"": "a"}, "is not a header name"),
        ({"Content-Length": "0"}, "is reserved"),
        ({"Host": "evil"}, "is reserved"),
        ({"Transfer-Encoding": "chunked"}, "is reserved"),
        ({"webhook-signature": "v1,x"}, "is reserved"),
        ({f"X-{n}": "a" for n in range(1000)}, "1000 headers, the limit is 100"),
        ({"X-A": "a" * 65_536}, "65539 bytes, the limit is 16384"),
    ],
    ids=lambda value: shown(value)[:30],
)
def test_headers_that_would_inject_or_not_arrive_are_refused(
    db: sqlite3.Connection, headers: Any, problem: str
) -> None:
    assert problem in refused(db, headers=headers)


@pytest.mark.parametrize("given", ["a.b", "a\r\nX: y", "5", "", 5, b"x" * 16, "../x"], ids=shown)
def test_an_event_id_is_a_uuid_so_it_fits_every_header(db: sqlite3.Connection, given: Any) -> None:
    assert "is not a UUID" in refused(db, id=given)


@pytest.mark.parametrize(
    ("size", "content_type"), [(0, "application/octet-stream"), (262_144, "text/plain")]
)
def test_a_payload_up_to_the_limit_is_kept(
    db: sqlite3.Connection, size: int, content_type: str
) -> None:
    assert kept(db, data=b"x" * size, content_type=content_type).payload == b"x" * size


@pytest.mark.parametrize("size", [262_145, 257 * 1024, 5_000_000])
def test_a_payload_beyond_the_limit_is_refused_and_the_transaction_goes_on(
    db: sqlite3.Connection, size: int
) -> None:
    first = OUTBOX.emit(db, NAME)
    with pytest.raises(EventTooLargeError, match=f"{size} bytes, the limit is 262144"):
        OUTBOX.emit(db, NAME, b"x" * size, content_type="text/plain")
    second = OUTBOX.emit(db, NAME)
    db.commit()

    assert [found.id for found in OUTBOX.read(db)] == [first.id, second.id]


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC),
    ],
    ids=str,
)
def test_extreme_moments_are_stored_exactly(db: sqlite3.Connection, moment: datetime) -> None:
    found = kept(db, at=moment, occurred_at=moment)

    assert found.available_at == found.time == moment


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"at": datetime(2026, 1, 31)}, "has no time zone"),  # noqa: DTZ001
        ({"occurred_at": datetime(2026, 1, 31)}, "has no time zone"),  # noqa: DTZ001
        ({"at": float("nan")}, "has no time zone"),
        ({"at": 0}, "has no time zone"),
        ({"at": "2026-01-31T00:00:00Z"}, "has no time zone"),
        ({"delay": float("nan")}, "is not a duration"),
        ({"delay": timedelta(days=36_526)}, "is not a duration"),
        ({"delay": "-1s"}, "is not a duration"),
        ({"keep": "for ever"}, "is not a duration"),
    ],
    ids=lambda value: shown(value)[:40],
)
def test_moments_without_a_zone_and_endless_durations_are_refused(
    db: sqlite3.Connection, options: Any, problem: str
) -> None:
    assert problem in refused(db, **options)


@pytest.fixture(params=["Pacific/Apia", "America/St_Johns", "UTC"])
def local_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process believe that it runs there; Apia once skipped a day."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.requirement("EKB-29")
@pytest.mark.usefixtures("local_zone")
@pytest.mark.parametrize(
    "moment",
    [
        datetime(2011, 12, 30, 12, tzinfo=UTC),
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2026, 10, 25, 1, 30, 0, 1, tzinfo=UTC),
    ],
    ids=str,
)
def test_the_local_time_zone_changes_nothing(db: sqlite3.Connection, moment: datetime) -> None:
    found = kept(db, at=moment.astimezone(), occurred_at=moment)

    assert found.available_at == found.time == moment
    assert found.time.tzinfo is UTC
    assert abs(found.created_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_key_belongs_to_its_tenant(db: sqlite3.Connection) -> None:
    refs = [OUTBOX.emit(db, NAME, "none", idempotency_key="k")]
    refs += [OUTBOX.emit(db, NAME, t, idempotency_key="k", tenant=t) for t in ("a", "b")]

    assert not any(ref.duplicate for ref in refs)
    assert len({ref.id for ref in refs}) == 3


def test_a_key_with_another_body_is_refused_never_dropped(db: sqlite3.Connection) -> None:
    original = OUTBOX.emit(db, NAME, {"pot": 1}, idempotency_key="k")

    with pytest.raises(KeyReusedError, match="was not written; use a new key") as error:
        OUTBOX.emit(db, NAME, {"pot": 2}, idempotency_key="k")

    assert error.value.original_id == original.id
    assert OUTBOX.emit(db, NAME, {"pot": 1}, idempotency_key="k").duplicate


@pytest.mark.parametrize("tenant", ["", "\x00", "\ud800", "t" * 256, True, b"a", 1.5], ids=shown)
def test_a_tenant_that_is_no_text_is_refused_not_taken_for_none(
    db: sqlite3.Connection, tenant: Any
) -> None:
    assert refused(db, tenant=tenant).startswith("tenant ")


@pytest.mark.parametrize("tenant", ["NULL", "*", "%", "''"])
def test_a_tenant_that_means_all_elsewhere_is_one_like_any_other(
    db: sqlite3.Connection, tenant: str
) -> None:
    OUTBOX.emit(db, NAME, tenant="acme")
    OUTBOX.emit(db, NAME, tenant=tenant)

    (found,) = OUTBOX.read(db, outrider.Filter(tenant=tenant))
    assert found.tenant == tenant


@pytest.mark.parametrize(
    "schema",
    [
        *("events; DROP TABLE users", 'ev"ents', "ev`ents", "public.events", "x" * 64),
        "événements",
        *("events\n", "Events", "1events", "", " ", "ev ents", "events--", "ａ"),  # noqa: RUF001
    ],
    ids=shown,
)
def test_a_schema_that_needs_quoting_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="is not a schema name; use lower-case letters"):
        Outbox(schema=schema).statements("sqlite", "qmark", [])


@pytest.mark.parametrize(
    "url",
    [
        *("postgres:S3cret@db", "S3cret", "mysql://u:S3cret@db/x", "//u:S3cret@db/x"),
        *("postgresql//u:S3cret@db/x", " postgresql://u:S3cret@db/x", "http://u:S3cret@db"),
    ],
)
def test_no_message_shows_the_password_of_a_url(url: str) -> None:
    with pytest.raises(ConfigError) as error:
        config.load({"database_url": url}, environ={}, folder=SOURCE)

    assert "S3cret" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    "url",
    [
        *("https://host/hook?token=S3cret", "postgresql://u:S3cret@h/d"),
        "postgresql://u:S3@cret@h/d",
        *("postgresql://h/d?password=S3cret&x=y@z", "S3cret", "postgresql://u:S3?cret@h/d"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str) -> None:
    assert "S3" not in safe_url(url)
    assert "cret" not in safe_url(url)


def test_settings_do_not_show_their_secrets() -> None:
    given = {"database_url": "postgresql://u:S3cret@db/x"}
    settings = config.load(given, environ={}, folder=SOURCE)

    assert settings.database_url == given["database_url"]
    assert "S3cret" not in f"{settings!r} {settings}"


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Authorization": "Bearer S3cret\n"}},
        {"headers": {"Authorization": "Bearer S3cret", "authorization": "S3cret"}},
        {"data": {"password": "S3cret", "at": float("nan")}},
        {"data": ["S3cret", "\x00"]},
        {"metadata": {"token": "S3cret", "x": object()}},
        {"actor": outrider.Actor(type="a", id="b", metadata={"token": "S3cret" * 9999})},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_refusal_does_not_quote_values_that_may_be_secret(
    db: sqlite3.Connection, options: dict[str, Any]
) -> None:
    data = options.pop("data", None) if "data" in options else None

    assert "S3cret" not in refused(db, NAME, data, **options)


def test_a_payload_is_never_executed_only_read(db: sqlite3.Connection) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (pytest.fail, ("executed",))

    assert "has no JSON form" in refused(db, data=Evil())
    document = '!!python/object/apply:os.system ["true"]'
    assert kept(db, data=document, content_type="application/yaml").data == document.encode()


def test_no_module_unpickles_evaluates_or_loads_unsafely() -> None:
    unsafe = re.compile(r"\b(pickle|marshal|shelve|yaml|eval|exec|__import__)\b[.(]|import pickle")

    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if unsafe.search(line)
    ]
    assert not found


def test_the_core_needs_two_packages() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))

    names = [re.split(r"[^\w-]", need)[0] for need in project["project"]["dependencies"]]
    assert sorted(names) == ["click", "msgspec"]


def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    with pytest.raises(MissingDependencyError, match=r'fix: pip install "outrider\[crypto\]"'):
        event(NAME, sensitive=["mail"], data_subject="guest")(type("Guest", (), {}))


def test_events_are_emitted_without_any_optional_package(
    db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("opentelemetry", "cryptography", "sqlalchemy", "psycopg", "asyncpg", "pydantic"):
        monkeypatch.setitem(sys.modules, module, None)
    for module in ("outrider.tracing", "outrider.encryption"):
        monkeypatch.delitem(sys.modules, module, raising=False)

    bare = Outbox(namespace="shop")
    ref = bare.emit(db, NAME, {"pot": 1})

    assert [found.id for found in bare.read(db)] == [ref.id]


def test_a_thousand_bad_events_among_good_ones_write_nothing(db: sqlite3.Connection) -> None:
    drafts = [Draft(NAME, {"n": n}) for n in range(1000)] + [Draft(NAME, float("nan"))]

    with pytest.raises(EncodingError):
        OUTBOX.emit_many(db, drafts)

    assert OUTBOX.read(db) == []
