"""Values that a whole message is for certain, without a model: of keys with `x-fast`.

It is never a guess, and nothing is certain where more than one thing may have been asked for: a choice of an `enum`
by its words, or by its number where the numbered choices were what was said last; a text that the key's own pattern or
format recognises, where that refuses what people say otherwise, and more words around it; yes, no, a number or a very
short text only in answer to a state's first question, since a later one may be about something else. A number or a
very short text, which nearly everything can be answered by, needs a question that stands alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from llm_fsm.turn.repair.courtesies import uninviting
from llm_fsm.turn.repair.questions import (
    NO,
    YES,
    alone,
    counts,
    joined,
    no_agrees,
    several,
    stands,
    takes,
    times_listed,
)

_WORDS = (
    *("no", "ok", "hi", "yes", "why", "how", "who", "help", "stop", "back", "what", "wait", "none", "hello", "sorry"),
    *("again", "cancel", "repeat", "please", "nothing", "restart", "goodbye", "question", "whatever", "something"),
    *("different", "understand", "information", "conversation", "unfortunately"),
)
OTHERWISE = (
    *(said for word in _WORDS for said in (word, word.capitalize(), word.upper())),
    *("Hello!", "What do you mean?", "what do you mean", "I do not know", "not now", "Ada Lovelace"),
)
"""What people say instead of an answer; a key that takes one of these is for the model."""
_AROUND = ("not {}", "{} or so")
"""What people say around a value; where that is taken as well, it is not known what the value is."""
_ASIDE = YES | NO | {"ok", "okay", "hi", "hello", "help", "stop", "cancel", "back", "again", "thanks", "sorry", "wait"}
"""What people say to whatever was said last."""
_POINT = "\u2022"
_SHORT = 3
_DIGITS = 4
_WHOLE = re.compile(r"-?\d{1,15}")
_END = re.compile(r"([^.!])[.!]$")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,2})?")
"""Without a plus: "+1" is also a way to agree, and to bring somebody along."""


class Heard(NamedTuple):
    """A message as it is looked at. `first`: nothing else was said in the state; `asked`: the words before it.

    `whole`: they were kept whole, and not cut off.
    """

    text: str
    first: bool
    asked: str
    whole: bool = True

    @property
    def to_one(self) -> bool:
        """True where no more than one thing was asked for."""
        return self.whole and not several(self.asked)

    @property
    def to_first(self) -> bool:
        """True for an answer to the state's first question, if that is alone in what was said."""
        return self.first and self.whole and alone(self.asked) and not joined(self.asked)


Recogniser = Callable[[Heard], Any]
"""The value that a message is; None where it is none for certain."""


def recognisers(
    schemas: Mapping[str, Mapping[str, Any]], fault: Callable[[str, object], str | None]
) -> dict[str, Recogniser]:
    """Key to what recognises its values, for the keys with `x-fast`. `fault`: why a key cannot have a value."""
    fast = {key: schema for key, schema in schemas.items() if schema.get("x-fast") is True}
    if not fast:
        return {}
    found: dict[str, Recogniser] = {}
    agrees = no_agrees(json.dumps([*schemas.values()], ensure_ascii=False, default=str))
    for key, schema in fast.items():

        def fits(value: object, key: str = key) -> bool:
            return fault(key, value) is None

        one = recogniser(schema, fits)
        if one is not None:
            found[key] = _without_no(one) if agrees else one
    return found


def recogniser(schema: Mapping[str, Any], fits: Callable[[object], bool]) -> Recogniser | None:
    """What recognises values of a schema; None where no message is certainly one. `fits`: the schema takes a value."""
    choices, kind = schema.get("enum"), schema.get("type")
    one: Recogniser | None = None
    if isinstance(choices, list):
        one = _of_choices(choices)
    elif kind == "boolean":
        one = _yes_or_no
    elif kind in ("integer", "number"):
        one = _of_numbers(_WHOLE if kind == "integer" else _NUMBER)
    elif kind == "string" and not any(map(fits, OTHERWISE)):
        return _of_texts(fits)
    return None if one is None else _fitting(one, fits)


def _fitting(one: Recogniser, fits: Callable[[object], bool]) -> Recogniser:
    def fitting(heard: Heard) -> Any:
        value = one(heard)
        return value if value is not None and fits(value) else None

    return fitting


def _without_no(one: Recogniser) -> Recogniser:
    def sure(heard: Heard) -> Any:
        return None if folded(heard.text) == "no" else one(heard)

    return sure


def _of_texts(fits: Callable[[object], bool]) -> Recogniser:
    def text(heard: Heard) -> Any:
        said = heard.text
        if len(said) <= _SHORT and (not heard.to_first or times_listed(said, heard.asked) or stands(said, heard.asked)):
            return None
        if not said or not fits(said) or not heard.to_one or joined(heard.asked):
            return None
        return None if any(fits(around.format(said)) for around in _AROUND) else said

    return text


def _of_numbers(form: re.Pattern[str]) -> Recogniser:
    def number(heard: Heard) -> Any:
        said = heard.text
        if not _plain(form, said) or not heard.to_first or times_listed(said, heard.asked) or stands(said, heard.asked):
            return None
        return json.loads(said)

    return number


def _plain(form: re.Pattern[str], text: str) -> bool:
    """True for a number as JSON writes it too: without zeros in front."""
    return form.fullmatch(text) is not None and re.match(r"-?0\d", text) is None and text.isascii()


def folded(text: str) -> str:
    """A word as it is compared: "too big" is "too_big"; one full stop is an end, three are a doubt."""
    return _END.sub(r"\1", " ".join(_spaced(text.casefold())))


def _spaced(text: str) -> list[str]:
    return text.replace("_", " ").split()


def _without(listed: list[re.Pattern[str]], words: str) -> str:
    """The words with a mark for each point of a list."""
    for point in listed:
        words = point.sub(_POINT, words)
    return words


def _of_choices(choices: list[Any]) -> Recogniser | None:
    labels = [choice if isinstance(choice, str) else json.dumps(choice) for choice in choices]
    by_words = dict(zip(map(folded, labels), choices, strict=True))
    if len(by_words) != len(choices) or None in choices or "" in by_words:
        return None
    in_place = {label for n, label in enumerate(labels, 1) if label == str(n)}
    whole = [r"[\s_]+".join(map(re.escape, _spaced(label))) + r"(?!\w)" for label in labels]
    shown = [re.compile(rf"(?<!\w){words}", re.IGNORECASE) for words in whole]
    listed = [
        re.compile(rf"(?:(?<!\w){n}[.):]|^[^\S\n]*{n})\s+{words}", re.IGNORECASE | re.MULTILINE)
        for n, words in enumerate(whole, 1)
    ]

    def are_points(asked: str) -> bool:
        """True where the points of a list have no other numbers than choices have."""
        return all(str(n) in by_words or not times_listed(str(n), asked) for n in range(1, len(choices) + 2))

    def by_place(number: str, heard: Heard) -> Any:
        """The choice at a place of the list that was said last, if nothing else has that number."""
        place = 0 if len(number) > _DIGITS or number[0] == "0" else int(number)
        if times_listed(number, heard.asked) > 1 or not 1 <= place <= len(choices):
            return None  # a second list, or perhaps one
        rest = _without(listed, heard.asked)
        if stands(number, rest) or counts(rest if not alone(rest) else rest.rpartition(_POINT)[2]):
            return None  # it may be asked for beside the list, or after it
        named, found = by_words.get(number), choices[place - 1]
        return found if named is None or named == found else None

    def by_name(word: str, heard: Heard) -> Any:
        named = by_words.get(word)
        if named is None or (word in _ASIDE and not heard.first):
            return None
        if all(one.search(heard.asked) for one in shown):
            return named
        sure = heard.first and not joined(heard.asked)
        return named if sure and (word not in YES | NO or takes(word, heard.asked)) else None

    def choice(heard: Heard) -> Any:
        ends = [[found.end() for found in one.finditer(heard.asked)] for one in shown]
        if all(ends):
            heard = heard._replace(asked=uninviting(heard.asked, max(map(max, ends))))
        word = folded(heard.text)
        number = word.removesuffix(")")
        if not heard.whole or several(_without(listed, heard.asked).replace(_POINT, " ")):
            return None
        if number.isascii() and number.isdecimal():
            if all(one.search(heard.asked) for one in listed):
                return by_place(number, heard)
            if times_listed(number, heard.asked) and not (number in in_place and are_points(heard.asked)):
                return None  # a list of something else
            if len(re.findall(rf"(?<!\d){number}(?!\d)", heard.asked)) > 1:
                return None  # what else it is said of may be meant
        return by_name(word, heard)

    return choice


def _yes_or_no(heard: Heard) -> Any:
    word = folded(heard.text)
    if not (heard.first and heard.to_one) or (word in YES) == (word in NO) or not takes(word, heard.asked):
        return None
    agrees = word in YES
    return agrees if agrees or not joined(heard.asked) else None
