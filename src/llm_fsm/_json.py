"""Small helpers for JSON: compact text, and pointers (RFC 6901)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json


def escape(key: str) -> str:
    """A key as a segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def unescape(segment: str) -> str:
    """The key that a segment of a JSON pointer means."""
    return segment.replace("~1", "/").replace("~0", "~")


def step(key: str | int) -> str:
    """One step of a JSON pointer, its slash included."""
    return "/" + escape(str(key))


def steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer, unescaped."""
    return [unescape(part) for part in pointer.split("/")[1:]]


def places_of(pointer: str) -> Iterator[str]:
    """A JSON pointer and those of all that it stands in, the whole document's last."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def value_at(value: Any, pointer: str) -> Any:
    """What stands at a JSON pointer in a document; None where nothing does."""
    for part in steps(pointer):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


SCALARS = frozenset((str, int, float, bool, type(None)))
_UNICODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)


def in_unicode(value: object) -> str:
    """A JSON value as compact JSON that is valid in UTF-8: characters as they are, halves of surrogate pairs escaped.

    One that circles is a RecursionError.
    """
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return _UNICODE.encode(value).encode("utf-8", "backslashreplace").decode()  # which is how JSON escapes them


def value_of(text: str | bytes) -> Any:
    """What `json.loads` makes of a text, errors too, and in half the time where it is sound."""
    try:
        return from_json(text, cache_strings="keys")
    except (TypeError, ValueError):
        return json.loads(text)


def copied(value: Any) -> Any:
    """A JSON value that shares no list and no object with this one, for hosts, who may change what they are given."""
    if isinstance(value, dict | Mapping):
        return {key: item if type(item) in SCALARS else value_of(in_unicode(item)) for key, item in value.items()}
    return value if type(value) in SCALARS else value_of(in_unicode(value))
