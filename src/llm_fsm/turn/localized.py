"""Values as fixed replies say them: the words of `x-labels`, and dates in the definition's `language`.

A value stays itself in conditions of a template: `{% if size == "s" %}` compares it, and `{{ size }}` shows its words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from functools import cache
from typing import Any

from llm_fsm.definition.json_schema.validator import types_of

LABELS = "x-labels"
_TIMES = ("date", "time", "date-time")


class _Text(str):
    """A text that shows as other words."""

    __slots__ = ("words",)
    words: str

    def __str__(self) -> str:
        return self.words

    def __format__(self, spec: str) -> str:
        return format(self.words, spec)

    def upper(self) -> str:
        return self.words.upper()

    def lower(self) -> str:
        return self.words.lower()

    def title(self) -> str:
        return self.words.title()

    def capitalize(self) -> str:
        return self.words.capitalize()


class _Number(int):
    """A whole number, or true or false, that shows as words."""

    words: str

    def __str__(self) -> str:
        return self.words

    def __format__(self, spec: str) -> str:
        return format(self.words, spec)


def has_words(schema: Mapping[str, Any], language: str) -> bool:
    """Return true if some value of a key is said in other words than its own."""
    if isinstance(schema.get(LABELS), Mapping) or (language and schema.get("format") in _TIMES):
        return True
    parts = schema.get("properties")
    inner = [schema.get("items"), *(parts.values() if isinstance(parts, Mapping) else ())]
    return any(has_words(part, language) for part in inner if isinstance(part, Mapping))


def localized(schema: Mapping[str, Any], value: Any, language: str) -> Any:
    """Return a value that shows in the words of its key's schema.

    Args:
        schema: The key's JSON Schema.
        value: The value. Lists and objects are gone through.
        language: BCP 47 tag; "" leaves dates and times as they are.
    """
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [localized(schema["items"], item, language) for item in value]
    parts = schema.get("properties")
    if isinstance(value, dict) and isinstance(parts, Mapping):
        found = {name: parts[name] for name in value if isinstance(parts.get(name), Mapping)}
        return {name: localized(found.get(name, {}), item, language) for name, item in value.items()}
    words = label_of(schema, value)
    if words is None and language and isinstance(value, str) and "string" in types_of(schema):
        words = _in_language(str(schema.get("format")), value, language)
    if words is None or not isinstance(value, str | int):
        return value
    shown: _Text | _Number = _Text(value) if isinstance(value, str) else _Number(value)
    shown.words = words
    return shown


def label_of(schema: Mapping[str, Any], value: Any) -> str | None:
    """Return the words of `x-labels` for a value; None if there are none."""
    labels = schema.get(LABELS)
    if not isinstance(labels, Mapping):
        return None
    words = labels.get(text_of(value))
    return words if isinstance(words, str) and words else None


def text_of(value: Any) -> str:
    """Return a value as `x-labels` names it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@cache
def _locale(language: str) -> Any:
    """The locale of a language tag, else that of its language; None where nothing is known of it."""
    from babel import Locale, UnknownLocaleError  # noqa: PLC0415 - only definitions with a language need it

    for tag in (language, language.partition("-")[0]):
        try:
            return Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return None


def _in_language(form: str, text: str, language: str) -> str | None:
    """A date or a time in a language; None where it is none, or the language is not known."""
    if form not in _TIMES or (locale := _locale(language)) is None:
        return None
    from babel.dates import format_date, format_time  # noqa: PLC0415 - as above

    try:
        if form == "date":
            return str(format_date(date.fromisoformat(text), "long", locale))
        if form == "time":
            return str(format_time(time.fromisoformat(text), "short", locale=locale))
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return f"{format_date(at, 'long', locale)}, {format_time(at.time(), 'short', locale=locale)}"
