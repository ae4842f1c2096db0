"""Event data to payload bytes and back.

JSON payloads are strict: what is written reads back the same in every JSON reader. So NaN,
infinities, duplicate keys, lone surrogates and U+0000 are refused, integers keep every digit,
and nesting is bounded. Whatever is not JSON travels as opaque bytes under its content type.
The text is made once, here; no database and no target ever rewrites it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, time
from functools import cache
from math import isfinite
from typing import Any, NoReturn

import msgspec

from outrider.errors import EncodingError, InvalidEventError, shown

JSON_TYPE = "application/json"
DEPTH_MAX = 256
SEALED = "$sealed"
"""The one key of the object that stands where a sensitive value was."""

_PATH_SHOWN_MAX = 77
_encoder = msgspec.json.Encoder()
_dumps = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode


def is_json(content_type: str) -> bool:
    """Say whether payloads of *content_type* are JSON text."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence == JSON_TYPE or essence.endswith("+json")


def encode(data: object) -> bytes:
    """Return *data* as strict, compact JSON.

    >>> encode({"order_id": 42, "note": "ü"}).decode()
    '{"order_id":42,"note":"ü"}'
    """
    built = _built(data)
    if _is_sound(built):
        try:
            text = _encoder.encode(built)
        except (ValueError, OverflowError):  # long integers, and what the walk below names
            return dump(_checked(built, "$", 0))
        if b"\\u0000" not in text:
            return text
    return dump(_checked(built, "$", 0))


def _built(data: object) -> Any:
    try:
        if _is_pydantic(type(data)):  # type: ignore[arg-type]  # classes hash
            data = _pydantic_dump(data)
        return msgspec.to_builtins(data, enc_hook=_enc_hook)
    except RecursionError as error:
        raise EncodingError(_too_deep("$")) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise EncodingError(f"the payload cannot be written as JSON: {error}") from error


def dump(plain_data: Any) -> bytes:
    """Write plain data that was checked."""
    return _dumps(plain_data).encode()


def load(text: bytes) -> Any:
    """Read strict JSON; a violation names what is wrong and where.

    Integers keep every digit; a float that no float can hold is refused.
    """
    try:
        source = text.decode()
        found = json.loads(
            source,
            object_pairs_hook=_pairs,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise EncodingError(_too_deep("$")) from error
    except UnicodeDecodeError as error:
        raise EncodingError(f"the payload is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise EncodingError(
            f"the payload is not JSON at character {error.pos}: {error.msg}"
        ) from error
    return _checked(found, "$", 0)


def convert(plain_data: Any, cls: type) -> Any:
    """Build an instance of *cls* from decoded JSON."""
    if validate := _pydantic_validate(cls):
        return _validated(validate, plain_data)
    return msgspec.convert(plain_data, cls, str_keys=True, dec_hook=_dec_hook)


def _is_sound(value: Any) -> bool:
    """Say quickly whether keys are texts, floats finite and nesting bounded.

    This is the hot path of every emit, hence its shape: level by level, without a call for each
    container. The encoder sees the rest.
    """
    level: list[Any] = [[value]]
    for _ in range(DEPTH_MAX + 1):
        deeper: list[Any] = []
        for container in level:
            items = container
            if type(container) is dict:
                for name in container:
                    if type(name) is not str:
                        return False
                items = container.values()
            for item in items:
                kind = type(item)
                if kind is dict or kind is list:
                    deeper.append(item)
                elif kind is float and not isfinite(item):
                    return False
        if not deeper:
            return True
        level = deeper
    return False


def _checked(value: Any, path: str, depth: int) -> Any:
    """Return *value* with text keys only; refuse what strict JSON cannot say."""
    kind = type(value)
    if kind is str:
        _check_text(value, path)
    elif kind is float:
        if not isfinite(value):
            raise EncodingError(
                f"{_at(path)} is {value!r}, which JSON cannot say; send None or leave the field out"
            )
    elif kind is int:
        try:
            str(value)
        except ValueError as error:
            raise EncodingError(f"{_at(path)} is an integer too long to be read") from error
    elif kind is dict:
        if depth >= DEPTH_MAX:
            raise EncodingError(_too_deep(path))
        return {
            name: _checked(item, f"{path}.{name}", depth + 1)
            for name, item in _text_keys(value, path).items()
        }
    elif kind is list or kind is tuple:
        if depth >= DEPTH_MAX:
            raise EncodingError(_too_deep(path))
        return [_checked(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]
    return value


def _text_keys(mapping: Mapping[Any, Any], path: str) -> Mapping[str, Any]:
    if all(type(name) is str for name in mapping):
        for name in mapping:
            _check_text(name, path)
        return mapping
    texts: dict[str, Any] = {}
    for name, item in mapping.items():
        text = _key_text(name, path)
        if text in texts:
            raise EncodingError(
                f"{_at(path)} has two keys that become {shown(text)} in JSON; keep one"
            )
        _check_text(text, path)
        texts[text] = item
    return texts


def _key_text(name: object, path: str) -> str:
    if isinstance(name, str):
        return str.__str__(name)
    try:
        if name is None or isinstance(name, int | float):
            return _dumps(name)
    except ValueError:  # neither NaN nor an endless integer is a key
        pass
    raise EncodingError(f"{_at(path)} has the key {shown(name)}, which is no JSON; use text")


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise EncodingError(
            f"{_at(path)} holds U+0000, which databases and JSON readers cut or refuse; "
            "leave it out, or send bytes under a content type of their own"
        )
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise EncodingError(
                f"{_at(path)} holds a lone surrogate at {error.start}, which is no text"
            ) from error


def _at(path: str) -> str:
    return path if len(path) <= _PATH_SHOWN_MAX else f"{path[:_PATH_SHOWN_MAX]}..."


def _too_deep(path: str) -> str:
    return (
        f"{_at(path)} is nested deeper than {DEPTH_MAX} levels; flatten the payload, or send it "
        "as bytes"
    )


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise EncodingError(f"the payload has the key {shown(twice)} twice in one object; keep one")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise EncodingError(f"the payload holds {name}, which is not JSON; send null or leave it out")


def _float(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise EncodingError(
            f"the payload holds {text:.40}, which no float can hold; send it as text"
        )
    return number


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise EncodingError(
            f"the payload holds an integer of {len(text)} digits; send it as text"
        ) from error


def _enc_hook(value: object) -> Any:
    if _is_pydantic(type(value)):  # type: ignore[arg-type]  # classes hash
        return _pydantic_dump(value)
    # msgspec knows the types themselves, not what is derived from them.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    raise EncodingError(
        f"the payload holds {type(value).__module__}.{type(value).__qualname__}, which has no JSON "
        "form; use a dataclass, an attrs class, a Struct, a pydantic model or plain data"
    )


def _dec_hook(cls: type, value: Any) -> Any:
    if validate := _pydantic_validate(cls):
        return _validated(validate, value)
    raise InvalidEventError(f"no way to build {cls.__qualname__} from a payload")


def _validated(validate: Callable[[bytes], Any], plain_data: Any) -> Any:
    try:
        # JSON mode, because a dump turned dates, decimals and bytes into text.
        return validate(dump(plain_data))
    except ValueError as error:
        # pydantic's own text quotes the value, which may be personal.
        raise ValueError(_problems(error)) from None


def _problems(error: Any) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{problem['msg']} - at {list(problem['loc'])}" for problem in found)


# pydantic is never imported here: a model is told by its class, wherever it came from.
def _pydantic_dump(value: Any) -> Any:
    return value.model_dump(mode="json")


def _pydantic_validate(cls: type) -> Callable[[bytes], Any] | None:
    return getattr(cls, "model_validate_json", None) if _is_pydantic(cls) else None


@cache
def _is_pydantic(cls: type) -> bool:
    return any(
        base.__module__ == "pydantic.main" and base.__qualname__ == "BaseModel"
        for base in getattr(cls, "__mro__", ())
    )
