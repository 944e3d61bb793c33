"""JSON and server-sent events, for all doors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from starlette.responses import Response

_IN_HEADERS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_encode = msgspec.json.Encoder().encode


def to_json(value: Any) -> bytes:
    """Write JSON in UTF-8, with escaped halves of surrogate pairs."""
    try:
        return _encode(value)
    except (UnicodeEncodeError, TypeError):
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=dict).encode()


class Json(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return to_json(content)


def in_header(text: str) -> str:
    """Write a text for a header, which holds ASCII alone: any other character, and "%", is
    percent-encoded UTF-8.
    """
    return quote(text, safe=_IN_HEADERS)


def from_header(given: str | None) -> str | None:
    """Read a text from a header, as `in_header` writes it, or as UTF-8 or Latin-1. `given`: decoded
    as Latin-1.
    """
    if given is None:
        return None
    try:
        return unquote(given.encode("latin-1").decode(), errors="strict")
    except (UnicodeDecodeError, UnicodeEncodeError):
        return given


def sse(data: Any, *, event: str | None = None, event_id: str | None = None) -> bytes:
    """Return one server-sent event whose data is JSON, or a text as it is."""
    head = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    if event is not None:
        head += b"event: " + event.encode() + b"\n"
    body = data.encode() if isinstance(data, str) else to_json(data)
    return head + b"data: " + body + b"\n\n"
