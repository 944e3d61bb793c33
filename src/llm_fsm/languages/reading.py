"""Read numbers, dates and times of day in a message, by the words of every language.

The words of the definition's own language come first. A word of another language counts unless it
is an everyday word of a third one: "on" is ten in Turkish only. A message enters, and its pieces
leave. The readings of pieces are all values that they can mean, each with its place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from llm_fsm.languages import every_language, language_of

Senses: TypeAlias = Mapping[str, float]
"""Kind to value: what one word can mean.

`number` its value; `digit` a digit in a row of digits; `month` 1 to 12; `weekday` 1 to 7; `day`
days from today; `span` its days; `date` month * 100 + day; `clock` and `part` minutes; `half` the
first hour of this half of a day. Words without a value: `before` and `after` an hour, `at` and
`oclock` beside one, `link` and `ordinal` beside a day, `join` between numbers, `point` before a
fraction, `minus`, `yes`, `not`, `period` words of days that name none, `vague` those of days or
times, `greeting` what only sounds like them, and `doubt` about a number: 0 anywhere in its clause,
1 right beside it. `count`: the first number word of its value. `written`: the piece stands in
digits.
"""

_DIGITS = r"\d{1,3}(?: \d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,:/'’٬٫-]\d+)*"
_WORD = re.compile(rf"{_DIGITS}|[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+")
_LOOSE = re.compile(r"[\s'’.‐-]*")
"""What may stand inside of an expression of several words."""
_NUMBER = re.compile(r"(?P<whole>\d+)(?:[.,٫](?P<part>\d+))?")
_GROUPED = re.compile(
    r"(?P<whole>\d{1,3}(?:(?P<mark>[.,'’٬ ])\d{3})(?:(?P=mark)\d{3})*)(?:[.,٫](?P<part>\d+))?"
)
_DECIMAL = re.compile(r"(\d+)[.,٫](\d{1,2})")
"""One mark before at most two digits is a decimal mark."""
_DAYS = (
    re.compile(r"(?P<year>\d{4})([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)"),
    re.compile(r"(?P<day>\d\d?)([-/.])(?P<month>\d\d?)(?:\2(?P<year>\d{4}|\d\d))?"),
    re.compile(r"(?P<month>\d\d?)([-/])(?P<day>\d\d?)(?:\2(?P<year>\d{4}|\d\d))?"),
)
_FIRST_MARK = 10
"""Marks of lower combining classes belong to a letter, as those of kana do."""
_LONGEST = 5
"""Words of the longest expression."""
_MOST_DIGITS = 15
_SCALES = (100, 1000, 10_000, 1_000_000, 100_000_000, 1_000_000_000)
_BESIDE = frozenset(("at", "oclock", "link", "ordinal", "join", "before", "after", "yes", "not"))
"""Kinds of words that mean nothing alone, so that those of every language count."""
_INSIDE = frozenset(("join", "point"))
"""Kinds of words inside of a number."""
_HALF_DAY = 720
_FIRST_YEAR = 1000
_MOST_DAYS = 1000


class Piece(NamedTuple):
    """A word or an expression of a message.

    Attributes:
        word: Its letters in normal form; a number in digits.
        senses: What it can mean.
        start: Its place in the text.
        end: The place behind it.
        gap: The text between it and the piece before.
        text: It as it is written, in digits 0 to 9.
    """

    word: str
    senses: Senses
    start: int
    end: int
    gap: str
    text: str


class Meaning(NamedTuple):
    """A value that a place in a message can mean."""

    value: Any
    start: int
    end: int


def letters(text: str) -> tuple[str, list[int]]:
    """Return a text without case and marks, with digits 0 to 9, and the place of each character."""
    found: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for part in unicodedata.normalize("NFKD", character.casefold()):
            if unicodedata.combining(part) < _FIRST_MARK:
                digit = unicodedata.digit(part, None)
                found.append(part if digit is None else str(digit))
                places.append(place)
    return "".join(found), places


def _alike(word: str) -> str:
    """Return a word with ä, ae and a alike, and other letters of one sound."""
    plain = unicodedata.normalize("NFC", word)
    for written, letter in (("ı", "i"), ("ł", "l"), ("ae", "a"), ("oe", "o"), ("ue", "u")):
        plain = plain.replace(written, letter)
    return plain


def _words(text: str) -> list[tuple[str, int, int]]:
    plain, places = letters(text)
    return [
        (_alike(match.group()), places[match.start()], places[match.end() - 1] + 1)
        for match in _WORD.finditer(plain)
    ]


_Lexicon: TypeAlias = Mapping[tuple[str, ...], dict[str, float]]


def _counts(words: Mapping[str, float]) -> dict[str, float]:
    """Return the first number word of each value. Later ones are ordinals and articles, too."""
    first: dict[float, str] = {}
    for word, value in words.items():
        first.setdefault(value, word)
    return {word: value for value, word in first.items()}


@cache
def _lexicon(tag: str, *, near: bool) -> _Lexicon:
    """Return the senses of the words of all languages; those of the own language win."""
    own = language_of(tag)
    known = (own, language_of("en"))
    everyday: set[str] = set()
    for language in every_language():
        everyday |= {_alike(letters(word)[0]) for word in language.everyday}
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for language in (*every_language(), own):
        senses = {**language.senses, "count": _counts(language.senses.get("number", {}))}
        for kind, words in senses.items():
            if near and kind != "doubt" and language not in known:
                continue
            for word, value in words.items():
                expression = tuple(part for part, _, _ in _words(word))
                is_common = language is not own and expression[0] in everyday
                if kind in _BESIDE or len(expression) > 1 or not is_common:
                    found.setdefault(expression, {})[kind] = value
    return found


def pieces(text: str, tag: str = "", *, near: bool = False) -> list[Piece]:
    """Return the words and expressions of a text.

    Args:
        text: The text.
        tag: BCP 47 tag of the definition; English if empty.
        near: True to read only words of this language and of English, and doubts of every one.
    """
    words, lexicon = _words(text), _lexicon(tag, near=near)
    found: list[Piece] = []
    at = last = 0
    while at < len(words):
        size = _LONGEST
        while size > 1 and not _is_expression(text, words[at : at + size], lexicon):
            size -= 1
        start, end = words[at][1], words[min(at + size, len(words)) - 1][2]
        whole = tuple(word for word, _, _ in words[at : at + size])
        word, senses = _piece(" ".join(whole), lexicon.get(whole, {}))
        found.append(Piece(word, senses, start, end, text[last:start], " ".join(whole)))
        last = end
        at += size
    return found


def _piece(text: str, senses: Senses) -> tuple[str, Senses]:
    """Return the normal form of a word or of digits, and what it can mean."""
    digits = re.sub(r"\D", "", text)
    if text[0].isdecimal() and "number" not in senses:
        decimal = _DECIMAL.fullmatch(text)
        if digits == text and len(text) <= _MOST_DIGITS:
            senses = {**senses, "number": float(text)}
        return ".".join(decimal.groups()) if decimal else digits, {**senses, "written": 1}
    value = senses.get("number", 0.5)
    return str(int(value)) if value.is_integer() else text, senses


def _is_expression(text: str, words: Sequence[tuple[str, int, int]], lexicon: _Lexicon) -> bool:
    """Return true if words mean something together, and nothing separates them."""
    gaps = [text[one[2] : two[1]] for one, two in pairwise(words)]
    is_known = tuple(word for word, _, _ in words) in lexicon
    return len(words) > 1 and is_known and all(map(_LOOSE.fullmatch, gaps))


def numbers(found: Sequence[Piece]) -> list[Meaning]:
    """Return the numbers that pieces mean. Two numbers are one only as words: "two hundred and five"."""
    readings: list[Meaning] = []
    last = -2  # the piece that ended the number so far, or joins it to the next one
    for at, piece in enumerate(found):
        values = _values(piece)
        is_next = last == at - 1 and _LOOSE.fullmatch(piece.gap) is not None
        if not values:
            last = at if is_next and not _INSIDE.isdisjoint(piece.senses) else -2
            continue
        value = values[0]
        goes_on = is_next and "written" not in piece.senses
        known = readings[-1].value if goes_on else 0
        is_fraction = goes_on and "point" in found[at - 1].senses
        room = next((one for one in (1000, 100, 1) if known % one == 0), 0)
        if is_fraction:
            values = [float(f"{known:.0f}.{value:.0f}")]
        elif known > 0 and value in _SCALES and known % value > 0:
            values = [known + known % value * (value - 1)]
        elif known > 0 and value < room:
            values = [known + value]
        else:
            known = 0
            is_negative = is_signed(piece) or (at > 0 and "minus" in found[at - 1].senses)
            values = [-one for one in values] if is_negative else values
        start = readings.pop().start if known or is_fraction else piece.start
        readings += [Meaning(one, start, piece.end) for one in values]
        last = at
    return readings


def _values(piece: Piece) -> list[float]:
    """Return the numbers that a piece means: "1,50" is 1.5, and "1.500" is 1500 or 1.5."""
    if "written" not in piece.senses:
        return [piece.senses["number"]] if "number" in piece.senses else []
    values: list[float] = []
    for text in re.split(r"[-/:]", piece.text[: 2 * _MOST_DIGITS]):
        for pattern in (_GROUPED, _NUMBER):
            match = pattern.fullmatch(text)
            if match is not None:
                whole = re.sub(r"\D", "", match["whole"])
                values.append(float(f"{whole}.{match['part'] or 0}"))
    return values


def is_signed(piece: Piece) -> bool:
    """Return true if a minus sign stands before a piece, and no dash between two."""
    begins = len(piece.gap) == piece.start or piece.gap[-2:-1].isspace()
    return begins and piece.gap.endswith(("-", "−"))


@cache
def _grammar(rule: str) -> re.Pattern[str]:
    """Compile a rule of kinds of pieces: `hour:number oclock* min:part`. A name keeps the value."""
    parts: list[str] = []
    for word in rule.split():
        name, _, kinds = word.rpartition(":")
        many = "*" * kinds.endswith("*")
        value = rf"(?P<{name}>-?[\d.]+)" if name else r"[^ ;]+"
        kind = kinds.rstrip("*").replace(",", "|")
        parts.append(rf"(?:\d+;(?:\S+;)?(?:{kind})={value};\S* ){many}")
    return re.compile("".join(parts))


def _matches(rule: str, found: Sequence[Piece]) -> Iterator[tuple[dict[str, float], int, int]]:
    """Yield the values of a rule's names, and its first and last piece, wherever the rule fits."""
    lines = []
    for at, piece in enumerate(found):
        senses = "".join(f"{kind}={value};" for kind, value in piece.senses.items())
        lines.append(f"{at};{senses} ")
    text = "".join(lines)
    place = 0
    for at, line in enumerate(lines):
        match = _grammar(rule).match(text, place)
        place += len(line)
        if match is not None:
            values = {name: float(value) for name, value in match.groupdict().items()}
            yield values, at, at + match.group().count(" ") - 1


_DATES = (
    "day:number link,ordinal,weekday* month:month link,ordinal* year:number",
    "month:month link* day:number link,ordinal* year:number",
    "year:number link* month:month link* day:number",
    "day:number link,ordinal,weekday* month:month",
    "month:month link* day:number",
    "link day:number",
    "day:number ordinal",
)
"""Days with the name of their month or without a month. Those with a year come first."""


def dates(found: Sequence[Piece], today: date) -> list[Meaning]:
    """Return the days that pieces mean, as ISO dates. A day that is written whole hides the others.

    Args:
        found: The pieces.
        today: The day from which "tomorrow" counts.
    """
    whole: list[Meaning] = []
    parts: list[Meaning] = []
    seen: set[int] = set()
    for rule in _DATES:
        for values, first, last in _matches(rule, found):
            if found[last].gap.endswith(("'", "’")) and "year" in values:
                values["year"] += today.year // 100 * 100
            days = _days(values, today) if first not in seen else []
            seen |= {first} if days and "year" in values else set()
            readings = [Meaning(day, found[first].start, found[last].end) for day in days]
            (whole if "month" in values else parts).extend(readings)
    for piece in found:
        for match in filter(None, (pattern.fullmatch(piece.text) for pattern in _DAYS)):
            values = {name: float(text) for name, text in match.groupdict().items() if text}
            if 0 < values.get("year", 0) < 100:
                values["year"] += today.year // 100 * 100
            readings = [Meaning(day, piece.start, piece.end) for day in _days(values, today)]
            (whole if "year" in values else parts).extend(readings)
    named = _named_days(found, today)
    weekdays = {one.value for one in named}
    both = [one for one in parts if one.value in weekdays]
    return whole or both or [*parts, *named]


def _days(values: Mapping[str, float], today: date) -> list[str]:
    """Return the days of a day, a month and a year; the near ones if a part is missing."""
    near = range(-1, 3) if "month" not in values else range(-12, 13, 12)
    days = []
    for months in near if "year" not in values else (0,):
        count = today.year * 12 + today.month - 1 + months
        year = values.get("year", count // 12)
        with suppress(ValueError):
            if year >= _FIRST_YEAR:
                month = values.get("month", count % 12 + 1)
                days.append(date(int(year), int(month), int(values["day"])).isoformat())
    return days


def _named_days(found: Sequence[Piece], today: date) -> list[Meaning]:
    """Return the days of words: "tomorrow", "Friday", "in two weeks", "Christmas"."""
    readings: list[Meaning] = []
    for rule in ("away:day", "weekday:weekday", "count:number span:span", "date:date"):
        for values, first, last in _matches(rule, found):
            away = [values["away"]] if "away" in values else []
            if "weekday" in values:
                until = (values["weekday"] - today.isoweekday()) % 7
                away = [until - 7, until, until + 7]
            if "span" in values:
                count = min(values["count"] * values["span"], _MOST_DAYS)
                away = [count, -count]
            days = [(today + timedelta(days)).isoformat() for days in away]
            if "date" in values:
                month, day = divmod(values["date"], 100)
                days = _days({"month": month, "day": day}, today)
            readings += [Meaning(day, found[first].start, found[last].end) for day in days]
    return readings


_TIMES = (
    ("hour:number min:part,number after", 1),
    ("hour:number min:part,number before", -1),
    ("min:part,number after hour:number", 1),
    ("min:part,number before hour:number", -1),
    ("hour:number oclock* after min:part,number", 1),
    ("hour:number oclock* before link* min:part,number", -1),
    ("hour:number oclock* min:part", 1),
    ("min:part hour:number", 1),
    ("hour:number oclock min:number", 1),
    ("at hour:number min:number", 1),
    ("at link* hour:number", 1),
    ("hour:number link* at,half,day,weekday", 1),
    ("half,day,weekday hour:number", 1),
    ("hour:number min:number half", 1),
)
"""Times of day in words, and whether their minutes count on or back from the hour."""
_CLOCK = re.compile(r"(\d\d?)[:.](\d\d)")
_BETWEEN = frozenset(("at", "link"))
"""Kinds of words between a half of the day and a time behind it."""
_BEHIND = frozenset(("link", "oclock"))
"""Kinds of words between a time and the half of the day behind it."""
_FEW = 3
"""Pieces of an answer whose number is a time without further words."""


def times(found: Sequence[Piece]) -> list[Meaning]:
    """Return the times of day that pieces mean, as HH:MM."""
    readings: list[Meaning] = []
    alone = (("hour:number", 1), ("hour:number min:number", 1)) if len(found) <= _FEW else ()
    for rule, sign in (*_TIMES, *alone):
        for values, first, last in _matches(rule, found):
            hour, minutes = values["hour"], values.get("min", 0)
            if hour <= 24 and hour.is_integer() and abs(minutes) < 60:
                readings += _moments(hour * 60 + sign * minutes, found, first, last)
    for at, piece in enumerate(found):
        match = _CLOCK.fullmatch(piece.text)
        if match is not None and int(match[1]) <= 24 and int(match[2]) < 60:
            readings += _moments(int(match[1]) * 60 + int(match[2]), found, at, at)
        if "clock" in piece.senses:
            readings.append(_moment(piece.senses["clock"], piece, piece))
    return readings


def _moments(minutes: float, found: Sequence[Piece], first: int, last: int) -> list[Meaning]:
    """Return the times in the half of the day that stands beside, or in both."""
    begin, end = first - 1, last + 1
    while begin > 0 and not _BETWEEN.isdisjoint(found[begin].senses):
        begin -= 1
    while end < len(found) - 1 and not _BEHIND.isdisjoint(found[end].senses):
        end += 1
    beside = found[max(begin, 0) : end + 1]
    halves = {one.senses["half"] * 60 for one in beside if "half" in one.senses}
    if minutes >= 13 * 60 or any(one.text.startswith("0") for one in beside):
        halves = {minutes // _HALF_DAY * _HALF_DAY}
    in_half = minutes % _HALF_DAY
    return [_moment(in_half + half, found[first], found[last]) for half in halves or (0, _HALF_DAY)]


def _moment(minutes: float, first: Piece, last: Piece) -> Meaning:
    hour, minute = divmod(int(minutes), 60)
    return Meaning(f"{hour % 24:02}:{minute:02}", first.start, last.end)
