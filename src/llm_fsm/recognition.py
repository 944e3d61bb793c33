"""Values that a whole message is for certain, without a model: of keys with `x-fast`.

It is never a guess: a choice of an `enum` by its words, or by its number where the numbered choices were what was
said last; a text that the key's own pattern or format recognises, where that refuses what people say otherwise; yes,
no, a number or a very short text only in answer to a state's first question, since a later one may be about
something else; of these the first three only where nothing else was asked with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from llm_fsm.context import Keys

_YES = frozenset(("yes", "y", "true", "ja", "oui", "sí", "si", "sim", "да", "はい", "是", "نعم", "כן"))
_NO = frozenset(("no", "n", "false", "nein", "non", "não", "нет", "いいえ", "否", "لا", "לא"))
_OTHERWISE = (
    *("Hello!", "Hello", "HELLO", "Help", "help", "Stop", "OK", "Ok", "NO", "No", "YES", "Yes"),
    "What do you mean?",
    "yes",
    "cancel",
    "I do not know",
    "not now",
    "Ada Lovelace",
)
"""What people say instead of an answer; a key that takes one of these is for the model."""
_SHORT = 3
_WHOLE = re.compile(r"-?\d{1,15}")
_END = re.compile(r"([^.!])[.!]$")
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,2})?")
"""Without a plus: "+1" is also a way to agree, and to bring somebody along."""
_QUESTIONS = re.compile("[?\uff1f\u061f\u037e\u055e\u1367]+")


class Heard(NamedTuple):
    """A message as it is looked at. `first`: nothing else was said in the state; `asked`: the words before it."""

    text: str
    first: bool
    asked: str


Recogniser = Callable[[Heard], Any]
"""The value that a message is; None where it is none for certain."""


def recognisers(keys: Keys, schemas: Mapping[str, Mapping[str, Any]]) -> dict[str, Recogniser]:
    """Key to what recognises its values, for the keys with `x-fast` that a reply may write."""
    found: dict[str, Recogniser] = {}
    for key, schema in schemas.items():
        if schema.get("x-fast") is True and keys.writable(key) and (one := _recogniser(schema, keys, key)):
            found[key] = one
    return found


def _recogniser(schema: Mapping[str, Any], keys: Keys, key: str) -> Recogniser | None:
    choices, kind = schema.get("enum"), schema.get("type")
    if isinstance(choices, list):
        return _of_choices(choices)
    if kind == "boolean":
        return _yes_or_no

    def fits(value: object) -> bool:
        return keys.fault(key, value) is None

    if kind in ("integer", "number"):
        form = _WHOLE if kind == "integer" else _NUMBER

        def number(heard: Heard) -> Any:
            if not _asked_once(heard) or _listed(heard):
                return None
            value = json.loads(heard.text) if _plain(form, heard.text) else None
            return value if value is not None and fits(value) else None

        return number
    if kind != "string" or any(fits(text) for text in _OTHERWISE):
        return None

    def text(heard: Heard) -> Any:
        certain = bool(heard.text) and (heard.first or len(heard.text) > _SHORT)
        return heard.text if certain and fits(heard.text) else None

    return text


def _asked_once(heard: Heard) -> bool:
    """True for an answer to the state's first question, if that is not one of several."""
    return heard.first and len(_QUESTIONS.findall(heard.asked)) <= 1


def _listed(heard: Heard) -> bool:
    """True when the number may be one of a list that was said last."""
    return re.search(rf"(?<!\d){re.escape(heard.text)}[.):]\s", heard.asked) is not None


def _plain(form: re.Pattern[str], text: str) -> bool:
    """True for a number as JSON writes it too: without zeros in front."""
    return form.fullmatch(text) is not None and re.match(r"-?0\d", text) is None and text.isascii()


def _folded(text: str) -> str:
    """A word as it is compared: "too big" is "too_big"; one full stop is an end, three are a doubt."""
    return _END.sub(r"\1", " ".join(_spaced(text.casefold())))


def _spaced(text: str) -> list[str]:
    return text.replace("_", " ").split()


def _of_choices(choices: list[Any]) -> Recogniser | None:
    labels = [choice if isinstance(choice, str) else json.dumps(choice) for choice in choices]
    by_words = dict(zip(map(_folded, labels), choices, strict=True))
    if len(by_words) != len(choices) or None in choices:
        return None
    shown = [r"[\s_]+".join(map(re.escape, _spaced(label))) for label in labels]
    listed = [re.compile(rf"(?<!\d){n}[.):]?\s+{words}", re.IGNORECASE) for n, words in enumerate(shown, 1)]

    def choice(heard: Heard) -> Any:
        word = _folded(heard.text)
        named = by_words.get(word)
        number = word.removesuffix(")")
        if number.isascii() and number.isdecimal() and all(one.search(heard.asked) for one in listed):
            place = int(number[:4])
            if len(re.findall(rf"(?<!\d){place}[.):]\s", heard.asked)) > 1:
                return None  # a second list
            counted = choices[place - 1] if 1 <= place <= len(choices) else None
            return counted if named is None or named == counted else None
        return named if _asked_once(heard) or word not in _YES | _NO else None

    return choice


def _yes_or_no(heard: Heard) -> Any:
    word = _folded(heard.text)
    if not _asked_once(heard) or (word in _YES) == (word in _NO):
        return None
    return word in _YES
