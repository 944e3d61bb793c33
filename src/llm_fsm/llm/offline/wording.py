"""The texts of the adapter without a model: the definition's own, and plain requests for missing
keys.
"""

from __future__ import annotations

from typing import Any

from llm_fsm._json import JsonMap, Schemas, object_at
from llm_fsm.definition.names import label
from llm_fsm.languages import ends_in_question, is_english, language_of
from llm_fsm.llm.offline.extract import options_of, type_of
from llm_fsm.turn.fixed_replies import is_ended
from llm_fsm.turn.localized import label_of, localized

NO_WORK = "(offline: no language model works on this task, and no tool is called.)"
_HINTS = {
    "date": "a date such as 2026-03-14",
    "time": "a time such as 15:30",
    "date-time": "a date and a time",
    "email": "such as ada@example.org",
    "uri": "such as https://example.org",
}


def sentence(text: str) -> str:
    """Return a text with a full stop, if it lacks an end."""
    stripped = text.strip()
    return stripped if not stripped or stripped[-1] == ")" or is_ended(stripped) else stripped + "."


def join(*parts: str) -> str:
    """Join the parts that are not empty, as sentences."""
    return " ".join(sentence(part) for part in parts if part.strip())


def _hint(schema: JsonMap, *, english: bool) -> str:
    options = options_of(schema)
    if options:
        return ", ".join(shown(schema, option) for option in options)
    if type_of(schema) == "boolean":
        labels = [label_of(schema, value) for value in (True, False)]
        named = ", ".join(word for word in labels if word)
        return named or ("yes or no" if english else "")
    return _HINTS.get(str(schema.get("format")), "") if english else ""


def request(wanted: Schemas, language: str = "") -> str:
    """Ask for the first of the missing keys, with its choices or form; "" if there is none.

    In another language than English only the definition's own words are used: titles and labels.
    """
    english = is_english(language)
    for key, schema in wanted.items():
        hint = _hint(schema, english=english)
        beside = f" ({hint})" if hint else ""
        if english:
            return f"Please tell me: {label(key, schema)}{beside}."
        title = str(schema.get("title") or "")
        if title:
            return f"{title}{beside}?"
        return f"{hint}?" if hint else ""
    return ""


def opening(words: str, wanted: Schemas, language: str = "") -> str:
    """Return a state's own text, and a request for missing keys if the text asks nothing."""
    return join(words, "" if ends_in_question(words) else request(wanted, language))


def noted(update: JsonMap, schemas: Schemas, language: str = "") -> str:
    """List the understood values in one line."""
    english = is_english(language)
    said = []
    for key, value in update.items():
        schema = schemas.get(key, {})
        words = shown(schema, localized(schema, value, language))
        if english or (schema.get("title") and not isinstance(value, bool)):
            said.append(f"{label(key, schema)}{language_of(language).colon}{words}")
    begin = "Noted – " if english else ""
    return f"{begin}{'; '.join(said)}." if said else ""


def not_found(wanted: Schemas, language: str = "", *, form: bool = False) -> str:
    """Say that the message did not have the requested value. `form`: with the form that it wants."""
    for key, schema in wanted.items():
        hint = _HINTS.get(str(schema.get("format"))) if form else None
        beside = f" ({hint})" if hint else ""
        found = f"I did not find {label(key, schema)}{beside} in that."
        return found if is_english(language) else ""
    return ""


def shown(schema: JsonMap, value: Any) -> str:
    """Return a value in the words of its key: by its label, and never as an id with marks in it."""
    words = label_of(schema, value)
    if words is not None:
        return words
    match value:
        case bool():
            return "yes" if value else "no"
        case list() if not hasattr(value, "words"):
            items = object_at(schema, "items")
            return ", ".join(shown(items, item) for item in value)
        case str() if value in options_of(schema):
            return value.replace("_", " ")
    return str(value)
