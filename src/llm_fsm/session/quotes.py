"""The proof of `x-said`: the user's own words for a value, found in what the user wrote.

Texts are compared by NFKC and without regard to case, spaces and punctuation.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from llm_fsm.session.list_items import key_of
from llm_fsm.session.redaction import texts_in

QUOTES = "_quotes"
YES = "_yes"
"""The quote of the user's words of a yes."""
SAID = "x-said"
KINDS = ("quote", "digits")
NOT_SAID = "not said"
_KNOWN = -(10**9)
"""Number of the value so far among the messages."""
_MOST = 10_000
"""Longest quote in characters that is looked for."""

_BESIDE = 6
"""Words of a quote beside those of its value."""
_ALIKE = 4
"""Letters at the beginning of two words that make them alike."""
QUESTION_MARKS = "?\uff1f\u061f\u037e\u055e\u1367"
"""Of Latin, full-width, Arabic, Greek, Armenian and Ethiopic script."""
_SENTENCE = re.compile(rf"[^.!…。！{QUESTION_MARKS}\n]+[.!…。！{QUESTION_MARKS}]*")
_FIRST_MARK = 10
"""Marks of lower combining classes belong to a letter, as those of kana do."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d", re.ASCII)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+")

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


def own_quote(value: Any, message: str) -> str:
    """Return what to quote of a message for a value: the value if it stands there, else all."""
    stands = isinstance(value, str) and find_quote(value, [(0, message)]) is not None
    return value if stands else message


def digits_of(text: str) -> str:
    """Return the digits of a text in order, those of other scripts as 0 to 9."""
    return "".join(
        str(unicodedata.digit(one)) for one in text if unicodedata.digit(one, None) is not None
    )


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


def find_value(kind: str, value: Any, messages: Sequence[tuple[int, str]]) -> Place | None:
    """Return the place of a value without a quote: its own digits or texts are looked for.

    Args:
        kind: quote or digits.
        value: The value. Every text of a list or an object must have been said.
        messages: The messages of the user.
    """
    if kind == "digits":
        return find_digits(value, messages)
    places = [find_quote(text, messages) for text in _leaves(value)]
    return places[-1] if places and None not in places else None


def is_among(kind: str, value: Any, given: Any) -> bool:
    """Return true if a value repeats one that was given, as its digits or words show."""

    def read(text: str) -> str:
        return digits_of(text) if kind == "digits" else "".join(part for part, _ in _folded(text))

    known = {read(text) for text in _leaves(given)} - {""}
    return any(read(text) in known for text in _leaves(value))


def _leaves(value: Any) -> Iterator[str]:
    """Yield every text, number and truth value in a JSON value, as text."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)


def speaks_of(message: str, values: Sequence[Any]) -> bool:
    """Return true if a message has one of the values, as a text or by its digits."""
    written = "".join(part for part, _ in _folded(message))
    for text in texts_in(values):
        wanted = "".join(part for part, _ in _folded(text))
        digits = digits_of(text)
        if (wanted and wanted in written) or (len(digits) > 1 and digits in digits_of(message)):
            return True
    return False


def _is_name(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return true for a text that is copied from the user's words, as a name is.

    Dates, choices and numbers may be said in any words.
    """
    plain = schema.get("format") not in ("date", "time", "date-time")
    coded = "enum" in schema or "const" in schema or not plain
    return isinstance(value, str) and not coded and _ISO.match(value) is None


def _words(text: str) -> list[str]:
    """Return the runs of letters and of digits of a text, without case and marks, with ä, ae and a
    alike. A letter of a script without spaces is a word.
    """
    letters: list[str] = []
    for part in unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold()):
        if unicodedata.combining(part) < _FIRST_MARK:
            digit = unicodedata.digit(part, None)
            letters.append(part if digit is None else str(digit))
    plain = unicodedata.normalize("NFC", "".join(letters)).replace("ı", "i")
    for umlaut, letter in (("ae", "a"), ("oe", "o"), ("ue", "u")):
        plain = plain.replace(umlaut, letter)
    return _WORD.findall(plain)


def _holds(quote: str, value: str) -> bool:
    """Return true if every word of a value stands whole in a quote, in the value's order.

    The quote has at most six words beside them.
    """
    wanted, written = _words(value), _words(quote)
    beside = len(written) - len(wanted)
    at = 0
    while wanted and at < len(written):
        used = _same(wanted, written[at:])
        if used is None:
            at += 1
            continue
        words, taken = used
        wanted = wanted[words:]
        at += taken
        beside += words - taken
    return not wanted and beside <= _BESIDE


def _same(wanted: Sequence[str], written: Sequence[str]) -> tuple[int, int] | None:
    """Return how many words of both begin with the same letters, spaces apart; None if none do."""
    one = wanted[0]
    other = written[0]
    used = 1
    taken = 1
    while one != other:
        if one.startswith(other) and taken < len(written):
            other += written[taken]
            taken += 1
        elif other.startswith(one) and used < len(wanted):
            one += wanted[used]
            used += 1
        else:
            return None
    return used, taken


def _stands(quote: str, messages: Sequence[tuple[int, str]]) -> bool:
    """Return true if a message has the words of a quote, and not only the letters."""
    words = f" {' '.join(_words(quote))} "
    return any(words in f" {' '.join(_words(text))} " for _, text in messages)


def only_asks(message: str) -> bool:
    """Return true if each sentence of a message ends in a question mark of any script."""
    asks = False
    for sentence in _SENTENCE.findall(message):
        written = sentence.strip()
        if not written:
            continue
        if written[-1] not in QUESTION_MARKS:
            return False
        asks = True
    return asks


def is_made_of_a_question(value: Any, schema: Mapping[str, Any], message: str) -> bool:
    """Return true for a text without a word of the message, if that message only asks.

    Small models note an answer of their own to what the user asks. Two words are alike if they
    begin with the same four letters, as forms of one word do.
    """
    if not _is_name(value, schema) or not only_asks(message):
        return False
    return _stems(message).isdisjoint(_stems(value))


def _stems(text: str) -> set[str]:
    """Return the beginnings of the words of a text, which are alike in forms of one word."""
    stems = set()
    for word in _words(text):
        stems.add(word[:_ALIKE])
    return stems


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


def proof(
    kind: str,
    value: Any,
    quotes: Sequence[str],
    messages: Sequence[tuple[int, str]],
    *,
    old: Any = None,
    schema: Mapping[str, Any] = MappingProxyType({}),
) -> Place | None:
    """Return the place of the user's words for a value; None if they did not say it.

    A quote for a text that is no date and no choice must hold every word of it, so that no other
    words of the user prove a part that was invented.

    Args:
        kind: quote or digits.
        value: The value.
        quotes: The quotes of the reply for it.
        messages: The messages of the user since the key was asked for.
        old: The value so far. Its digits count as said before, so that "it ends in 0188" can be
            completed.
        schema: The schema of the key.
    """
    if kind == "digits":
        known = [] if old is None else [(_KNOWN, str(old))]
        found = find_digits(value, [*known, *messages])
        return None if found is None or found[0] == _KNOWN else found
    if _is_name(value, schema):
        quotes = [one for one in quotes if _holds(one, value) and _stands(one, messages)]
    places = (find_quote(quote, messages) for quote in quotes)
    return next((place for place in places if place is not None), None)


def unproved(kind: str) -> str:
    """Return the reason of a refusal for want of the user's own words."""
    if kind == "digits":
        return f"{NOT_SAID}: the user did not write these digits; ask for them"
    return (
        f"{NOT_SAID}: the user did not write these words since you asked; ask, and quote the "
        "words for the whole value, and few others"
    )
