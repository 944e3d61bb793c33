"""`x-fast` where every message needs the model: because of the key, its schema, or the states that ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from llm_fsm._json import step
from llm_fsm.definition.json_schema.inline import simplified
from llm_fsm.definition.json_schema.validator import Shape, ShapeError, compile_shape
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.schema_parts import Part
from llm_fsm.turn.recognize import OTHERWISE, recogniser

_NARROWING = frozenset({"pattern", "format", "const", "not", "$ref", "allOf", "anyOf", "oneOf", "if"})
"""What lets a schema refuse the texts that people say instead of an answer, however long."""


class Idle(NamedTuple):
    """Why `x-fast` does nothing, and what would help."""

    why: str
    hint: str | None = None


def idle(subject: Subject, part: Part) -> Idle | None:
    """Why the `x-fast` of a schema does nothing; None where it may do something."""
    key = next((name for name in subject.keys or {} if part.pointer == f"/context_schema/properties{step(name)}"), None)
    if key is None:
        return Idle("a message is the value of a whole key", "set it beside the type of a key in context_schema")
    owner = part.schema.get("x-source", "model")
    if owner in ("host", "tool", "answer"):
        return Idle(f'only what its "x-source" names sets it: "{owner}"')
    schema = simplified(part.schema, part.definitions)
    return _of_schema(schema, part) or _of_states(subject, key)


def _of_schema(schema: Mapping[str, Any], part: Part) -> Idle | None:
    kind, pattern = schema.get("type"), schema.get("pattern")
    if kind == "string" and "enum" not in schema and _NARROWING.isdisjoint(schema):
        return Idle("any message could be its value", 'give it an "enum", a "pattern" or a "format"')
    try:
        shape = compile_shape(schema, part.definitions)
    except ShapeError:
        return None
    if recogniser(schema, lambda value: shape.fault(value) is None) is None:
        return _unrecognised(schema, shape)
    open_ended = isinstance(pattern, str) and not (_has(pattern, "^", r"\A") and _has(pattern, "$", r"\z"))
    if kind == "string" and open_ended and {"enum", "format", "maxLength"}.isdisjoint(schema):
        return Idle("its pattern does not say where a value begins and ends", "put the pattern between ^ and $")
    return None


def _has(pattern: str, *marks: str) -> bool:
    return any(mark in pattern for mark in marks)


def _unrecognised(schema: Mapping[str, Any], shape: Shape) -> Idle:
    choices = schema.get("enum")
    if isinstance(choices, list):
        if None in choices:
            hint = "leave it out: a key that is not mentioned needs no value"
            return Idle("nobody says null, which is one of its choices", hint)
        return Idle("two of its choices are the same words, or one has none", "give each choice words of its own")
    if schema.get("type") == "string":
        said = next((text for text in OTHERWISE if shape.fault(text) is None), "")
        why = f'it takes "{said}", which people say instead of an answer'
        return Idle(why, 'narrow its "pattern", or give it an "enum"')
    return Idle("no message is certainly its value", 'it is for yes or no, a number, or an "enum"')


def _of_states(subject: Subject, key: str) -> Idle | None:
    talking = {name: state for name, state in subject.states.items() if subject.kind_of(name) == "converse"}
    asking = [
        name for name, state in talking.items() if key in (text for _, text in state.texts("required_context_keys"))
    ]
    if not asking:
        return Idle("no state asks for it", 'name it in the "required_context_keys" of the state that asks for it')
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
        and (subject.kind_of(arc.target) == "decide" or _is_said(subject.states[arc.target].value))
        for arc in subject.arcs_from[name]
    )


def _is_said(state: Mapping[str, Any]) -> bool:
    """True where a state has words of its own, or goes on without any."""
    moves = state.get("transitions")
    autos = [move for move in moves if isinstance(move, dict) and move.get("auto")] if isinstance(moves, list) else []
    return state.get("reply") is not None or bool(autos)
