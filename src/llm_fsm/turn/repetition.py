"""The one rule against words that the user reads twice.

A turn may have the words of several calls of a model: a second call has read the first one's
words, and small models write them again. Two texts are the same if their letters, digits and
symbols are, in any case. Punctuation and spaces do not count, except a mark before a digit: "-5" is
not "5".
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

_SEPARATORS = "PZC"
"""First letters of the Unicode categories of punctuation, spaces and control characters."""


class _Letters(NamedTuple):
    """The characters of a text that count, folded, and behind each its place in the text."""

    folded: str
    places: tuple[int, ...]


def _letters(text: str) -> _Letters:
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        following = text[place + 1 : place + 2]
        if _is_separator(character) and (character.isspace() or not following.isdigit()):
            continue
        for letter in character.casefold():
            folded.append(letter)
            places.append(place)
    return _Letters("".join(folded), tuple(places))


def _is_separator(character: str) -> bool:
    return unicodedata.category(character)[0] in _SEPARATORS


def repeats(earlier: str, text: str) -> bool:
    """Return true if an earlier text ends with the words of a text.

    Example:
        >>> repeats("Noted. How many?", "how many"), repeats("A carrot", "rot")
        (True, False)
    """
    before, now = _letters(earlier), _letters(text)
    if not now.folded or not before.folded.endswith(now.folded):
        return False
    return _begins_word(before, len(before.folded) - len(now.folded))


def continues(earlier: str, text: str) -> bool:
    """Return true if a text begins with all words of an earlier one.

    Example:
        >>> continues("One moment.", "one moment … it is done"), continues("Yes", "Yesterday")
        (True, False)
    """
    before, now = _letters(earlier), _letters(text)
    if not before.folded or not now.folded.startswith(before.folded):
        return False
    number = len(before.folded)
    return number == len(now.folded) or _begins_word(now, number)


def may_repeat(earlier: str, text: str) -> bool:
    """Return true if a text that is still arriving is so far the same as words within an earlier
    one.

    Example:
        >>> may_repeat("Noted. How many?", "How"), may_repeat("Noted. How many?", "How long")
        (True, False)
    """
    before, now = _letters(earlier), _letters(text)
    place = before.folded.find(now.folded)
    while place >= 0:
        if not now.folded or _begins_word(before, place):
            return True
        place = before.folded.find(now.folded, place + 1)
    return False


def _begins_word(letters: _Letters, number: int) -> bool:
    """Return true if the letter of this number begins a word, because a separator comes before."""
    return number == 0 or letters.places[number] - letters.places[number - 1] > 1


def without_repetition(texts: Sequence[str], text: str) -> tuple[str, ...]:
    """Add the words of a model to the earlier texts of a turn, so that nothing is read twice.

    Words that the earlier ones end with are left out. Words that begin with earlier ones take
    their place.

    Args:
        texts: The texts so far, in order.
        text: The words of one more call.

    Returns:
        The texts with the new words.

    Example:
        >>> without_repetition(("One moment.",), "One moment. It is done.")
        ('One moment. It is done.',)
    """
    for number in range(len(texts)):
        ends = " ".join(texts[number:])
        if repeats(ends, text):
            return tuple(texts)
        if continues(ends, text):
            return (*texts[:number], text)
    return (*texts, text)
