"""Sentences that ask, told apart from those that tell by their question marks.

An open question is said again after a digression, or left out after a move. Nothing here
understands a language. A sentence asks if it has a question mark of any script. Two sentences are
compared letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from llm_fsm._text import TRUNCATED

QUESTION_MARKS = "?\uff1f\u061f\u037e\u055e\u1367"
"""Of Latin, full-width, Arabic, Greek, Armenian and Ethiopic script."""
_UNSPACED = "。！\uff1f"
"""Ends of sentences in scripts that put no space after them."""
_SENTENCE_END = re.compile(
    rf"(?<=[.!…।۔։{_UNSPACED}{QUESTION_MARKS}])\s+|(?<=[{_UNSPACED}])(?=\w)|\n+"
)
_LEANING = 30
"""A question of fewer characters takes along the longer sentence before it: "… a deposit. Is that
all right?".
"""


def asks(text: str) -> bool:
    """Return true if a text has a question mark."""
    return any(mark in text for mark in QUESTION_MARKS)


def question_in(text: str) -> str:
    """Return the sentences that ask in the last paragraph that has any.

    It is "" if none does, or the text was cut off.
    """
    if text.endswith(TRUNCATED):
        return ""
    return next(filter(None, map(_asking, reversed(text.split("\n\n")))), "")


def _asking(paragraph: str) -> str:
    parts = _sentences(paragraph)
    asking = [number for number, part in enumerate(parts) if asks(part)]
    if asking and asking[0] > 0:
        first, before = parts[asking[0]], parts[asking[0] - 1]
        if len(first) < min(_LEANING, len(before)):
            asking.insert(0, asking[0] - 1)
    return _joined(parts[number] for number in asking)


def told_in(text: str) -> str:
    """Return a text without the sentences that ask."""
    told = (
        _joined(part for part in _sentences(paragraph) if not asks(part))
        for paragraph in text.split("\n\n")
    )
    return "\n\n".join(filter(None, told))


def _sentences(paragraph: str) -> list[str]:
    return [part.strip() for part in _SENTENCE_END.split(paragraph)]


def _joined(parts: Iterable[str]) -> str:
    text = ""
    for part in filter(None, parts):
        text += part if not text or text[-1] in _UNSPACED else f" {part}"
    return text


def is_nearer(text: str, first: str, second: str) -> bool:
    """Return true if a text shares more pairs of letters with the first one than with the second
    one.
    """
    pairs = _pairs(text)
    return _share(pairs, _pairs(first)) > _share(pairs, _pairs(second))


def _pairs(text: str) -> frozenset[str]:
    letters = "".join(letter for letter in text.casefold() if letter.isalnum())
    return frozenset(letters[place : place + 2] for place in range(len(letters) - 1))


def _share(pairs: frozenset[str], wanted: frozenset[str]) -> float:
    return len(pairs & wanted) / len(wanted) if wanted else 0.0
