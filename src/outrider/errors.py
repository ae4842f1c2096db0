"""Everything Outrider raises on purpose.

    OutriderError
    ├── ConfigError
    │   └── MissingDependencyError
    ├── EmitError
    │   ├── UnsupportedConnectionError   (also a TypeError)
    │   ├── NotInTransactionError
    │   ├── InvalidEventError            (also a ValueError)
    │   │   ├── EncodingError
    │   │   └── EventTooLargeError
    │   ├── KeyReusedError
    │   ├── StaleVersionError
    │   └── SubjectErasedError
    └── StoreError
        ├── StoreUnavailableError
        └── SchemaMismatchError

A message says what happened, with which value, and what to do. ``code`` is stable and
names the entry of docs/reference/errors.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from uuid import UUID

_SHOWN_MAX = 77


class OutriderError(Exception):
    """The root: catch it to catch everything Outrider raises on purpose."""

    code: ClassVar[str] = "OUT000"


class ConfigError(OutriderError):
    """A setting, a declaration or an argument cannot be used."""

    code = "OUT010"


class MissingDependencyError(ConfigError):
    """An optional package that a feature needs is not installed."""

    code = "OUT011"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs a package that is not installed.\n"
            f'  fix: pip install "outrider[{extra}]"'
        )
        self.feature = feature
        self.extra = extra


class EmitError(OutriderError):
    """An event was refused and not written; the transaction is open and usable."""

    code = "OUT020"


class UnsupportedConnectionError(EmitError, TypeError):
    """The object given as a transaction belongs to no driver we know, or to the other world."""

    code = "OUT021"


class NotInTransactionError(EmitError):
    """The connection would commit the event by itself, apart from the caller's data."""

    code = "OUT022"


class InvalidEventError(EmitError, ValueError):
    """A name, key, header or option of the event is outside its grammar."""

    code = "OUT023"


class EncodingError(InvalidEventError):
    """The payload cannot be written as strict JSON."""

    code = "OUT024"


class EventTooLargeError(InvalidEventError):
    """The payload or the headers are larger than the limit."""

    code = "OUT025"

    def __init__(self, what: str, size_bytes: int, limit_bytes: int, remedy: str) -> None:
        super().__init__(f"{what} has {size_bytes} bytes, the limit is {limit_bytes}; {remedy}")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class KeyReusedError(EmitError):
    """An idempotency key or event id was used before, with another body."""

    code = "OUT026"

    def __init__(self, what: str, original_id: UUID) -> None:
        super().__init__(
            f"{what} was used before by event {original_id} with another body, so this "
            "one was not written; use a new key for a new event, or emit the same body again"
        )
        self.original_id = original_id


class StaleVersionError(EmitError):
    """Another writer has written this version of the entity first."""

    code = "OUT027"

    def __init__(self, entity_type: str, entity_id: str, version: int) -> None:
        super().__init__(
            f"{entity_type} {entity_id!r} already has version {version}, so this event was "
            "not written; read the entity again and decide anew"
        )
        self.entity_type = entity_type
        self.entity_id = entity_id
        self.version = version


class SubjectErasedError(EmitError):
    """The event carries personal data of a data subject whose key was erased."""

    code = "OUT028"


class StoreError(OutriderError):
    """The database answered in a way we cannot work with."""

    code = "OUT030"


class StoreUnavailableError(StoreError):
    """The database cannot be reached; trying again later may help."""

    code = "OUT031"


class SchemaMismatchError(StoreError):
    """The database holds another schema than this version of Outrider needs."""

    code = "OUT032"


def shown(value: object) -> str:
    """Return *value* as messages show it: quoted, escaped and short."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits has no text
        text = f"an {type(value).__name__} too long to be shown"
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
