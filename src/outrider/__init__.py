"""Store events in the transaction that stores your data; deliver each until it has arrived."""

from outrider.actions import Action
from outrider.errors import (
    ConfigError,
    EmitError,
    EncodingError,
    EventTooLargeError,
    InvalidEventError,
    KeyReusedError,
    MissingDependencyError,
    NotInTransactionError,
    OutriderError,
    SchemaMismatchError,
    StaleVersionError,
    StoreError,
    StoreUnavailableError,
    SubjectErasedError,
    UnsupportedConnectionError,
)
from outrider.event_types import EventNameWarning, event, upcast
from outrider.events import ActionRef, Actor, Draft, Event, EventRef
from outrider.filters import Filter
from outrider.outbox import Outbox

__all__ = [
    "Action",
    "ActionRef",
    "Actor",
    "ConfigError",
    "Draft",
    "EmitError",
    "EncodingError",
    "Event",
    "EventNameWarning",
    "EventRef",
    "EventTooLargeError",
    "Filter",
    "InvalidEventError",
    "KeyReusedError",
    "MissingDependencyError",
    "NotInTransactionError",
    "Outbox",
    "OutriderError",
    "SchemaMismatchError",
    "StaleVersionError",
    "StoreError",
    "StoreUnavailableError",
    "SubjectErasedError",
    "UnsupportedConnectionError",
    "event",
    "upcast",
]
