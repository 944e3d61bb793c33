"""Small helpers for JSON: compact text, and pointers (RFC 6901)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec


def escape(key: str) -> str:
    """Write a key as a segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def unescape(segment: str) -> str:
    """Return the key that a segment of a JSON pointer stands for."""
    return segment.replace("~1", "/").replace("~0", "~")


def step(key: str | int) -> str:
    """Write one step of a JSON pointer, with its slash."""
    return "/" + escape(str(key))


def steps(pointer: str) -> list[str]:
    """Split a JSON pointer into its keys."""
    return [unescape(part) for part in pointer.split("/")[1:]]


def places_of(pointer: str) -> Iterator[str]:
    """Yield a JSON pointer and the pointers of all values around it, the whole document last."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def value_at(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer in a document; None if there is none."""
    for part in steps(pointer):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


SCALARS = frozenset((str, int, float, bool, type(None)))



def _as_object(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_UNICODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, default=_as_object)


def in_unicode(value: object) -> str:
    """Write a JSON value as compact text that is valid in UTF-8.

    Characters stay as they are; halves of surrogate pairs are escaped.

    Raises:
        TypeError: The value has no JSON form.
        RecursionError: The value contains itself.
    """
    text = _UNICODE.encode(value)  # msgspec would write NaN as null
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def value_of(text: str | bytes) -> Any:
    """Read JSON as `json.loads` does, with the same errors, in less time if the text is sound."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return json.loads(text)


def copied(value: Any) -> Any:
    """Copy a JSON value, so that a host may change the copy."""
    if isinstance(value, dict | Mapping):
        return {key: item if type(item) in SCALARS else value_of(in_unicode(item)) for key, item in value.items()}
    return value if type(value) in SCALARS else value_of(in_unicode(value))
