"""The texts of the adapter without a model: the definition's own, and plain requests for missing keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from llm_fsm.definition.names import label
from llm_fsm.llm.offline.extract import Schema, options_of, type_of
from llm_fsm.session.messages import TransitionView
from llm_fsm.turn.fixed_replies import is_ended
from llm_fsm.turn.repair.questions import asks

NO_WORK = "(offline: no language model works on this task, and no tool is called.)"
_MAX_DESCRIPTION = 70
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


def _hint(schema: Schema) -> str:
    options = options_of(schema)
    if options:
        return ", ".join(map(_plain, options))
    if type_of(schema) == "boolean":
        return "yes or no"
    described = str(schema.get("description") or "").strip().rstrip(".")
    short = len(described) <= _MAX_DESCRIPTION and "pattern" in schema and not re.search(r"[,:;?]", described)
    return _HINTS.get(str(schema.get("format")), described if short else "")


def request(wanted: Mapping[str, Schema]) -> str:
    """Ask for the first of the missing keys, with its choices or form; "" if there is none."""
    for key, schema in wanted.items():
        hint = _hint(schema)
        return f"Please tell me: {label(key, schema)}{f' ({hint})' if hint else ''}."
    return ""


def opening(words: str, wanted: Mapping[str, Schema]) -> str:
    """Return a state's own text, and a request for missing keys if the text asks nothing."""
    return join(words, "" if asks(words) else request(wanted))


def noted(update: Mapping[str, Any], schemas: Mapping[str, Schema]) -> str:
    """List the understood values in one line."""
    said = [f"{label(key, schemas.get(key, {}))}: {_plain(value)}" for key, value in update.items()]
    return f"Noted – {'; '.join(said)}." if said else ""


def not_found(wanted: Mapping[str, Schema]) -> str:
    """Say that the message did not have the requested value."""
    return next((f"I did not find {label(key, schema)} in that." for key, schema in wanted.items()), "")


def menu(choices: Iterable[TransitionView]) -> str:
    """List the choices: the name and the description of each transition."""
    named = dict.fromkeys(
        f"{choice.target_state.replace('_', ' ')}{f' ({told})' if (told := choice.description.strip(' .')) else ''}"
        for choice in choices
    )
    return f"Possible are: {'; '.join(named)}." if named else ""


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return str(value)
