"""The texts of a definition, for the model and for users, and the names that may occur in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from llm_fsm._json import TextMap, object_at, step, texts_at
from llm_fsm.lint.document import (
    SYSTEM_NAMES,
    Document,
    Pairs,
    Placed,
    once,
    once_each,
    texts_of_states,
)
from llm_fsm.lint.facts.suggestions import Slips
from llm_fsm.lint.logics import compiled_rules, conditions_of, transitions_of

_STATE_TEXTS = (
    "description",
    "purpose",
    "instructions",
    "extraction_instructions",
    "response_instructions",
)
_DEPTH = 64
_FORMAT_NAMES = (
    "context_update",
    "target_state",
    "valid_states",
    "user_input",
    "current_context",
    "_extra",
    "_clear",
)


def has_words(state: Placed) -> bool:
    """Return true for a state with a purpose, instructions or a text."""
    return any(state.text(key).strip() for key in (*_STATE_TEXTS, "reply"))


@once_each
def texts(document: Document) -> Pairs:
    """Yield (pointer, text) for everything that only the model reads."""
    for key in ("description", "persona"):
        if text := document.root.text(key):
            yield f"/{key}", text
    for state in document.states.values():
        for key in _STATE_TEXTS:
            if text := state.text(key):
                yield f"{state.pointer}/{key}", text
    for _, transition in transitions_of(document):
        for placed in (transition, *transition.items("conditions")):
            if text := placed.text("description"):
                yield f"{placed.pointer}/description", text


class PlacedText(NamedTuple):
    """A text of the file, or a key of one of its objects, and its pointer."""

    pointer: str
    text: str
    is_key: bool


@once_each
def every_text(document: Document) -> Iterator[PlacedText]:
    """Return every text and every key of the whole document."""
    return _texts_in(document.root.value, "", 0)


@once
def as_written(document: Document) -> str:
    """Return the whole document as JSON in ASCII, for a first look."""
    return json.dumps(document.root.value)


def _texts_in(value: Any, pointer: str, depth: int) -> Iterator[PlacedText]:
    match value:
        case str():
            yield PlacedText(pointer, value, False)
        case _ if depth == _DEPTH:
            return
        case dict():
            for key, item in value.items():
                place = pointer + step(key)
                yield PlacedText(place, key, True)
                yield from _texts_in(item, place, depth + 1)
        case list():
            for index, item in enumerate(value):
                yield from _texts_in(item, f"{pointer}/{index}", depth + 1)


def replies(document: Document) -> Pairs:
    """Yield (pointer, text) for the fixed replies."""
    for state in document.states.values():
        if text := state.text("reply"):
            yield f"{state.pointer}/reply", text
    rule = document.root.at("on_function_error")
    if text := rule.text("reply"):
        yield f"{rule.pointer}/reply", text


def failure_words(document: Document) -> Pairs:
    """Yield (pointer, text) for the replies to a model's failure, or at a limit of many turns."""
    for owner in (document.root, *document.states.values()):
        model = owner.at("model")
        if text := model.text("on_failure"):
            yield f"{model.pointer}/on_failure", text
    for quota in document.root.at("limits").members("per"):
        if text := quota.text("on_limit"):
            yield f"{quota.pointer}/on_limit", text


@once
def known_names(document: Document) -> TextMap:
    """Return every name that texts may use, and its kind: keys, their fields and values, states,
    tools.
    """
    names = dict.fromkeys((*_FORMAT_NAMES, *SYSTEM_NAMES), "name")
    for key, schema in document.keys.items():
        names.update((value, "value") for value in texts_at(schema, "enum"))
        names.update((field, "field") for field in object_at(schema, "properties"))
        names[key] = "key"
    for _, _, key in texts_of_states(document, "required_context_keys"):
        names[key] = "key"
    for condition in conditions_of(document):
        names.update((key, "key") for key in condition.names("requires_context_keys"))
    for rule in compiled_rules(document).values():
        names.update((key, "key") for key in rule.reads)
    names.update((name, "tool") for name in object_at(document.root.value, "tools"))
    names.update((name, "state") for name in document.states)
    return names


@once
def near_names(document: Document) -> Slips:
    """Return the same names, for lookups with a typo."""
    return Slips(known_names(document))
