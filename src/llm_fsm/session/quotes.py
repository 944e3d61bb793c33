"""The proof of `x-said`: the user's own words for a value, found in what the user wrote.

Texts are compared by NFKC and without regard to case, spaces and punctuation.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llm_fsm.session.list_items import key_of
from llm_fsm.session.redaction import texts_in

QUOTES = "_quotes"
SAID = "x-said"
KINDS = ("quote", "digits")
NOT_SAID = "not said"
_KNOWN = -(10**9)
"""Number of the value so far among the messages."""
_MOST = 10_000
"""Longest quote in characters that is looked for."""

Place = tuple[int, int, int]
"""Number of the message, start and end of the quote in it. Messages before the first turn have numbers below 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWords:
    """The words of the user, as far as the session has them.

    Attributes:
        messages: Number and text of each message, the oldest first.
        asked: Key to the turn at whose end a state that collects it spoke last.
    """

    messages: Sequence[tuple[int, str]]
    asked: Mapping[str, int] = field(default_factory=dict)

    def since(self, key: str) -> list[tuple[int, str]]:
        """Return the messages since a key was asked for last; all of them if it never was."""
        if key not in self.asked:
            return list(self.messages)
        return [one for one in self.messages if one[0] > self.asked[key]]


def _folded(text: str) -> list[tuple[str, int]]:
    """Return the characters that are compared, each with its place in the text."""
    found: list[tuple[str, int]] = []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKC", character).casefold():
            if unicodedata.category(part)[0] not in "ZPC":
                found.append((part, place))
    return found


def find_quote(quote: str, messages: Sequence[tuple[int, str]]) -> Place | None:
    """Return the place of a quote in the latest message that has it; None if there is none."""
    wanted = "".join(part for part, _ in _folded(unicodedata.normalize("NFKC", quote[:_MOST])))
    if not wanted or len(quote) > _MOST:
        return None
    for number, text in reversed(messages):
        written = _folded(unicodedata.normalize("NFKC", text))
        start = "".join(part for part, _ in written).find(wanted)
        if start >= 0:
            return number, written[start][1], written[start + len(wanted) - 1][1] + 1
    return None


def digits_of(text: str) -> str:
    """Return the digits of a text in order, those of other scripts as 0 to 9."""
    return "".join(str(unicodedata.digit(one)) for one in text if unicodedata.digit(one, None) is not None)


def find_digits(value: Any, messages: Sequence[tuple[int, str]]) -> Place | None:
    """Return the place of a value's digits, in their order; None if one of them was not said.

    The place is in the message of the last digit. A value without a digit is not said.
    """
    wanted = digits_of(value if isinstance(value, str) else str(value))
    if not wanted or isinstance(value, bool):
        return None
    matched = 0
    place: Place | None = None
    for number, text in messages:
        for at, one in enumerate(text):
            digit = unicodedata.digit(one, None)
            if matched < len(wanted) and digit is not None and str(digit) == wanted[matched]:
                matched += 1
                start = place[1] if place is not None and place[0] == number else at
                place = (number, start, at + 1)
    return place if matched == len(wanted) else None


def speaks_of(message: str, values: Sequence[Any]) -> bool:
    """Return true if a message has one of the values, as a text or by its digits."""
    written = "".join(part for part, _ in _folded(message))
    for text in texts_in(values):
        wanted = "".join(part for part, _ in _folded(text))
        digits = digits_of(text)
        if (wanted and wanted in written) or (len(digits) > 1 and digits in digits_of(message)):
            return True
    return False


def quotes_of(key: str, quotes: object) -> list[str]:
    """Return the quotes that a reply gives for a key, for its items and for its parts."""
    if not isinstance(quotes, Mapping):
        return []
    return [
        quote
        for name, quote in quotes.items()
        if isinstance(quote, str) and isinstance(name, str) and key_of(name).partition(".")[0] == key
    ]


def proof(
    kind: str, value: Any, quotes: Sequence[str], messages: Sequence[tuple[int, str]], old: Any = None
) -> Place | None:
    """Return the place of the user's words for a value; None if they did not say it.

    Args:
        kind: quote or digits.
        value: The value.
        quotes: The quotes of the reply for it.
        messages: The messages of the user since the key was asked for.
        old: The value so far. Its digits count as said before, so that "it ends in 0188" can be completed.
    """
    if kind == "digits":
        known = [] if old is None else [(_KNOWN, str(old))]
        found = find_digits(value, [*known, *messages])
        return None if found is None or found[0] == _KNOWN else found
    places = (find_quote(quote, messages) for quote in quotes)
    return next((place for place in places if place is not None), None)
