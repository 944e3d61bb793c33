"""Texts that are safe to show: nothing that came from outside can move the cursor or hide what it
says.

Control characters (C0, C1), bidirectional overrides and isolates, and lone surrogates are shown as
escapes. Python and JSON write the same: `\\x1b`, `\\u202e`. Replies keep their line breaks and
tabs.
"""

from __future__ import annotations

import json
import re

from llm_fsm import _text
from llm_fsm._text import escape_of, visible

_UNSAFE_IN_WORDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def words(text: str) -> str:
    """A text of several lines, such as a reply: line breaks and tabs stay."""
    return _UNSAFE_IN_WORDS.sub(escape_of, text.replace("\r\n", "\n"))


def as_json(document: object, indent: int | None = 2) -> str:
    """A document as JSON, with JSON's own escapes for what cannot be shown; `indent` None: in one
    line.
    """
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def shortened(text: str, chars: int) -> str:
    """One line of at most `chars` characters, marked when something is missing."""
    return _text.shortened(visible(text), chars)


def plural(number: int, one: str, many: str | None = None) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
