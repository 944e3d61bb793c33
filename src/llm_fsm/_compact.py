"""JSON text without spaces, written and read quickly.

pydantic-core does both twice as fast as the standard library. What it will not write or read (halves of surrogate
pairs, very deep values) is left to the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

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
