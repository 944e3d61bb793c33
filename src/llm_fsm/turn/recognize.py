"""Messages that are certainly a value: a choice of an `enum`, yes or no, or a text in a `format`.

Only keys with `x-fast` have a recogniser. It reads the whole message, never a part of it. Yes and
no are known only in the definition's `language`. The model reads every other message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from llm_fsm._json import JsonMap, Schemas, as_text
from llm_fsm.conditions.coercion import plain_digits
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.languages import language_of
from llm_fsm.turn.localized import label_of

FORMATS = frozenset(
    ("date", "date-time", "email", "idn-email", "ipv4", "ipv6", "time", "uri", "uuid")
)
"""Formats that no ordinary word has: `hostname` would take "no"."""
_END = re.compile(r"([^.!])[.!]$")
_MOST_DIGITS = 9
"""Digits of the number of a choice. Python reads very long numbers in quadratic time."""

Recogniser = Callable[[str, str], Any]
"""From a message, and the text that asked for it, to its value; None if it is not certain."""


def recognisers(
    schemas: Schemas, fault: Callable[[str, object], str | None], language: str = ""
) -> dict[str, Recogniser]:
    """Make a recogniser for each key with `x-fast` that can have one.

    Args:
        schemas: Context key to its JSON Schema.
        fault: Returns why a key cannot have a value; None if it can.
        language: BCP 47 tag of the definition; English if empty.
    """
    by_key: dict[str, Recogniser] = {}
    for key, schema in schemas.items():
        if schema.get("x-fast") is not True:
            continue
        recognise = recogniser(schema, language)
        # Without a certain form, a reply of the model is the only reader.
        if recognise is not None:
            by_key[key] = _fitting(recognise, key, fault)
    return by_key


def recogniser(schema: JsonMap, language: str = "") -> Recogniser | None:
    """Return the recogniser of a schema; None if no message is certainly a value of it."""
    choices, kind = schema.get("enum"), schema.get("type")
    named = [(folded(words), value) for words, value in named_values(schema)]
    if isinstance(choices, list):
        return _of_choices(schema, choices, named)
    if kind == "boolean":
        words = language_of(language)
        by_words = dict.fromkeys(words.yes, True) | dict.fromkeys(words.no, False) | dict(named)
        return _of_words(by_words) if by_words else None
    if kind == "string" and schema.get("format") in FORMATS:
        return _as_it_is
    return None


def named_values(schema: JsonMap) -> list[tuple[str, Any]]:
    """Return words and values of the choices of a key: as they are written, and by `x-labels`."""
    enum = schema.get("enum")
    values = [value for value in enum if value is not None] if isinstance(enum, list) else []
    found = [(as_text(value), value) for value in values]
    for value in [True, False] if "boolean" in types_of(schema) and not values else values:
        words = label_of(schema, value)
        found += [] if words is None or (words, value) in found else [(words, value)]
    return found


def folded(text: str) -> str:
    """Return a text for comparisons: "Too big." is "too big", and so is "too_big"."""
    words = text.casefold().replace("_", " ").split()
    return _END.sub(r"\1", " ".join(words))


def _fitting(
    recognise: Recogniser, key: str, fault: Callable[[str, object], str | None]
) -> Recogniser:
    """Return a recogniser of values that the key can have."""

    def fitting(message: str, asked: str) -> Any:
        value = recognise(message, asked)
        if value is None or fault(key, value) is not None:
            return None
        return value

    return fitting


def _as_it_is(message: str, _asked: str) -> Any:
    return message or None


def _of_words(by_words: JsonMap) -> Recogniser:
    return lambda message, _asked: by_words.get(folded(message))


def _of_choices(
    schema: JsonMap, choices: list[Any], named: list[tuple[str, Any]]
) -> Recogniser | None:
    labels = [label_of(schema, choice) or as_text(choice) for choice in choices]
    by_words = dict(named)
    # One word for two values makes none of them certain.
    is_double = any(by_words[word] is not value for word, value in named)
    if is_double or None in choices or "" in by_words:
        return None

    def choice(message: str, asked: str) -> Any:
        place = place_of(labels, message, numbered=_numbers(asked, labels))
        return by_words.get(folded(message)) if place is None else choices[place]

    return choice


def place_of(labels: Sequence[str], said: str, *, numbered: bool) -> int | None:
    """Return the place of the label that a text is: in any letters, or by its number from 1.

    Args:
        labels: The labels. If one of them is a number itself, a number is only a label.
        said: The text.
        numbered: True if the labels were shown with numbers.
    """
    word = folded(said)
    same = [place for place, label in enumerate(labels) if folded(label) == word]
    if len(same) > 1:  # labels that differ in their letters' case alone
        same = [place for place in same if labels[place] == said.strip()]
    number = plain_digits(word).rstrip(".)")
    if same or not numbered or not (number.isascii() and number.isdecimal()):
        return next(iter(same), None)
    place = int(number[:_MOST_DIGITS]) - 1
    # Where a label is a number, "2" is more likely that label than the second one.
    is_place = 0 <= place < len(labels) and not any(folded(one).isdecimal() for one in labels)
    return place if is_place else None


def _numbers(asked: str, labels: list[str]) -> bool:
    """Return true if a text numbers these choices, and nothing else: "1. small 2) large"."""
    text = folded(asked)
    for number, label in enumerate(labels, 1):
        item = rf"(?<!\w){number}[.):]\s+{re.escape(folded(label))}(?!\w)"
        if re.search(item, text) is None:
            return False
    # Further numbered lines are another list, and "2" may mean one of those.
    return len(re.findall(r"(?<!\w)\d+[.):]\s", asked)) <= len(labels)
