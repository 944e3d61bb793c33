"""Parts of an object that are asked for in several states."""

from __future__ import annotations

from collections.abc import Iterable

from llm_fsm._json import object_at, texts_at
from llm_fsm._text import listed
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import states_of_kind
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("K318", "warning", at_key=True)
def parts_asked_apart(document: Document) -> Faults:
    """A state asks for some parts of an object whose schema accepts it only with all of them.

    Why it is bad:
    These parts wait for the others, so the key is not set when the state is left. Conditions that need a part keep the
    state closed. Fixed replies and the program see nothing of the answer. A part of a secret does not wait: it is lost.

    Example:
        "context_schema": {"type": "object", "properties": {"address": {"type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                "required": ["street", "city"]}}},
        "states": {"hello": {"purpose": "Ask for the street", "required_context_keys": ["address.street"],
                    "transitions": [{"target_state": "town", "description": "The street is known"}]},
                   "town": {"purpose": "Ask for the city", "required_context_keys": ["address.city"],
                    "transitions": [{"target_state": "bye", "description": "The city is known"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Take `required` out of the object's schema, and let transitions demand the parts by `requires_context_keys`. Or
    declare each part as its own key, or ask for all of them in one state.
    """
    keys = document.keys
    objects = {
        key: schema
        for key, schema in keys.items()
        if isinstance(schema.get("properties"), dict) and document.source_of(key) == "model"
    }
    if not objects:
        return
    asked = []
    for name, state in states_of_kind(document, "converse"):
        wanted = set(state.names("required_context_keys"))
        asked.append((name, state.pointer, wanted))
    for key, schema in objects.items():
        declared = bool(_below(key, keys))
        if declared or any(not _lacking(schema, key, wanted) for _, _, wanted in asked):
            continue
        for name, pointer, wanted in asked:
            here = sorted(_below(key, wanted))
            if here:
                lost = [
                    quoted(path.removeprefix(f"{key}.")) for path in _lacking(schema, key, wanted)
                ]
                yield Fault(
                    f"state {quoted(name)} asks for {listed([*map(quoted, here)], 4)}, but"
                    f" {quoted(key)} "
                    f"is refused without {listed(lost, 4)}",
                    pointer=f"{pointer}/required_context_keys",
                    hint=f'take "required" out of the schema of {quoted(key)}, or ask for all'
                    " parts here",
                )


def _lacking(schema: object, path: str, wanted: set[str]) -> list[str]:
    """Return the parts of an object that no state asks for, although its schema requires them."""
    if path in wanted:
        return []
    if not _below(path, wanted):
        return [path]
    needed = texts_at(schema, "required")
    parts = object_at(schema, "properties")
    lacking = []
    for part in dict.fromkeys((*needed, *parts)):
        below = f"{path}.{part}"
        if part in needed or _below(below, wanted):
            lacking += _lacking(parts.get(part), below, wanted)
    return lacking


def _below(path: str, names: Iterable[str]) -> list[str]:
    """Return the names of parts of an object."""
    return [name for name in names if name.startswith(f"{path}.")]
