"""The one rule of proof: the words of the user that a value is made of.

Every door asks `prove`: replies, parts that are kept aside, the offline model, choices that are
certain, and results of tools. Each item and each part that changes proves itself. The message is
read as a whole, and a quote only points into it. So half a number is never a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

from llm_fsm._json import JsonMap, is_same, member, object_at
from llm_fsm.languages import LANGUAGE
from llm_fsm.languages.reading import Meaning, Piece, dates, is_signed, numbers, pieces, times
from llm_fsm.session.list_items import first_property
from llm_fsm.session.quotes import NOT_SAID, Place, UserWords, find_quote, only_asks

TIMES = ("date", "time", "date-time")
LABELS = "x-labels"
_ISO = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)?[T ]?(?:(?P<time>\d\d:\d\d)(?::00(?:\.0+)?)?(?:Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)
_CALENDAR = frozenset(("month", "weekday", "day", "span", "date", "period", "vague"))
"""Kinds of words that may name a day."""
_CLOCK = frozenset(("clock", "part", "half", "vague"))
"""Kinds of words that may name a time."""
_BOUNDS = frozenset(("before", "after", "doubt"))
"""Kinds of words beside a day or a time that may not be meant itself: "before Friday"."""
_MONTH = -6
"""Where the month of a day begins. A time is shorter, and stays whole."""
_YEARS = 3
"""The most readings of a weekday, or of a day without its year."""
_TYPED = frozenset(("format", "pattern"))
"""Schema keys of which a date or a time has one. What a choice stands for is said in other words."""
MISREAD = f"{NOT_SAID}: the words of the user mean"
"""How a reason begins where the user names another day or time for certain."""
_UNNAMED = f"{NOT_SAID}: the user names no such day or time; ask for it"
_ANY = 10**9
_BESIDE = 6
"""Words of a quote beside those of its value."""
_SENTENCE = 3
"""Words of a quote that show the language of the user."""
_NEAR = 3
"""Words from a denial to what it denies."""
_STEM = 4
"""Letters that two forms of one word have in common."""
_LONG = 5
"""Digits of a number that may be given in groups."""
_LONGEST_RUN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A value that a user is said to have said.

    Attributes:
        key: The context key.
        kind: quote or digits.
        value: The value.
        schema: The schema of the value.
        old: The value so far.
        quotes: The words that the reply quotes; None: any words of the messages.
        tag: BCP 47 tag of the definition.
        words_of: Texts that choices of the definition name values by.
        beside: The values of all keys, as they are with this one.
    """

    key: str
    kind: str
    value: Any
    schema: JsonMap = field(default_factory=dict)
    old: Any = None
    quotes: Sequence[str] | None = None
    tag: str = ""
    words_of: Sequence[tuple[str, Any]] = ()
    beside: str = ""


def prove(claim: Claim, words: UserWords) -> tuple[Place, ...] | str:
    """Return the places of the user's words for a value, or the reason why there are none.

    Args:
        claim: The value.
        words: The words of the user.

    Returns:
        A place for each item and part that changes; the reason of a refusal if one was not said.
    """
    leaves = list(changes(claim))
    size = sum(len(_words(pieces(str(leaf.value)))) for leaf in leaves)
    places: list[Place] = []
    for leaf in leaves:
        place = _place(leaf, words, size + _BESIDE)
        if place is None:
            return unproved(claim.kind)
        places.append(place)
    return tuple(places)


def unproved(kind: str) -> str:
    """Return the reason of a refusal for want of the user's own words."""
    if kind == "digits":
        return f"{NOT_SAID}: the user did not write these digits; ask for them"
    return (
        f"{NOT_SAID}: the user did not write these words since you asked; ask, and quote the "
        "words for the whole value, and few others"
    )


def changes(claim: Claim) -> Iterator[Claim]:
    """Yield the texts, numbers and truth values of a value that the value so far does not have."""
    value, old = claim.value, claim.old
    # The types, too: true equals 1 in Python, and says something else.
    if value is None or is_same(old, value):
        return
    match value:
        case Mapping():
            properties = claim.schema.get("properties")
            for name, part in value.items():
                before = member(old, name)
                schema = object_at(properties, name)
                yield from changes(replace(claim, value=part, schema=schema, old=before))
        case list() | tuple():
            # A copy: each known item answers for one item of the new list only.
            known = [*old] if isinstance(old, list | tuple) else []
            first = first_property(claim.schema)
            schema = object_at(claim.schema, "items")
            for item in value:
                name = _named(item, first)
                before = next((one for one in known if _named(one, first) == name), None)
                if before is not None:
                    known.remove(before)
                yield from changes(replace(claim, value=item, schema=schema, old=before))
        case _:
            yield claim


def _named(item: Any, first: str) -> Any:
    return item.get(first) if first and isinstance(item, Mapping) else item


def unsaid_moment(claim: Claim, words: UserWords) -> str:
    """Return why a day or a time in a value is none that the user gave; "" if it may be one.

    Each is judged alone: who names a day has named no time. What the words leave open stays.

    Args:
        claim: The value, whose key has no `x-said`.
        words: The words of the user.
    """
    for leaf in changes(claim):
        # Cheap first: most values are no moment, and reading words costs more.
        form = _ISO.fullmatch(str(leaf.value))
        if form is None or _TYPED.isdisjoint(leaf.schema):
            continue
        for part in filter(None, form.groups()):
            reason = _unsaid_part(leaf, part, words)
            if reason:
                return reason
    return ""


def _unsaid_part(claim: Claim, part: str, words: UserWords) -> str:
    """Return why the user has not said the day or the time of a value; "" if it may be said."""
    since = [_heard(claim, part, text, words) for _, text in words.since(claim.key)]
    # A tool of this turn may have answered with it.
    if words.answered or part in str(claim.old) or any(is_open for _, is_open in since):
        return ""
    # Earlier words are read only if the latest do not name it.
    texts = (words.asked_by, *dict(words.messages).values())
    earlier = (_heard(claim, part, text, words) for text in texts)
    # Another year may be meant, if none was said.
    if any(part[_MONTH:] in " ".join(named) for named, _ in chain(since, earlier)):
        return ""
    named = sorted(chain.from_iterable(one for one, _ in since))
    # From a day that the reply names for another key, more may be counted.
    if any(one in claim.beside for one in named):
        return ""
    return f"{MISREAD} {' or '.join(named)}; write that, or ask" if named else _UNNAMED


def _heard(claim: Claim, part: str, text: str, words: UserWords) -> tuple[set[str], bool]:
    """Return the days or times that a text names, and whether a piece may name another one."""
    found = pieces(text, claim.tag)
    days, clocks = dates(found, words.today), times(found)
    own, kinds = (days, _CALENDAR) if "-" in part else (clocks, _CLOCK)
    named = {one.value for one in own}
    is_open = _is_in_either_half(clocks)
    if own is days:
        # A day without a month is not certain, and one of two days may count from the other.
        is_open = len(named) > _YEARS or len({one.start for one in days}) > 1
    read = [_is_in(piece, own) for piece in found]
    # The number of another value is none of a day.
    used = {"1", *claim.beside.split()}
    for at, piece in enumerate(found):
        is_bound = any(read[max(at - 1, 0) : at + 2]) and not _BOUNDS.isdisjoint(piece.senses)
        is_number = piece.word.isdecimal() and piece.word not in used
        is_other = is_number and not _is_in(piece, [*days, *clocks])
        is_same = piece.word == part[-2:].lstrip("0")
        may_be = is_bound or is_other or is_same or not kinds.isdisjoint(piece.senses)
        is_open = is_open or (may_be and not read[at])
    return named, is_open


def _is_in_either_half(clocks: Sequence[Meaning]) -> bool:
    """Return true if a time may be in the morning or in the evening, by its longest readings."""
    longest = max((one.end - one.start for one in clocks), default=0)
    times_of_day = {one.value for one in clocks if one.end - one.start == longest}
    halves = {(int(value[:2]) % 12, value[2:]) for value in times_of_day}
    return len(halves) < len(times_of_day)


def _is_in(piece: Piece, readings: Sequence[Meaning]) -> bool:
    return any(_is_at(piece, (0, one.start, one.end)) for one in readings)


def is_made_of_a_question(claim: Claim, message: str) -> bool:
    """Return true for a text without a word of the message, if that message only asks.

    Small models note an answer of their own to what the user asks. Two words are alike if they
    begin with the same four letters, as forms of one word do.
    """
    coded = "enum" in claim.schema or "const" in claim.schema
    if not isinstance(claim.value, str) or coded or not only_asks(message):
        return False
    if claim.schema.get("format") in TIMES or _ISO.fullmatch(claim.value):
        return False
    asked = {word[:_STEM] for word in _words(pieces(message, claim.tag))}
    return asked.isdisjoint(word[:_STEM] for word in _words(pieces(claim.value, claim.tag)))


def _place(claim: Claim, words: UserWords, most: int) -> Place | None:
    """Return the place of the words that prove one value; None if there are none."""
    quotes = claim.quotes
    if claim.kind == "digits":
        text = str(claim.value)
        place = _digits(claim, words) if any(map(str.isdigit, text)) else None
        if place is not None or not any(map(str.isalpha, text)):
            return place
        # Letters beside the digits have to be said as well, so the whole text is the quote.
        quotes = (text,)
    # The latest message first: it is the likeliest answer to the question.
    for message in reversed(words.since(claim.key)):
        found = pieces(message[1], claim.tag)
        # Without a quote, the value itself is looked for, then the whole message is taken.
        own = (str(claim.value), message[1])
        for quote in own if quotes is None else quotes:
            place = find_quote(quote, [message])
            if place is not None and _proves(claim, place, found, words, most):
                return place
    return None


def _proves(claim: Claim, place: Place, found: list[Piece], words: UserWords, most: int) -> bool:
    """Return true if the words at a place of a message say a value."""
    value, schema = claim.value, claim.schema
    quoted = [piece for piece in found if _is_at(piece, place)]
    match value:
        case bool():
            # A yes answers the question before it, and none that was asked earlier.
            is_asked = words.asked.get(claim.key) == place[0] - 1
            return _is_answered(claim, quoted, is_asked=is_asked) or _is_named(claim, quoted)
        case int() | float():
            read = [one.value for one in numbers(found) if _is_at(one, place)]
            return value in read or _is_named(claim, quoted)
    if "enum" in schema or "const" in schema:
        # Who writes a sentence in a language need not name it.
        wrote = claim.key == LANGUAGE and len(_words(quoted)) >= _SENTENCE
        return wrote or _is_named(claim, quoted)
    text = str(value)
    # A date is said in words of its language, which hold no text like 2026-05-01.
    form = _ISO.fullmatch(text)
    if form is not None and schema.get("format") in (None, *TIMES):
        moments = [*dates(found, words.today), *times(found)]
        named = {one.value for one in moments if _is_at(one, place)}
        if named.issuperset(filter(None, form.groups())):
            return bool(text)
    wanted = _words(pieces(text, claim.tag))
    return bool(wanted) and _holds(_words(quoted), wanted, most)


def _words(found: Sequence[Piece]) -> list[str]:
    return " ".join(piece.word for piece in found).split()


def _is_at(one: Piece | Meaning, place: Place) -> bool:
    return one.start < place[2] and place[1] < one.end


def _names(claim: Claim) -> list[tuple[str, Any]]:
    """Return the texts that the author has tied to values of a key, each with its value."""
    labels = claim.schema.get(LABELS)
    found: list[tuple[str, Any]] = list(claim.words_of)
    for value in claim.schema.get("enum") or (True, False):
        text = value
        if not isinstance(text, str):
            text = json.dumps(value)
        found.append((text, value))
        if isinstance(labels, Mapping):
            found.append((str(labels.get(text, "")), value))
    return found


def _is_named(claim: Claim, quoted: Sequence[Piece]) -> bool:
    """Return true if words have a whole name of a value, or a word that no other value has."""
    said = _words(quoted)
    own: list[list[str]] = []
    others: list[list[str]] = []
    for text, meant in _names(claim):
        name = _words(pieces(text, claim.tag))
        if meant == claim.value and type(meant) is type(claim.value):
            own.append(name)
        else:
            others.append(name)
    mine = set(chain.from_iterable(own))
    mine -= set(chain.from_iterable(others))
    if any(_is_form(word, one) for word, one in product(mine, said)):
        return True
    return _longest(own, said) > _longest(others, said)


def _longest(names: Sequence[Sequence[str]], said: Sequence[str]) -> int:
    """Return the words of the longest name that was said whole."""
    whole = [len(name) for name in names if _holds(said, name, _ANY)]
    return max(whole, default=0)


def _is_form(word: str, said: str) -> bool:
    """Return true if two words are the same, or begin alike as two forms of one word do."""
    stem = word[: max(_STEM, len(word) * 2 // 3)]
    return word == said or (len(word) >= _STEM and word.isalpha() and said.startswith(stem))


def _is_answered(claim: Claim, quoted: Sequence[Piece], *, is_asked: bool) -> bool:
    """Return true if words say yes or no to what was asked, or name the key and what it is."""
    title = str(claim.schema.get("title") or claim.key.replace("_", " "))
    names = [word for word in _words(pieces(title, claim.tag)) if len(word) >= _STEM]
    named: list[int] = []
    denied: list[int] = []
    for at, piece in enumerate(quoted):
        if any(_is_form(name, piece.word) for name in names):
            named.append(at)
        if "not" in piece.senses:
            denied.append(at)
    is_near = any(0 < at - no <= _NEAR for at, no in product(named, denied))
    if claim.value is False:
        return bool(denied) and (is_asked or bool(named))
    agreed = is_asked and any("yes" in piece.senses for piece in quoted)
    return agreed or (bool(named) and not is_near)


def _holds(said: Sequence[str], wanted: Sequence[str], most: int) -> bool:
    """Return true if every word of a value stands whole among those said, in the value's order.

    At most so many words may have been said in all, and spaces inside of words do not count.
    """
    at = 0
    beside = len(said)
    while wanted and at < len(said):
        used = _same(wanted, said[at:])
        if used is None:
            at += 1
            continue
        words, taken = used
        wanted = wanted[words:]
        at += taken
        beside += words - taken
    return not wanted and beside <= most


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


def _digits(claim: Claim, words: UserWords) -> Place | None:
    """Return the place of the digits of a value: a run of one message, with whole groups.

    The run may change a part of the value so far, or be the rest of what the message before the
    question gave.
    """
    is_number = isinstance(claim.value, int | float)
    written = str(claim.value)
    zero = "0" if is_number or written.startswith("+") else ""
    wanted = _digits_in(pieces(written, claim.tag)).lstrip(zero)
    old = "" if claim.old is None else str(claim.old)
    begun = [_digits_in(pieces(old, claim.tag))]
    for number, text in words.messages:
        if number == words.asked.get(claim.key):
            begun += [run.value for run in _runs(pieces(text, claim.tag))]
    for number, text in reversed(words.since(claim.key)):
        found = pieces(text, claim.tag)
        rest = _digits_in(found)
        completed = [one + rest for one in begun if one]
        if len(begun[0]) == len(wanted):
            completed.append(begun[0][: -len(rest)] + rest)
            completed.append(rest + begun[0][len(rest) :])
        runs = _runs(found)
        if is_number and len(wanted) < _LONG:
            runs = numbers(found)
        for run in runs:
            meant = [run.value]
            if run.value == rest:
                meant += completed
            if claim.value in meant or wanted in [str(one).lstrip(zero) for one in meant]:
                return number, run.start, run.end
    return None


def _digit(piece: Piece) -> str:
    """Return the digits of a piece, in words or not, with its sign and its decimal mark."""
    if "digit" in piece.senses:
        return str(int(piece.senses["digit"]))
    is_digits = "written" in piece.senses or piece.word.isdecimal()
    return piece.word if is_digits else ""


def _digits_in(found: Sequence[Piece]) -> str:
    sign = "-" if any(is_signed(piece) for piece in found if _digit(piece)) else ""
    return sign + "".join(map(_digit, found))


def _runs(found: Sequence[Piece]) -> list[Meaning]:
    """Return every run of groups of digits that only blanks, marks and joining words separate."""
    runs: list[Meaning] = []
    for first, piece in enumerate(found):
        for last in range(first, min(first + _LONGEST_RUN, len(found))):
            end = found[last]
            if _digit(end) and _digit(piece):
                digits = _digits_in(found[first : last + 1])
                runs.append(Meaning(digits, piece.start, end.end))
            elif "join" not in end.senses:
                break
    return runs
