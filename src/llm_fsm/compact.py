"""JSON text without spaces, written quickly.

pydantic-core writes a value twice as fast as the standard library does. What it will not write (halves of surrogate
pairs, very deep values) is left to the standard library.
"""

from __future__ import annotations

import json
import re

from pydantic_core import PydanticSerializationError, to_json

_UNICODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False)
_ASCII = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_LONG = re.compile(r"\\U([0-9a-f]{8})")


def in_unicode(value: object) -> str:
    """A JSON value as compact JSON, characters as they are. One that circles is a RecursionError."""
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return _UNICODE.encode(value)


def in_ascii(value: object) -> str:
    """A JSON value as compact JSON, everything beyond ASCII as escapes. One that circles is a RecursionError."""
    text = in_unicode(value).replace("\x7f", "\\u007f")  # as the standard library does
    if text.isascii():
        return text
    if "\\x" in text or "\\U" in text:  # a backslash that somebody wrote before that letter
        return _ASCII.encode(value)
    plain = text.encode("ascii", "backslashreplace").decode().replace("\\x", "\\u00")
    return _LONG.sub(_halves, plain) if "\\U" in plain else plain


def _halves(found: re.Match[str]) -> str:
    """A character beyond the first 65,536 as JSON escapes it: a surrogate pair."""
    beyond = int(found.group(1), 16) - 0x10000
    return f"\\u{0xD800 + (beyond >> 10):04x}\\u{0xDC00 + (beyond & 0x3FF):04x}"
