"""Settings: what is given, else the environment, else ``outrider.toml`` or pyproject.toml.

A setting that nobody gave stays unset until the end, so a default never hides a value from a
lower source. Secrets are never part of a repr.
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

from outrider import grammar
from outrider.errors import ConfigError, OutriderError
from outrider.records import PAYLOAD_BYTES_MAX

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_PAYLOAD_BYTES_LIMIT = 64 * 1024 * 1024


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


def load(
    given: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Collect the settings; *given* (arguments, flags) wins over all, None counts as not given."""
    environ = os.environ if environ is None else environ
    sources = (
        {name: (value, "given") for name, value in (given or {}).items() if value is not None},
        _from_environment(environ),
        _from_files(folder or Path.cwd()),
    )
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        for name, (value, origin) in source.items():
            if name not in found:
                found[name] = _checked(name, value, origin)
                origins[name] = origin
    return Settings(**found, origins=origins)


def safe_url(url: str) -> str:
    """Return *url* without its password or any parameter, for messages.

    >>> safe_url("postgresql://shop:secret@db:5432/shop?sslkey=x")
    'postgresql://shop:***@db:5432/shop'
    """
    match = _URL.fullmatch(url)
    if match is None:
        return "***"
    rest = match["rest"].partition("?")[0]
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{match['scheme']}://{user}{':***' if colon else ''}{at}{place}"


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[object, str]]:
    found: dict[str, tuple[object, str]] = {}
    for name in _CHECKS:
        variable = f"OUTRIDER_{name.upper()}"
        if variable in environ:
            found[name] = environ[variable], variable
        elif f"{variable}_FILE" in environ:
            path = Path(environ[f"{variable}_FILE"])
            found[name] = _secret(path, f"{variable}_FILE"), f"{variable}_FILE"
    if "database_url" not in found and "DATABASE_URL" in environ:
        found["database_url"] = environ["DATABASE_URL"], "DATABASE_URL"
    return found


def _secret(path: Path, variable: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"{variable} names {path}, which cannot be read: {error.strerror}"
        ) from error


def _from_files(folder: Path) -> dict[str, tuple[object, str]]:
    for name, table in (("outrider.toml", ()), ("pyproject.toml", ("tool", "outrider"))):
        path = folder / name
        if not path.is_file():
            continue
        values = _toml(path)
        for key in table:
            values = values.get(key, {})
        for key in values:
            if key not in _CHECKS:
                raise _unknown(key, name)
        if values:
            return {key: (value, name) for key, value in values.items()}
    return {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path.name} cannot be read: {error}") from error


def _unknown(key: str, where: str) -> ConfigError:
    near = difflib.get_close_matches(key, _CHECKS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_CHECKS)}"
    return ConfigError(f"{where} has no setting {key!r} for Outrider; {hint}")


def _checked(name: str, value: object, origin: str) -> object:
    try:
        return _CHECKS[name](value)
    except OutriderError as error:
        raise ConfigError(f"setting {name} ({origin}): {error}") from error


def _database_url(value: object) -> str:
    # The value may hold a password, so no message shows it.
    if not isinstance(value, str) or not (match := _URL.fullmatch(value)):
        raise ConfigError(
            "not a URL; write it like postgresql://user:password@host/database or sqlite:///path"
        )
    if match["scheme"].partition("+")[0] not in ("postgresql", "postgres", "sqlite"):
        raise ConfigError(
            f"no database is spoken to by {match['scheme']}://; use postgresql:// or sqlite://"
        )
    return value


def _schema(value: object) -> str:
    return grammar.identifier(str(value), "schema")


def _namespace(value: object) -> str:
    return grammar.namespace(str(value))


def _payload_bytes_max(value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = 0
    if not 1 <= number <= _PAYLOAD_BYTES_LIMIT:
        raise ConfigError(f"{value!r} is not a size; give bytes from 1 to {_PAYLOAD_BYTES_LIMIT}")
    return number


def _app(value: object) -> str:
    text = str(value)
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise ConfigError(f"{text!r} is not an application; write it like 'app.events:outbox'")
    return text


_CHECKS: Mapping[str, Callable[[object], object]] = {
    "database_url": _database_url,
    "schema": _schema,
    "namespace": _namespace,
    "payload_bytes_max": _payload_bytes_max,
    "app": _app,
}
