"""Digits that are no JSON number, and mean a text: phone numbers and postcodes that a model sent without quotes.

What reads broken JSON takes them for numbers, and a leading zero or plus is lost.
"""

from __future__ import annotations

import re

_NUMERAL = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"|(?P<before>[:,\[]\s*)(?P<digits>\+[0-9]+|0[0-9]+)(?=\s*[,}\]])', re.DOTALL
)
_WORDS = '"message"'


def quoted(text: str) -> str:
    """Return a reply with such digits in quotes, up to its words, in which nothing is looked for."""
    head, words, rest = text.partition(_WORDS)
    return _NUMERAL.sub(_in_quotes, head) + words + rest


def _in_quotes(found: re.Match[str]) -> str:
    return found[0] if found["digits"] is None else f'{found["before"]}"{found["digits"]}"'
