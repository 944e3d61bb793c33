"""Values that a whole message is for certain, without a model: of keys with `x-fast`.

It is never a guess: a choice of an `enum` by its words, or by its number where the numbered choices were what was
said last; yes or no, in answer to a state's first question; a number; a text that the key's own pattern or format
recognises, where that refuses what people say otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from llm_fsm.context import Keys

_YES = frozenset(("yes", "y", "true", "ja", "oui", "sí", "si", "sim", "да", "はい", "是"))
_NO = frozenset(("no", "n", "false", "nein", "non", "não", "нет", "いいえ", "否"))
_OTHERWISE = (
    "Hello!",
    "What do you mean?",
    "yes",
    "no",
    "cancel",
    "I do not know",
    "not now",
    "Ada Lovelace",
)
"""What people say instead of an answer; a key that takes one of these is for the model."""
_WHOLE = re.compile(r"[+-]?\d{1,15}")
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d{1,2})?")


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
            value = json.loads(heard.text.lstrip("+")) if _plain(form, heard.text) else None
            return value if value is not None and fits(value) else None

        return number
    if kind != "string" or any(fits(text) for text in _OTHERWISE):
        return None
    return lambda heard: heard.text if heard.text and fits(heard.text) else None


def _plain(form: re.Pattern[str], text: str) -> bool:
    """True for a number as JSON writes it too: without zeros in front."""
    return form.fullmatch(text) is not None and re.match(r"[+-]?0\d", text) is None and text.isascii()


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")


def _of_choices(choices: list[Any]) -> Recogniser | None:
    labels = [choice if isinstance(choice, str) else json.dumps(choice) for choice in choices]
    by_words = dict(zip(map(_folded, labels), choices, strict=True))
    if len(by_words) != len(choices) or None in choices:
        return None
    listed = [
        re.compile(rf"(?<!\d){n}[.):]?\s+{re.escape(label)}", re.IGNORECASE)
        for n, label in enumerate(labels, 1)
    ]

    def choice(heard: Heard) -> Any:
        word = _folded(heard.text)
        if word in by_words:
            return by_words[word]
        number = word.rstrip(").")
        if number.isascii() and number.isdecimal() and all(one.search(heard.asked) for one in listed):
            place = int(number[:4])
            return choices[place - 1] if 1 <= place <= len(choices) else None
        return None

    return choice


def _yes_or_no(heard: Heard) -> Any:
    word = _folded(heard.text)
    if not heard.first or (word in _YES) == (word in _NO):
        return None
    return word in _YES
