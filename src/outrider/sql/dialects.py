"""Find a dialect by name: each is a package beside this module with a function ``dialect``."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from outrider import sql
from outrider.errors import ConfigError
from outrider.sql.dialect import Dialect


@cache
def dialect_named(name: str, schema: str | None = None) -> Dialect:
    """Return the dialect *name*, bound to *schema*."""
    if name not in dialect_names():
        raise ConfigError(
            f"no dialect {name!r}; Outrider speaks {', '.join(sorted(dialect_names()))}"
        )
    found: Dialect = import_module(f"outrider.sql.{name}").dialect(schema)
    return found


@cache
def dialect_names() -> frozenset[str]:
    """Return the names of all dialects."""
    return frozenset(module.name for module in pkgutil.iter_modules(sql.__path__) if module.ispkg)
