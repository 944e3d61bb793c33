"""The words of an adapter without a model: the definition's own, and plain requests for what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from llm_fsm.llm.offline_values import Schema, options_of, type_of
from llm_fsm.messages import Choice

NOTICE = "(offline: no language model is used; I follow the definition's own words and simple patterns.)"
_MAX_DESCRIPTION = 70
_HINTS = {
    "date": "a date such as 2026-03-14",
    "time": "a time such as 15:30",
    "date-time": "a date and a time",
    "email": "such as ada@example.org",
    "uri": "such as https://example.org",
}


def sentence(text: str) -> str:
    """A text with a full stop, where it lacks an end."""
    stripped = text.strip()
    return stripped if not stripped or stripped[-1] in ".!?…:)" else stripped + "."


def join(*parts: str) -> str:
    """The parts that say something, as sentences."""
    return " ".join(sentence(part) for part in parts if part.strip())


def label(key: str, schema: Schema) -> str:
    """What to call a key: its title, a short description, or its name made readable."""
    title, description = schema.get("title"), schema.get("description")
    if isinstance(title, str) and title.strip():
        return title.strip()
    if isinstance(description, str) and 0 < len(description.strip()) <= _MAX_DESCRIPTION:
        plain = description.strip().rstrip(".")
        return re.sub(
            r"^(?:the )?(?:user|customer|caller|guest|client)['’]s\b", "your", plain, flags=re.IGNORECASE
        )
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]+", " ", key).strip()


def request(wanted: Mapping[str, Schema]) -> str:
    """A request for the first of the keys that are missing, with its options or form; "" when there is none."""
    for key, schema in wanted.items():
        options = options_of(schema)
        if options:
            hint = ", ".join(_plain(option) for option in options)
        elif type_of(schema) == "boolean":
            hint = "yes or no"
        else:
            hint = _HINTS.get(str(schema.get("format")), "")
        return f"Please tell me: {label(key, schema)}{f' ({hint})' if hint else ''}."
    return ""


def noted(update: Mapping[str, Any], schemas: Mapping[str, Schema]) -> str:
    """What was understood, in one line."""
    said = [f"{label(key, schemas.get(key, {}))}: {_plain(value)}" for key, value in update.items()]
    return f"Noted – {'; '.join(said)}." if said else ""


def not_found(wanted: Mapping[str, Schema]) -> str:
    """That the message did not hold what was asked for."""
    return next((f"I did not find {label(key, schema)} in that." for key, schema in wanted.items()), "")


def menu(choices: Iterable[Choice]) -> str:
    """What can be chosen, by the definition's descriptions."""
    named = dict.fromkeys(
        choice.description.strip().rstrip(".") or choice.target_state.replace("_", " ") for choice in choices
    )
    return f"Possible are: {'; '.join(named)}." if named else ""


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    return str(value)
