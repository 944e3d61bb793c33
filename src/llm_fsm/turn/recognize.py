"""Messages that are certainly a value: a choice of an `enum`, yes or no, or a text in a `format`.

Only keys with `x-fast` have a recogniser. It reads the whole message, never a part of it. Yes and no are known in the
definition's `language` alone. What nothing here recognises is for the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

YES_NO: Mapping[str, tuple[str, str]] = {
    "ar": ("نعم", "لا"),
    "cs": ("ano", "ne"),
    "da": ("ja", "nej"),
    "de": ("ja", "nein"),
    "el": ("ναι", "όχι"),
    "en": ("yes y", "no n"),
    "es": ("sí si", "no"),
    "fi": ("kyllä", "ei"),
    "fr": ("oui", "non"),
    "he": ("כן", "לא"),
    "hi": ("हाँ हां", "नहीं"),
    "hu": ("igen", "nem"),
    "it": ("sì si", "no"),
    "ja": ("はい", "いいえ"),
    "ko": ("네 예", "아니요 아니오"),
    "nb": ("ja", "nei"),
    "nl": ("ja", "nee"),
    "no": ("ja", "nei"),
    "pl": ("tak", "nie"),
    "pt": ("sim", "não nao"),
    "ru": ("да", "нет"),
    "sv": ("ja", "nej"),
    "tr": ("evet", "hayır"),
    "uk": ("так", "ні"),
    "zh": ("是", "否"),
}
"""Language to its words for yes and for no."""
FORMATS = frozenset(("date", "date-time", "email", "idn-email", "ipv4", "ipv6", "time", "uri", "uuid"))
"""Formats that no ordinary word has: `hostname` would take "no"."""
_END = re.compile(r"([^.!])[.!]$")

Recogniser = Callable[[str, str], Any]
"""Message and the words that asked for it to the value that the message is; None where it is none for certain."""


def recognisers(
    schemas: Mapping[str, Mapping[str, Any]], fault: Callable[[str, object], str | None], language: str = ""
) -> dict[str, Recogniser]:
    """Make a recogniser for each key with `x-fast` that can have one.

    Args:
        schemas: Context key to its JSON Schema.
        fault: Says why a key cannot have a value; None if it can.
        language: BCP 47 tag of the definition; English if empty.
    """
    found: dict[str, Recogniser] = {}
    for key, schema in schemas.items():
        one = recogniser(schema, language) if schema.get("x-fast") is True else None
        if one is not None:
            found[key] = _fitting(one, key, fault)
    return found


def recogniser(schema: Mapping[str, Any], language: str = "") -> Recogniser | None:
    """Return what recognises values of a schema; None if no message is certainly one."""
    choices, kind = schema.get("enum"), schema.get("type")
    if isinstance(choices, list):
        return _of_choices(choices)
    if kind == "boolean":
        words = YES_NO.get((language or "en").partition("-")[0].lower())
        return None if words is None else _of_words({word: no == 0 for no in (0, 1) for word in words[no].split()})
    if kind == "string" and schema.get("format") in FORMATS:
        return _as_it_is
    return None


def folded(text: str) -> str:
    """Return words as they are compared: "Too big." is "too big", and so is "too_big"."""
    return _END.sub(r"\1", " ".join(text.casefold().replace("_", " ").split()))


def _fitting(one: Recogniser, key: str, fault: Callable[[str, object], str | None]) -> Recogniser:
    def fitting(said: str, asked: str) -> Any:
        value = one(said, asked)
        return value if value is not None and fault(key, value) is None else None

    return fitting


def _as_it_is(said: str, asked: str) -> Any:  # noqa: ARG001 - a Recogniser
    return said or None


def _of_words(by_words: Mapping[str, Any]) -> Recogniser:
    return lambda said, asked: by_words.get(folded(said))  # noqa: ARG005 - a Recogniser


def _of_choices(choices: list[Any]) -> Recogniser | None:
    labels = [choice if isinstance(choice, str) else json.dumps(choice) for choice in choices]
    by_words = dict(zip(map(folded, labels), choices, strict=True))
    if len(by_words) != len(choices) or None in choices or "" in by_words:
        return None
    by_number = {} if any(word.isdecimal() for word in by_words) else dict(enumerate(choices, 1))

    def choice(said: str, asked: str) -> Any:
        word = folded(said)
        number = word.rstrip(".)")
        if number.isascii() and number.isdecimal() and by_number and _lists(asked, labels):
            return by_number.get(int(number[:9]))
        return by_words.get(word)

    return choice


def _lists(asked: str, labels: list[str]) -> bool:
    """Return true if the words number these choices, and nothing else: "1. small 2) large"."""
    shown = [
        re.search(rf"(?<!\w){number}[.):]\s+{re.escape(folded(label))}(?!\w)", folded(asked))
        for number, label in enumerate(labels, 1)
    ]
    return all(shown) and len(re.findall(r"(?<!\w)\d+[.):]\s", asked)) <= len(labels)
