"""`x-fast` that does nothing: because of the key, its schema, or the states that ask for it."""

from __future__ import annotations

from typing import NamedTuple

from llm_fsm._json import step
from llm_fsm.definition.json_schema.inline import simplified
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.schema_parts import Part
from llm_fsm.turn.recognize import FORMATS, recogniser


class Idle(NamedTuple):
    """Why `x-fast` does nothing, and what would help."""

    why: str
    hint: str | None = None


def idle(subject: Subject, part: Part) -> Idle | None:
    """Return why the `x-fast` of a schema does nothing; None if it may do something."""
    key = next((name for name in subject.keys or {} if part.pointer == f"/context_schema/properties{step(name)}"), None)
    if key is None:
        return Idle("a message is the value of a whole key", "set it beside the type of a key in context_schema")
    owner = part.schema.get("x-source", "model")
    if owner in ("host", "tool", "answer"):
        return Idle(f'only what its "x-source" names sets it: "{owner}"')
    schema = simplified(part.schema, part.definitions)
    if recogniser(schema, subject.root.text("language")) is None:
        return _unrecognised(schema.get("enum"), schema.get("type"))
    return _of_states(subject, key)


def _unrecognised(choices: object, kind: object) -> Idle:
    if isinstance(choices, list):
        if None in choices:
            hint = "leave it out: a key that is not mentioned needs no value"
            return Idle("nobody says null, which is one of its choices", hint)
        return Idle("two of its choices are the same words, or one has none", "give each choice words of its own")
    if kind == "boolean":
        return Idle("yes and no are not known in this language", 'give it an "enum" with the words of your language')
    hint = f'it is for an "enum", a boolean, or a "format" of {", ".join(sorted(FORMATS))}'
    return Idle("no message is certainly its value", hint)


def _of_states(subject: Subject, key: str) -> Idle | None:
    asking = [
        name
        for name, state in subject.states.items()
        if subject.kind_of(name) == "converse" and key in (text for _, text in state.texts("required_context_keys"))
    ]
    if not asking:
        return Idle("no state asks for it", 'name it in the "required_context_keys" of the state that asks for it')
    if all(subject.states[name].value.get("reply") is None for name in asking):
        return Idle("no state asks for it in fixed words", 'give the state that asks for it a fixed "reply"')
    if not any(_may_lead_on(subject, name) for name in asking):
        return Idle(
            "each state that asks for it has tools, or leads only to states whose words a model must find",
            'give the state to which the answer leads a fixed "reply"',
        )
    return None


def _may_lead_on(subject: Subject, name: str) -> bool:
    state = subject.states[name].value
    if state.get("tools") or state.get("memory") is True:
        return False
    return any(
        arc.target in subject.states
        and (arc.auto or arc.conditions)
        and (subject.kind_of(arc.target) == "decide" or _is_said(subject, arc.target))
        for arc in subject.arcs_from[name]
    )


def _is_said(subject: Subject, name: str) -> bool:
    """Return true if a state has words of its own, or goes on without any."""
    state = subject.states[name].value
    moves = state.get("transitions")
    autos = [move for move in moves if isinstance(move, dict) and move.get("auto")] if isinstance(moves, list) else []
    return state.get("reply") is not None or bool(autos)
