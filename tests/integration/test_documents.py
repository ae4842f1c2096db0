"""The forty nasty documents on real databases: what was accepted comes back byte for byte."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from outrider import Draft, Outbox
from outrider.sql.dialects import dialect_named
from tests.fixtures.documents import DOCUMENTS


@pytest.fixture
def connection(database_url: str) -> Iterator[Any]:
    if database_url.startswith("sqlite:"):
        path = Path(database_url.removeprefix("sqlite:///"))
        with closing(sqlite3.connect(path)) as opened:
            yield _with_tables(opened, "sqlite")
    else:
        with psycopg.connect(database_url) as opened_server:
            yield _with_tables(opened_server, "postgres")


def _with_tables(connection: Any, dialect: str) -> Any:
    for statement in dialect_named(dialect).script("schema.sql"):
        connection.execute(statement)
    return connection


@pytest.mark.requirement("OO-EM-08", "OO-EM-09")
@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream"])
@pytest.mark.parametrize("together", [True, False], ids=["in one call", "one by one"])
def test_documents_come_back_byte_for_byte(
    connection: Any, content_type: str, together: bool
) -> None:
    outbox = Outbox(namespace="shop")
    is_json = content_type == "application/json"
    texts = [one.text for one in DOCUMENTS if not (is_json and one.problem)]
    drafts = [Draft("document.stored", text, {"content_type": content_type}) for text in texts]

    if together:
        outbox.emit_many(connection, drafts)
    else:
        for draft in drafts:
            outbox.emit(connection, draft.event, draft.data, content_type=content_type)

    assert [found.payload for found in outbox.read(connection)] == texts
