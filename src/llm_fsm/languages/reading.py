"""Find words of dates, times and numbers in a message, by the words of every language.

The words of the definition's own language count first. A word of another language counts unless it
is an everyday word of some language: "on" is ten in Turkish only.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from llm_fsm.languages import every_language, language_of

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+")
_FIRST_MARK = 10
"""Marks of lower combining classes belong to a letter, as those of kana do."""
_LONGEST = 5
"""Words of the longest expression."""
_TEMPORAL = ("number", "month", "weekday", "day", "span", "date", "clock", "part", "half", "vague")
"""Kinds of words without which a message names no date and no time."""


def _words(text: str) -> list[str]:
    """Return the words of a text without case and marks, with ä, ae and a alike."""
    letters: list[str] = []
    for part in unicodedata.normalize("NFKD", text.casefold()):
        if unicodedata.combining(part) < _FIRST_MARK:
            letters.append(part)
    plain = unicodedata.normalize("NFC", "".join(letters))
    for written, letter in (("ı", "i"), ("ł", "l"), ("ae", "a"), ("oe", "o"), ("ue", "u")):
        plain = plain.replace(written, letter)
    return _WORD.findall(plain)


@cache
def _expressions(tag: str) -> frozenset[tuple[str, ...]]:
    """Return the words and expressions of dates, times and numbers in all languages."""
    own = language_of(tag)
    everyday: set[tuple[str, ...]] = set()
    for language in every_language():
        everyday |= {tuple(_words(word)) for word in language.everyday}
    found: set[tuple[str, ...]] = set()
    for language in (own, *every_language()):
        known: set[tuple[str, ...]] = set()
        for kind in _TEMPORAL:
            known |= {tuple(_words(word)) for word in language.senses.get(kind, ())}
        found |= known if language is own else known - everyday
    return frozenset(found)


def speaks_of_time(text: str, tag: str = "") -> bool:
    """Return true if a text has a digit, a number word, or a word of dates and times.

    Args:
        text: The text.
        tag: BCP 47 tag of the definition; English if empty.
    """
    known = _expressions(tag)
    words = _words(text)
    for at, word in enumerate(words):
        sizes = range(1, _LONGEST + 1)
        if word.isdecimal() or any(tuple(words[at : at + size]) in known for size in sizes):
            return True
    return False
