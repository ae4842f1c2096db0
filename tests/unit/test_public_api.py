"""What applications may import, and what importing it costs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from typing import Any

import pytest

import outrider

PUBLIC = """
    Action ActionRef Actor ConfigError Draft EmitError EncodingError Event EventNameWarning EventRef
    EventTooLargeError Filter InvalidEventError KeyReusedError MissingDependencyError
    NotInTransactionError Outbox OutriderError SchemaMismatchError StaleVersionError StoreError
    StoreUnavailableError SubjectErasedError UnsupportedConnectionError event upcast
"""
OPTIONAL = """
    aiosqlite alembic asyncpg attr attrs click cryptography django greenlet opentelemetry psycopg
    psycopg_pool pydantic pymysql rich sqlalchemy sqlite3 yaml
"""
IMPORT = """
import json, sys, time
started = time.perf_counter()
import outrider
took = time.perf_counter() - started
print(json.dumps({"ms": took * 1000, "modules": sorted(sys.modules)}))
"""
MILLISECONDS_MAX = 60
"""On a quiet machine. Tests run on busy ones, so they allow some times as much."""
PATIENCE = 5


def imported() -> dict[str, Any]:
    command = [sys.executable, "-c", IMPORT]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_the_public_names_are_these() -> None:
    assert outrider.__all__ == PUBLIC.split()


def test_the_public_names_are_sorted_and_there() -> None:
    assert outrider.__all__ == sorted(outrider.__all__)
    assert all(hasattr(outrider, name) for name in outrider.__all__)


def test_every_public_name_is_documented() -> None:
    for name in outrider.__all__:
        assert inspect.getdoc(getattr(outrider, name)), name


@pytest.mark.parametrize("method", [n for n in dir(outrider.Outbox) if not n.startswith("_")])
def test_every_method_of_an_outbox_is_documented(method: str) -> None:
    assert inspect.getdoc(getattr(outrider.Outbox, method))


def test_importing_outrider_imports_no_optional_package() -> None:
    roots = {module.partition(".")[0] for module in imported()["modules"]}

    assert not roots & set(OPTIONAL.split())
    assert "msgspec" in roots


def test_importing_outrider_is_quick() -> None:
    best = min(imported()["ms"] for _ in range(3))

    print(f"import outrider: {best:.0f} ms, the budget is {MILLISECONDS_MAX} ms")  # noqa: T201
    assert best < MILLISECONDS_MAX * PATIENCE
