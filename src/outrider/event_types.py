"""Event classes: what ``@event`` and ``@upcast`` declare.

Declarations are the one piece of state a process shares: an event type names one class, and
two classes that claim one name would write ambiguous rows. So the name is taken when the
class is declared, at import, and a second class is refused there and then.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import msgspec

from outrider import grammar
from outrider.durations import Duration, duration
from outrider.errors import ConfigError, MissingDependencyError, shown

C = TypeVar("C", bound=type)
Getter: TypeAlias = Callable[[Any], object]
Upcast: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
U = TypeVar("U", bound=Upcast)

VERSION_MAX = 2**31 - 1


class EventNameWarning(UserWarning):
    """An event name that does not read as something that has happened."""


class EventType(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of one event class."""

    name: str
    cls: type
    version: int = 1
    key: Getter | None = None
    entity: Getter | None = None
    entity_type: str | None = None
    keep: timedelta | None = None
    sensitive: tuple[str, ...] = ()
    data_subject: Getter | None = None

    @property
    def says_more(self) -> bool:
        """Say whether it has something to say of a record beside name, version and key."""
        return self.keep is not None or self.data_subject is not None


class EventTypes:
    """The event types a process has declared, by name and by class."""

    def __init__(self) -> None:
        self._by_name: dict[str, EventType] = {}
        self._by_class: dict[type, EventType] = {}
        self._upcasts: dict[tuple[str, int], Upcast] = {}

    def add(self, declared: EventType) -> None:
        """Take the name for the class; the same class declared again replaces itself."""
        known = self._by_name.get(declared.name)
        if known is not None and _path(known.cls) != _path(declared.cls):
            raise ConfigError(
                f"event type {declared.name!r} is declared by two classes, {_path(known.cls)} and "
                f"{_path(declared.cls)}; give one of them another name"
            )
        if known is not None:
            self._by_class.pop(known.cls, None)
        self._by_name[declared.name] = declared
        self._by_class[declared.cls] = declared

    def add_upcast(self, name: str, from_version: int, upcast: Upcast) -> None:
        """Read old payloads of *name* at *from_version* through *upcast*."""
        known = self._upcasts.get((name, from_version))
        if known is not None and _path(known) != _path(upcast):
            raise ConfigError(
                f"{name!r} has two upcasts from version {from_version}, {_path(known)} and "
                f"{_path(upcast)}; keep one"
            )
        self._upcasts[name, from_version] = upcast

    def named(self, name: str) -> EventType | None:
        """Return the declaration of the type *name*, if there is one."""
        return self._by_name.get(name)

    def of(self, event: object) -> EventType:
        """Return the declaration of the class of *event*."""
        declared = self._by_class.get(type(event)) or self._again(type(event))
        if declared is None:
            raise ConfigError(
                f"{_path(type(event))} is not an event class; decorate it with "
                '@event("entity.happened"), or emit a name and data: '
                'outbox.emit(tx, "entity.happened", {...})'
            )
        return declared

    def _again(self, cls: type) -> EventType | None:
        # dataclass(slots=True) above @event makes a second class of the same path.
        for declared in tuple(self):  # another thread may be importing more of them
            if _path(declared.cls) == _path(cls):
                self._by_class[cls] = declared
                return declared
        return None

    def upcast(self, name: str, version: int, data: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Bring *data* from *version* to the newest one that upcasts lead to."""
        while (step := self._upcasts.get((name, version))) is not None:
            data = step(data)
            version += 1
        return version, data

    def __iter__(self) -> Iterator[EventType]:
        return iter(self._by_name.values())


DECLARED = EventTypes()


def event(
    name: str,
    /,
    *,
    version: int = 1,
    key: str | Getter | None = None,
    entity: tuple[str, str | Getter] | None = None,
    keep: Duration | None = None,
    sensitive: Sequence[str] = (),
    data_subject: str | Getter | None = None,
) -> Callable[[C], C]:
    """Declare a class as the event type *name*; the class itself stays as it is.

    ``key`` is a field or a function: events of one key can be delivered in order, and the
    entity defaults to (first segment of the name, key). ``sensitive`` fields are encrypted
    under the key of ``data_subject``.

    >>> from dataclasses import dataclass
    >>> @event("invoice.sent", key="number")
    ... @dataclass(frozen=True)
    ... class InvoiceSent:
    ...     number: int

    .. versionadded:: 0.1
    """
    name = grammar.event_type(name)
    _check_version(name, version)
    _warn_unless_past(name)

    def declare(cls: C) -> C:
        if not isinstance(cls, type):
            raise ConfigError(f"@event({name!r}) decorates a class, not {cls!r}")
        fields = field_names(cls)
        hidden = _sensitive(name, sensitive, data_subject, fields)

        def get(option: str, given: str | Getter | None) -> Getter | None:
            if given in hidden:
                raise ConfigError(
                    f"{option}= of {name!r} names {given!r}, which is sensitive, but is stored as "
                    "it is; name a field that tells nothing about a person, like an internal id"
                )
            return _getter(given, name, option, fields)

        declared = EventType(
            name=name,
            cls=cls,
            version=version,
            key=get("key", key),
            entity=get("entity", entity[1]) if entity else None,
            entity_type=grammar.key(entity[0], "entity type") if entity else None,
            keep=duration(keep) if keep is not None else None,
            sensitive=hidden,
            data_subject=get("data_subject", data_subject),
        )
        DECLARED.add(declared)
        return cls

    return declare


def upcast(name: str, /, *, from_version: int) -> Callable[[U], U]:
    """Declare how a payload of *name* at *from_version* becomes one of the next version.

    Old rows stay as they are; readers see the newest version.

    .. versionadded:: 0.1
    """
    name = grammar.event_type(name)
    _check_version(name, from_version)

    def declare(function: U) -> U:
        DECLARED.add_upcast(name, from_version, function)
        return function

    return declare


def field_names(cls: type) -> frozenset[str] | None:
    """Return the fields of a dataclass, attrs class, Struct or pydantic model, if it says."""
    if hasattr(cls, "__dataclass_fields__"):
        # Somebody has imported it then; for us alone it would be a sixth of what we import.
        fields = import_module("dataclasses").fields(cls)
        return frozenset(field.name for field in fields)
    for attribute in ("__struct_fields__", "__pydantic_fields__"):
        if names := getattr(cls, attribute, None):
            return frozenset(names)
    if attrs_fields := getattr(cls, "__attrs_attrs__", None):
        return _written(cls, frozenset(field.name for field in attrs_fields))
    return None


def _written(cls: type, fields: frozenset[str]) -> frozenset[str]:
    if private := sorted(name for name in fields if name.startswith("_")):
        raise ConfigError(
            f"{_path(cls)} has the field {private[0]!r}, and private fields of attrs classes are "
            "not written; drop the underscore"
        )
    return fields


def _check_version(name: str, version: int) -> None:
    is_number = isinstance(version, int) and not isinstance(version, bool)
    if not (is_number and 1 <= version <= VERSION_MAX):
        raise ConfigError(f"version of {name!r} is {shown(version)}; versions are 1, 2, 3, …")


def _sensitive(
    name: str,
    fields: Sequence[str],
    data_subject: object,
    known: frozenset[str] | None,
) -> tuple[str, ...]:
    if not fields:
        return ()
    if isinstance(fields, str):
        raise ConfigError(f"sensitive= of {name!r} is a sequence of fields; write ({fields!r},)")
    if data_subject is None:
        raise ConfigError(
            f"{name!r} has sensitive fields but no data_subject=; name the field that says whose "
            "data they are, so that they can be erased with that subject's key"
        )
    for field in fields:
        if known is not None and field not in known:
            raise _no_such_field(name, "sensitive", field, known)
    if importlib.util.find_spec("cryptography") is None:
        raise MissingDependencyError(f"sensitive= of event type {name!r}", "crypto")
    return tuple(fields)


def _getter(
    given: str | Getter | None, name: str, option: str, fields: frozenset[str] | None
) -> Getter | None:
    if given is None or callable(given):
        return given
    if fields is not None and given not in fields:
        raise _no_such_field(name, option, given, fields)
    return attrgetter(given)


def _no_such_field(name: str, option: str, field: str, fields: frozenset[str]) -> ConfigError:
    return ConfigError(
        f"{option}= of {name!r} names {field!r}, which is no field; "
        f"fields are {', '.join(sorted(fields))}"
    )


_PREFIXES = ("fore", "mis", "out", "over", "re", "un", "under", "up", "with")
_IRREGULAR = """
    beaten begun bent bitten born borne bought bound broken brought built burnt caught chosen dealt
    done drawn driven eaten fallen fed felt flown forbidden forgiven forgotten fought found frozen
    given gone got gotten grown heard held hidden hung kept known laid learnt led left lent lit lost
    made meant met paid proven ridden risen said seen sent shaken shot shown sold sought spent
    spoken spun stolen stood struck stuck sunk swept sworn swung taken taught thought thrown told
    torn understood woken won worn written
"""
# Also commands, so they tell of the past at the end only: "price.set", not "price.set_limit".
_AT_THE_END = (
    "bid broadcast cast come become cost cut hit hurt let put quit read run set shut split spread"
)
_REGULAR_AFTER_E = ("agreed", "decreed", "freed", "guaranteed", "refereed")
_NEVER = ("embed", "shed", "sled")


def _tells_of_the_past(word: str, *, is_last: bool) -> bool:
    if word.endswith("ed") and len(word) > len("fed"):
        return word not in _NEVER and (word[-3] != "e" or word.endswith(_REGULAR_AFTER_E))
    if is_last and word.endswith("ing") and len(word) > len("string"):
        return True  # what goes on has begun: RETRYING
    known = _IRREGULAR.split() + (_AT_THE_END.split() if is_last else [])
    return not {word, *map(word.removeprefix, _PREFIXES)}.isdisjoint(known)


def _warn_unless_past(name: str) -> None:
    last = name.rpartition(".")[2]
    words = [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", last)]
    while words[-1:] == ["v"]:  # a version: placed_v2
        words.pop()
    last_word = len(words) - 1
    if not any(_tells_of_the_past(w, is_last=n == last_word) for n, w in enumerate(words)):
        warnings.warn(
            f"event type {name!r} does not read as something that has happened; "
            "prefer the past tense, like 'order.placed'",
            EventNameWarning,
            stacklevel=3,
        )


def _path(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"
