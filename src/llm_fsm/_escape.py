"""Show control characters as escapes, so that a foreign text cannot move the cursor or hide text.

Control characters (C0, C1), line separators, bidirectional overrides and isolates, and lone surrogates become the
escapes that Python and JSON write: `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def visible(text: str) -> str:
    """Return a text as one line, with escapes for characters that could move the cursor or hide text."""
    return _UNSAFE.sub(escape_of, text)


def escape_of(found: re.Match[str]) -> str:
    """Return the escape of one matched character, as Python and JSON write it: `\\x1b`, `\\u202e`."""
    character = found.group()
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
