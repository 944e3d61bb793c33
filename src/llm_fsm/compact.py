"""JSON text without spaces, written quickly.

The standard library makes a new encoder for every call, and keeps a table of open containers against circles, which
takes longer than the writing. Values here are JSON, bounded in depth where they come in, so they have no circles.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder
from typing import Any


def _writer(*, ascii: bool) -> Callable[[object], str]:
    """What writes values as JSON; one that circles is a RecursionError."""
    plain = json.JSONEncoder(ensure_ascii=ascii, separators=(",", ":"), check_circular=False)
    made: Any = getattr(encoder, "c_make_encoder", None)
    if made is None:  # an interpreter without the accelerator
        return plain.encode
    text = encoder.encode_basestring_ascii if ascii else encoder.encode_basestring
    chunks = made(None, plain.default, text, None, ":", ",", False, False, True)
    return lambda value: "".join(chunks(value, 0))


in_ascii = _writer(ascii=True)
"""A value as compact JSON, everything beyond ASCII as escapes."""
in_unicode = _writer(ascii=False)
"""A value as compact JSON, characters as they are."""
