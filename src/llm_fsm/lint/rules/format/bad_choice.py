"""Choices without a usable value."""

from __future__ import annotations

from typing import Any

from llm_fsm._json import step
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.schema_parts import refusal, schema_parts
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.graph import arcs_from, states_of_kind
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("S127", "warning")
def bad_choice(document: Document) -> Faults:
    """A choice has no label, or its value is neither a value of a collected key nor a target.

    Why it is bad:
    If a user picks the choice, the model has to guess its meaning from the label.

    Example:
        "context_schema": {"type": "object", "properties": {"size": {"enum": ["s", "l"]}}},
        "states": {"hello": {"purpose": "Which size?", "required_context_keys": ["size"],
                             "choices": [{"label": "Small", "value": "smal"}],
                             "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write a value that the key accepts, or the id of a state that a transition leads to.
    """
    for name, state in states_of_kind(document, "converse"):
        for choice in state.items("choices"):
            if choice.get("label") == "":
                yield Fault(
                    "a choice without words is not shown", pointer=choice.pointer + "/label"
                )
            value = choice.get("value")
            if value is not None and not _means_something(document, name, state, value):
                known = (
                    [arc.target for arc in arcs_from(document)[name]]
                    if isinstance(value, str)
                    else []
                )
                yield Fault(
                    f"the choice {as_json(value)} is no value of a key that state {quoted(name)}"
                    " asks for, and no target state",
                    pointer=choice.pointer + "/value",
                    hint=document.speller.hint(value, known, "states that it leads to")
                    if known
                    else None,
                )


def _means_something(document: Document, name: str, state: Placed, value: Any) -> bool:
    if value in [arc.target for arc in arcs_from(document)[name]]:
        return True
    parts = {part.pointer: part for part in schema_parts(document)}
    for key in state.names("required_context_keys"):
        part = parts.get("/context_schema/properties" + step(key))
        if part is None or refusal(part, value) is None:
            return True
    return False
