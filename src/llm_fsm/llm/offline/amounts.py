"""Find the numbers of a message that stand for themselves: no word beside them may change them.

What stands beside a number may belong to it: a sign, a multiplier, a bound, a doubt, or a second
number. The words of languages name these (`doubt` and others of `reading.Senses`). A number is
taken only where none of them stands; otherwise somebody asks. Digits of days, times, telephone
numbers and codes are no amounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

from llm_fsm.languages import number_marks
from llm_fsm.languages.reading import Piece, dates, is_signed, pieces

Span = tuple[int, int]
"""Start and end of a part of a text."""
EMAIL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_BEGINS = re.compile(r"(?:^\s*|[^\s+~≈<>=±×*/^#–—-]\s+|[(\"“„«:]\s*|[^\W\d_][,;])[$€£¥]?[-−]?$")
"""What stands before a whole number. A dash after a word may be a sign, or none."""
_ENDS = re.compile(r"(?:\s*[$€£¥])?(?:$|[.,;:!?)\"”»](?!\w)|\s+(?![+~≈<>=±×*/^%‰]))")
_UNCLEAR = re.compile(r"[1-9]\d{0,2}\D\d{3}")
"""One mark before three digits: it may separate thousands, or begin a fraction."""
_BEFORE = frozenset(
    ("not", "join", "month", "weekday", "part", "at", "before", "after", "clock", "doubt")
)
_BEHIND = frozenset(("not", "month", "half", "part", "ordinal", "oclock", "doubt"))
"""Kinds of words that change a number right before or behind them."""
_LINKS = frozenset(("at", "before", "after", "join"))
"""Kinds of words that link a number to a title before it."""
_LEAST, _MOST = 2, 100
"""A number word of a sentence: "one" is a pronoun, too, and "hundred" a multiplier."""
_TITLE = "\n"
"""What stands in place of each character of a title."""
_DAYS = frozenset(("month", "ordinal"))
_ANY_DAY = date(2000, 1, 1)
_OTHERS = (
    EMAIL,
    re.compile(r"(?<!\d )\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b|\b\d{1,2}\.\d{1,2}\.(?:\d{2,4})?"),
    re.compile(r"\b\d{1,2}[:.h]\d{2}\b(?=\s*(?:h|uhr|o'clock))|\b\d{1,2}:\d{2}", re.IGNORECASE),
    re.compile(
        r"\b\w+\s*(?:o['’]clock|uhr|h)\b|\b\d{1,2}(?:[:.]\d\d)?\s*[ap]\.?m\b", re.IGNORECASE
    ),
    re.compile(
        r"\b(?:at|by|until|till|before|after|around|past)\s+(?:about )?"
        r"(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
        r"(?!\s*[\w%€$£])(?!:)",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:in|since|of|year) (?:19|20)\d\d\b", re.IGNORECASE),
    re.compile(r"\+\(?\d[\d ()/.-]{4,23}\d|\(?\b0\d{1,5}\)?[ /-]?\d[\d ()/-]{3,20}\d"),
    re.compile(r"\b\d{2,5}[ /-]\d{2,8}(?:[ /-]\d{2,8})+\b|\b\d{2,5}[/-]\d{2,8}\b"),
    re.compile(r"\b[A-Z]{1,5}[ -]\d{2,}\b"),
    re.compile(
        r"\b(?:code|pin|order|ticket|booking|reference|ref|invoice|flight|room|zip|postcode|phone"
        r"|tel|telephone|mobile|account|customer|id|no|nr)\.?(?: number| no\.?| nr\.?)?"
        r"(?: is)?[ :#]+\d+\b",
        re.IGNORECASE,
    ),
)
"""Digits that are no amount: of addresses, days, years, times, telephone numbers and codes."""


class Message(NamedTuple):
    """A message, the language of its definition, and the places of titles of keys in it."""

    text: str
    tag: str
    titles: tuple[Span, ...] = ()


class Found(NamedTuple):
    """A value in a message, and its place."""

    value: Any
    start: int
    end: int


def amounts(said: Message) -> Iterator[Found]:
    """Yield the numbers of a message that stand for themselves, in their order.

    Titles of keys part the numbers around them: "2 adults and 3 children".
    """
    text = said.text
    for start, end in said.titles:
        text = text[:start] + _TITLE * (end - start) + text[end:]
    found = pieces(text, said.tag, near=True)
    others = list(_others(text, found))
    counted = [one for one in found if _counts(one) and not _is_within(one, others)]
    for piece in counted if not is_doubtful(found) else ():
        run = [one for one in found if _TITLE not in _between(text, one, piece)]
        value = _value(piece, text, said.tag, alone=len(found) == 1)
        rivals = [one for one in run if one in counted and one is not piece]
        if value is not None and not rivals and not _is_changed(run, run.index(piece)):
            yield Found(value, piece.start - is_signed(piece), piece.end)


def is_doubtful(found: Iterable[Piece]) -> bool:
    """Return true if words make every number of a message uncertain: "at least", "minus"."""
    return any(one.senses.get("doubt") == 0 or "minus" in one.senses for one in found)


def _between(text: str, one: Piece, other: Piece) -> str:
    return text[min(one.end, other.end) : max(one.start, other.start)]


def _others(text: str, found: Sequence[Piece]) -> Iterator[Span]:
    """Yield the places of digits that are no amount."""
    for pattern in _OTHERS:
        for match in pattern.finditer(text):
            yield match.span()
    for day in dates(found, _ANY_DAY):
        named = [one for one in found if not _DAYS.isdisjoint(one.senses)]
        if any(_is_within(one, [(day.start, day.end)]) for one in named):
            yield day.start, day.end


def _is_within(piece: Piece, places: Sequence[Span]) -> bool:
    return any(piece.start < end and start < piece.end for start, end in places)


def _counts(piece: Piece) -> bool:
    """Return true if a piece may be a number, or a part of one. An article is none: "ein Tisch"."""
    senses = piece.senses
    return "written" in senses or "count" in senses or senses.get("number", 1) != 1


def _is_changed(run: Sequence[Piece], at: int) -> bool:
    """Return true if words between two titles may change the number among them."""
    before, behind = run[:at][-1:], run[at + 1 :]
    kinds_before = _BEFORE
    if at == 1 and _TITLE in run[0].gap:
        kinds_before = _BEFORE - _LINKS  # "amount to 5", "2 adults and 3 children"
    kinds = [kinds_before & one.senses.keys() for one in before]
    kinds += [_BEHIND & one.senses.keys() for one in behind[:1]]
    return any(kinds) or any("join" in one.senses for one in behind[:-1])


def _value(piece: Piece, text: str, tag: str, *, alone: bool) -> int | float | None:
    """Return the number of a piece; None if it is none, or may be another one."""
    begin = text[: piece.start]
    if not _BEGINS.search(begin) or not _ENDS.match(text, piece.end):
        return None
    number = piece.senses.get("count")
    if "written" in piece.senses:
        number = _number(piece, text, tag)
    elif number is not None and not alone and not _LEAST <= number < _MOST:
        return None
    if number is None:
        return None
    number = -number if is_signed(piece) else number
    return int(number) if number.is_integer() else number


def _number(piece: Piece, text: str, tag: str) -> float | None:
    """Return the number of digits with the marks of a language; None if they are none in it."""
    if re.search(r"[^\d\W]", text[piece.start : piece.end]):
        return None  # a fraction or a power in one character
    decimal, group = number_marks(tag)
    digits = rf"(\d{{1,3}}(?:[{re.escape(group)} ]\d{{3}})+|\d{{1,15}})(?:{re.escape(decimal)}(\d{{1,15}}))?"
    plain = piece.text.translate({0x66B: decimal, 0x66C: group})
    match = re.fullmatch(digits, plain)
    if match is None or (match[2] and _UNCLEAR.fullmatch(plain)):
        return None
    return float(f"{re.sub(r'[^0-9]', '', match[1])}.{match[2] or 0}")
