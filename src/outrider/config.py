"""Settings: what is given, else the environment, else ``outrider.toml`` or pyproject.toml.

A setting that nobody gave stays unset until the end, so a default never hides a value from a
lower source. Secrets are never part of a repr, and no message shows the password of a URL.

Variables that no setting has are not errors: Kubernetes gives every container names like
``OUTRIDER_SERVICE_HOST`` once a service is called ``outrider``. Files are ours alone, so there an
unknown name is a mistake.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider import grammar, urls
from outrider.errors import ConfigError, OutriderError, shown
from outrider.records import PAYLOAD_BYTES_MAX
from outrider.urls import safe_url

__all__ = ["Settings", "load", "safe_url"]

_APP = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_PAYLOAD_BYTES_LIMIT = 64 * 1024 * 1024
_LIBPQ = ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGDATABASE")
_FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("outrider.toml", ()),
    ("pyproject.toml", ("tool", "outrider")),
)

_Found = dict[str, tuple[object, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, checked."""

    database_url: str | None = field(default=None, repr=False)
    schema: str | None = None
    namespace: str = "app"
    payload_bytes_max: int = PAYLOAD_BYTES_MAX
    app: str | None = None
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where each value that is not a default came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting, as its reference page tells it."""

    check: Callable[[object], object]
    """Return the value as it is used, or raise what is wrong with it."""
    example: str
    says: str


def load(
    given: Mapping[str, object] | None = None,
    *,
    flags: bool = False,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Collect the settings; *given* wins over all, None counts as not given.

    With *flags* messages call what is given by the names of options: ``--schema``.
    """
    environ = os.environ if environ is None else environ
    sources = (
        {
            name: (value, f"--{name.replace('_', '-')}" if flags else f"argument {name}")
            for name, value in (given or {}).items()
            if value is not None
        },
        _from_environment(environ),
        _from_files(folder or Path.cwd()),
        _from_libpq(environ),
    )
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        for name, (value, origin) in source.items():
            if name not in found:
                found[name] = _checked(name, value, origin)
                origins[name] = origin
    return Settings(**found, origins=origins)


def _from_environment(environ: Mapping[str, str]) -> _Found:
    found: _Found = {}
    for name in SETTINGS:
        variable = f"OUTRIDER_{name.upper()}"
        # An empty variable is how compose files and shells say "not set".
        value, path = environ.get(variable), environ.get(f"{variable}_FILE")
        if value and path:
            raise ConfigError(f"both {variable} and {variable}_FILE are set; keep one")
        if value:
            found[name] = value, variable
        elif path:
            found[name] = _secret(Path(path), f"{variable}_FILE"), f"{variable}_FILE"
    if "database_url" not in found and environ.get("DATABASE_URL"):
        found["database_url"] = environ["DATABASE_URL"], "DATABASE_URL"
    return found


def _secret(path: Path, variable: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        # The reason of a UnicodeDecodeError would quote the secret.
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(
            f"{variable} names {shown(str(path))}, which cannot be read: {reason}"
        ) from None


def _from_files(folder: Path) -> _Found:
    for name, table in _FILES:
        path = folder / name
        if not path.is_file():
            continue
        values = _table(_toml(path), table, name)
        for key in values:
            if key not in SETTINGS:
                raise _unknown(key, name)
        if values:
            return {key: (value, name) for key, value in values.items()}
    return {}


def _from_libpq(environ: Mapping[str, str]) -> _Found:
    """Leave everything to libpq where its variables are set and nothing names a database."""
    variable = next((name for name in _LIBPQ if environ.get(name)), None)
    return {} if variable is None else {"database_url": ("postgresql://", variable)}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path.name} cannot be read: it is not UTF-8 at byte {error.start}"
        ) from None
    except (ValueError, RecursionError) as error:
        # A TOMLDecodeError quotes single characters only.
        raise ConfigError(f"{path.name} cannot be read: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path.name} cannot be read: {error.strerror}") from error


def _table(values: dict[str, Any], path: tuple[str, ...], where: str) -> dict[str, Any]:
    for depth, key in enumerate(path, 1):
        values = values.get(key, {})
        if not isinstance(values, dict):
            raise ConfigError(
                f"{'.'.join(path[:depth])} in {where} is no table; write [{'.'.join(path)}]"
            )
    return values


def _unknown(key: str, where: str) -> ConfigError:
    near = difflib.get_close_matches(key, SETTINGS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(SETTINGS)}"
    return ConfigError(f"{where} has no setting {shown(key)} for Outrider; {hint}")


def _checked(name: str, value: object, origin: str) -> object:
    try:
        return SETTINGS[name].check(value)
    except OutriderError as error:
        raise ConfigError(f"setting {name} ({origin}): {error}") from None


def _database_url(value: object) -> str:
    # The value may hold a password, so no message shows it.
    text = value if isinstance(value, str) else ""
    urls.parse(text)
    return text


def _schema(value: object) -> str:
    return grammar.identifier(_text(value), "schema")


def _namespace(value: object) -> str:
    return grammar.namespace(_text(value))


def _payload_bytes_max(value: object) -> int:
    number = value if type(value) is int else 0
    # Ten digits are more than enough, and int() refuses thousands of them in a way of its own.
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value):
        number = int(value)
    if not 1 <= number <= _PAYLOAD_BYTES_LIMIT:
        raise ConfigError(
            f"{shown(value)} is not a size; give bytes from 1 to {_PAYLOAD_BYTES_LIMIT}"
        )
    return number


def _app(value: object) -> str:
    text = _text(value)
    if not _APP.fullmatch(text):
        raise ConfigError(f"{shown(text)} is not an application; write it like 'app.events:outbox'")
    return text


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{shown(value)} is {type(value).__name__}; write text in quotes")
    return value


SETTINGS: Mapping[str, Setting] = {
    "database_url": Setting(
        check=_database_url,
        example="postgresql://shop@db/shop",
        says="The database. `postgresql://user:password@host/database` or `sqlite:///path` (four "
        "slashes before an absolute path). `DATABASE_URL` is read where `OUTRIDER_DATABASE_URL` is "
        "not set; where nothing else names a database, libpq's own variables do (`PGHOST`, "
        "`PGSERVICE`, …). Special characters in the user and the password are percent-encoded.",
    ),
    "schema": Setting(
        check=_schema,
        example="outbox",
        says="The schema (PostgreSQL) or attached database (SQLite) that holds Outrider's tables. "
        "Lower-case letters, digits and `_`, at most 48, not starting with a digit. Unset: what "
        "the connection finds by itself.",
    ),
    "namespace": Setting(
        check=_namespace,
        example="shop",
        says="The writing service, part of every event. Letters, digits and `_` in segments "
        "separated by `.`.",
    ),
    "payload_bytes_max": Setting(
        check=_payload_bytes_max,
        example="262144",
        says=f"The largest payload, in bytes: 1 to {_PAYLOAD_BYTES_LIMIT}.",
    ),
    "app": Setting(
        check=_app,
        example="app.events:outbox",
        says="Where the application's Outbox is: `module:attribute`.",
    ),
}
"""Every setting: its variable is ``OUTRIDER_`` and its name in capitals."""
