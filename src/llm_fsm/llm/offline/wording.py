"""The words of an adapter without a model: the definition's own, and plain requests for what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from llm_fsm.llm.offline.values import Schema, key_words, options_of, type_of
from llm_fsm.llm.offline.vocabulary import stems
from llm_fsm.session.messages import Choice
from llm_fsm.turn.fixed_replies import is_ended
from llm_fsm.turn.repair.questions import asks

NOTICE = "(offline: no language model is used; I follow the definition's own words and simple patterns.)"
NO_WORK = "(offline: no language model works on this task, and no tool is called.)"
_MAX_DESCRIPTION = 70
_THEIRS = re.compile(r"^(?:the )?(?:user|customer|caller|guest|client|patient)['’]s\b", re.IGNORECASE)
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
    return stripped if not stripped or stripped[-1] == ")" or is_ended(stripped) else stripped + "."


def join(*parts: str) -> str:
    """The parts that say something, as sentences."""
    return " ".join(sentence(part) for part in parts if part.strip())


def label(key: str, schema: Schema) -> str:
    """What to call a key: its title, a description that says the same, or its name made readable."""
    title = schema.get("title")
    if isinstance(title, str) and title.strip():
        return title.strip()
    described = _short_description(schema)
    yours = _THEIRS.sub("your", described)
    if yours != described or stems([described]) & stems(key_words(key, {})):
        return yours
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]+", " ", key).strip()


def _short_description(schema: Schema) -> str:
    """The description where it is short and lists nothing, else ""."""
    description = schema.get("description")
    if not isinstance(description, str) or len(description) > _MAX_DESCRIPTION or options_of(schema):
        return ""
    plain = description.strip().rstrip(".")
    return "" if re.search(r"[,:;?]", plain) else plain


def _hint(key: str, schema: Schema) -> str:
    options = options_of(schema)
    if options:
        return ", ".join(_plain(option) for option in options)
    if type_of(schema) == "boolean":
        return "yes or no"
    described = _short_description(schema)
    unsaid = described if _THEIRS.sub("your", described) != label(key, schema) else ""
    return _HINTS.get(str(schema.get("format")), unsaid)


def request(wanted: Mapping[str, Schema]) -> str:
    """A request for the first of the keys that are missing, with its options or form; "" when there is none."""
    for key, schema in wanted.items():
        hint = _hint(key, schema)
        return f"Please tell me: {label(key, schema)}{f' ({hint})' if hint else ''}."
    return ""


def opening(words: str, wanted: Mapping[str, Schema]) -> str:
    """A state's own words, and a request for what is missing where they ask nothing themselves."""
    return join(words, "" if asks(words) else request(wanted))


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
