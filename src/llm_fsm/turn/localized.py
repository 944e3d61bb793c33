"""Values as fixed replies show them: the words of `x-labels`, and dates, numbers, money and lists in
the definition's `language`.

A value is itself in comparisons: `{% if size == "s" %}` compares the value, and `{{ size }}` shows
its words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, as_text, object_at
from llm_fsm._zones import zone_of
from llm_fsm.conditions.coercion import is_number
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.languages import listed, locale_of, number_in

LABELS = "x-labels"
CURRENCY = "x-currency"
_TIMES = ("date", "time", "date-time")
"""Formats whose values are written as the language of the definition writes them."""


class _Shown:
    """A value that shows as other words. `is_label`: they are those of `x-labels`."""

    words: str
    is_label: bool

    def __str__(self) -> str:
        return self.words


class _Text(_Shown, str):
    """A text."""


class _Whole(_Shown, int):
    """A whole number, or true or false."""


class _Fraction(_Shown, float):
    """A number with a fraction."""


class _Enumeration(_Shown, list[Any]):
    """A list."""


_WITH_WORDS: Mapping[type, Callable[[Any], _Shown]] = {
    str: _Text,
    bool: _Whole,
    int: _Whole,
    float: _Fraction,
    list: _Enumeration,
}


def has_words(schema: JsonMap, language: str) -> bool:
    """Return true if some value of a key is shown in other words than its own."""
    if isinstance(schema.get(LABELS), Mapping):
        return True
    if CURRENCY in schema:
        return True
    # Without a language, nobody knows how a date is written there.
    types = types_of(schema)
    if language and (schema.get("format") in _TIMES or "number" in types or "array" in types):
        return True
    # Parts count, because a reply may show the whole list or object.
    inner = [schema.get("items")]
    parts = schema.get("properties")
    if isinstance(parts, Mapping):
        inner += parts.values()
    return any(has_words(part, language) for part in inner if isinstance(part, Mapping))


def localized(schema: JsonMap, value: Any, language: str, timezone: str = "") -> Any:
    """Return a value that shows in the words of its key's schema.

    Args:
        schema: The key's JSON Schema.
        value: The value. Parts of lists and objects are localized, too.
        language: BCP 47 tag; "" leaves all but labels and money as they are.
        timezone: IANA name of the zone in which a moment with an offset is shown; "" shows it as
            written.
    """
    match value, schema:
        case list(), {"items": Mapping() as items}:
            value = [localized(items, item, language, timezone) for item in value]
        case dict(), {"properties": Mapping() as parts}:
            shown_parts: JsonDict = {}
            for name, item in value.items():
                shown_parts[name] = localized(object_at(parts, name), item, language, timezone)
            return shown_parts
    words = _words(schema, value, language, timezone)
    with_words = _WITH_WORDS.get(type(value))
    if words is None or with_words is None:
        return value
    shown = with_words(value)
    shown.words = words
    shown.is_label = label_of(schema, value) is not None
    return shown


def _words(schema: JsonMap, value: Any, language: str, timezone: str) -> str | None:
    """Return the words that show a value; None if it shows itself."""
    words = label_of(schema, value)
    if words is not None:
        return words
    currency = schema.get(CURRENCY)
    if isinstance(currency, str) and is_number(value):
        return number_in(language or "en", value, currency)
    if not language:
        return None
    types = types_of(schema)
    match value:
        case str() if "string" in types:
            return _in_language(str(schema.get("format")), value, language, timezone)
        # An integer may be the number of an order, or a year.
        case int() | float() if "number" in types and is_number(value):
            return number_in(language, value)
        case list() if not any(isinstance(item, list | dict | bool) for item in value):
            return listed([str(item) for item in value], language)
    return None


def label_of(schema: JsonMap, value: Any) -> str | None:
    """Return the words of `x-labels` for a value; None if there are none."""
    labels = schema.get(LABELS)
    if not isinstance(labels, Mapping):
        return None
    words = labels.get(as_text(value))
    return words if isinstance(words, str) and words else None


def _in_language(form: str, text: str, language: str, timezone: str) -> str | None:
    """Return a date or a time in a language; None for other texts, and for an unknown language."""
    if form not in _TIMES:
        return None
    locale = locale_of(language)
    if locale is None:
        return None
    from babel.dates import format_date, format_time  # noqa: PLC0415 - as above

    try:
        if form == "date":
            return str(format_date(date.fromisoformat(text), "long", locale))
        if form == "time":
            return str(format_time(time.fromisoformat(text), "short", locale=locale))
        at = datetime.fromisoformat(text)
        at = at.astimezone(zone_of(timezone)) if at.tzinfo and timezone else at
    except (ValueError, OverflowError):
        return None
    return f"{format_date(at, 'long', locale)}, {format_time(at.time(), 'short', locale=locale)}"
