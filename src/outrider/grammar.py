"""The grammar of names, keys and headers: what may enter the log.

Every text that is later compared, routed or sent by a transport is checked here, once, on
the way in. Text is refused rather than repaired: a key that was silently changed is a key
that no longer finds its events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from outrider.errors import ConfigError, EventTooLargeError, InvalidEventError, shown

NAME_BYTES_MAX = 200
KEY_BYTES_MAX = 255
HEADERS_MAX = 100
HEADERS_BYTES_MAX = 16 * 1024
RESERVED_TYPES = "outrider."

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_HEADER_NAME = re.compile(_WORD)
_MEDIA_TYPE = re.compile(
    rf'{_WORD}/{_WORD}(?: *; *{_WORD}=(?:{_WORD}|"[\x20\x21\x23-\x5b\x5d-\x7e]*"))*'
)
_RESERVED_HEADERS = frozenset(
    {
        *("connection", "content-length", "content-type", "expect", "host", "keep-alive"),
        *("proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        *("upgrade", "idempotency-key", "x-idempotency-key", "nats-msg-id"),
    }
)
_NO_KEYS = (bool, float, bytes, bytearray, memoryview)
_RESERVED_PREFIXES = ("webhook-", "outrider-", "ce-", "ce_", "cloudevents:", "cloudevents_")


def event_type(name: object) -> str:
    """Return *name* if it is an event type that an application may use."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_BYTES_MAX:
        raise InvalidEventError(
            f"{shown(name)} is not an event type; use letters, digits and '_' in segments "
            f"separated by '.', starting with a letter, at most {NAME_BYTES_MAX} bytes, "
            "for example 'order.placed', without transport, topic or wildcard"
        )
    if name.startswith(RESERVED_TYPES):
        raise InvalidEventError(
            f"event type {name!r} begins with {RESERVED_TYPES!r}, which is reserved for Outrider's "
            "own records; choose another first segment"
        )
    return str.__str__(name)  # an enum's text, not its name


def namespace(name: str) -> str:
    """Return *name* if it can name the writing service."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_BYTES_MAX:
        raise InvalidEventError(
            f"{shown(name)} is not a namespace; name the writing service like 'shop' or "
            "'shop.billing': letters, digits and '_' in segments separated by '.'"
        )
    return name


def identifier(name: str, what: str) -> str:
    """Return *name* if it can be a schema, table or role name without any quoting."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ConfigError(
            f"{shown(name)} is not a {what} name; use lower-case letters, digits and '_', "
            "at most 48, not starting with a digit"
        )
    return name


def content_type(value: str) -> str:
    """Return *value* if it is a media type."""
    if not isinstance(value, str) or not _MEDIA_TYPE.fullmatch(value) or len(value) > KEY_BYTES_MAX:
        raise InvalidEventError(
            f"content type {shown(value)} is not a media type; write it like 'image/png'"
        )
    return str.__str__(value)


def key(value: object, what: str) -> str:
    """Return *value* as text that every database stores and compares byte for byte."""
    text = value if type(value) is str else _plain(value, what)
    if text.isascii() and 0 < len(text) <= KEY_BYTES_MAX and "\x00" not in text:
        return text
    if not text:
        raise InvalidEventError(f"{what} is empty; leave it out or give it a value")
    return bounded(text, what)


def bounded(text: str, what: str) -> str:
    """Return *text* if every database can store it and it fits the limit for keys."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidEventError(
            f"{what} {shown(text)} holds a lone surrogate at {error.start}; keys are UTF-8 text"
        ) from error
    if size > KEY_BYTES_MAX:
        raise InvalidEventError(
            f"{what} {shown(text)} has {size} bytes, the limit is {KEY_BYTES_MAX}; "
            "use a shorter key, or a hash of this one"
        )
    if "\x00" in text:
        raise InvalidEventError(f"{what} {shown(text)} holds a NUL character; leave it out")
    return text


def headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return *given* if every transport can carry it exactly as it is."""
    if not isinstance(given, Mapping):
        raise InvalidEventError(f"headers are {type(given).__name__}; give a mapping of texts")
    if len(given) > HEADERS_MAX:
        raise InvalidEventError(
            f"{len(given)} headers, the limit is {HEADERS_MAX}; put data into the payload"
        )
    seen: dict[str, str] = {}
    for name, value in given.items():
        _check_header(name, value)
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise InvalidEventError(
                f"headers {other!r} and {name!r} differ only in case, and some transports merge "
                "them; keep one"
            )
    size = sum(len(name) + len(value) for name, value in given.items())
    if size > HEADERS_BYTES_MAX:
        raise EventTooLargeError(
            "the headers", size, HEADERS_BYTES_MAX, "put data into the payload"
        )
    return dict(given)


def _check_header(name: str, value: str) -> None:
    if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
        raise InvalidEventError(
            f"{shown(name)} is not a header name; use letters, digits and '-', without spaces, "
            "colons or control characters"
        )
    if name.lower() in _RESERVED_HEADERS or name.lower().startswith(_RESERVED_PREFIXES):
        raise InvalidEventError(
            f"header {name!r} is reserved: the transport or Outrider sets it; choose another name"
        )
    if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
        # The value may be a credential, so it is not shown.
        raise InvalidEventError(
            f"the value of header {name!r} cannot be sent as it is; use printable ASCII without "
            "line breaks and without spaces at its ends, or put it into the payload"
        )


def _plain(value: object, what: str) -> str:
    """Return the text of *value* if it has one of its own: not an address, not a container's."""
    if isinstance(value, Enum):
        return key(value.value, what)
    if isinstance(value, str):
        return str.__str__(value)  # str() of a subclass may say something else
    is_text = isinstance(value, int) or type(value).__str__ is not object.__str__
    if value is None or not is_text or isinstance(value, _NO_KEYS):
        raise InvalidEventError(
            f"{what} is {shown(value)} of type {type(value).__name__}; "
            "use text, an integer or a UUID"
        )
    try:
        return str(value)
    except ValueError as error:
        raise InvalidEventError(f"{what} is {shown(value)}; use a shorter key") from error
