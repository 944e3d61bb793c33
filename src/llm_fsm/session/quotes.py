"""The words of the user, and the quotes of replies that point into them.

Texts are compared without regard to case, accents, spaces and punctuation. `proof` says which
words prove a value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from llm_fsm._text import is_word
from llm_fsm.languages import QUESTION_MARKS
from llm_fsm.languages.reading import letters
from llm_fsm.session.list_items import key_of

QUOTES = "_quotes"
YES = "_yes"
"""The quote of the user's words of a yes."""
SAID = "x-said"
KINDS = ("quote", "digits")
NOT_SAID = "not said"
_MOST = 10_000
"""Longest quote in characters that is looked for."""

_SENTENCE = re.compile(rf"[^.!…。！{QUESTION_MARKS}\n]+[.!…。！{QUESTION_MARKS}]*")

Place = tuple[int, int, int]
"""Number of the message, start and end of the quote in it. Messages before the first turn have
numbers below 1.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWords:
    """The words of the user, as far as the session has them.

    Attributes:
        messages: Number and text of each message, the oldest first.
        asked: Key to the turn at whose end a state that collects it spoke last.
        today: The day from which "tomorrow" counts.
        asked_by: What was said to the user last.
        answered: True if tools answered in this turn, so that a text may come from them.
    """

    messages: Sequence[tuple[int, str]]
    asked: Mapping[str, int] = field(default_factory=dict)
    today: date = date(1970, 1, 1)
    asked_by: str = ""
    answered: bool = False

    def since(self, key: str) -> list[tuple[int, str]]:
        """Return the messages since a key was asked for last; all of them if it never was."""
        if key not in self.asked:
            return list(self.messages)
        return [one for one in self.messages if one[0] > self.asked[key]]


def _folded(text: str) -> list[tuple[str, int]]:
    """Return the characters that are compared, each with its place in the text."""
    # A letter may fold to several, so each keeps the place that it came from.
    pairs = zip(*letters(text), strict=True)
    return [pair for pair in pairs if unicodedata.category(pair[0])[0] not in "ZPC"]


def find_quote(quote: str, messages: Sequence[tuple[int, str]]) -> Place | None:
    """Return the place of a quote in the latest message that has it; None if there is none.

    Where it stands as whole words is better than where its letters stand first: "Li" is a name
    in "my email. I'm Sofia Li", and the end of one word with the next before that.
    """
    wanted = "".join(part for part, _ in _folded(quote[:_MOST]))
    # A quote without a letter would be found everywhere.
    if not wanted or len(quote) > _MOST:
        return None
    # The latest first: what the user said last is what counts.
    for number, text in reversed(messages):
        written = _folded(text)
        compared = "".join(part for part, _ in written)
        places = [
            (number, written[start][1], written[start + len(wanted) - 1][1] + 1)
            for start in _starts(wanted, compared)
        ]
        if places:
            return next((place for place in places if is_word(text, *place[1:])), places[0])
    return None


def _starts(wanted: str, text: str) -> list[int]:
    """Return where a part of a text starts, each time it occurs."""
    return [found.start() for found in re.finditer(f"(?={re.escape(wanted)})", text)]


def own_quote(value: Any, message: str) -> str:
    """Return what to quote of a message for a value: the value if it stands there, else all."""
    stands = isinstance(value, str) and find_quote(value, [(0, message)]) is not None
    return value if stands else message


def digits_of(text: str) -> str:
    """Return the digits of a text in order, those of other scripts as 0 to 9."""
    return "".join(
        str(unicodedata.digit(one)) for one in text if unicodedata.digit(one, None) is not None
    )


def only_asks(message: str) -> bool:
    """Return true if each sentence of a message ends in a question mark of any script."""
    asks = False
    for sentence in _SENTENCE.findall(message):
        written = sentence.strip()
        if not written:
            continue
        # One sentence that tells something may be where the value comes from.
        if written[-1] not in QUESTION_MARKS:
            return False
        asks = True
    return asks


def quotes_of(key: str, quotes: object) -> list[str]:
    """Return the quotes that a reply gives for a key, for its items and for its parts."""
    if not isinstance(quotes, Mapping):
        return []
    return [
        quote
        for name, quote in quotes.items()
        if isinstance(quote, str)
        and isinstance(name, str)
        and key_of(name).partition(".")[0] == key
    ]
