"""Schemas that are not JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.schemas import schema_faults
from llm_fsm.lint.rule import lint_rule


@lint_rule("S109", "error")
def bad_context_schema(document: Document) -> Iterator[Finding]:
    """The schema of a context key, or the whole `context_schema`, is not a JSON Schema.

    Why it is bad:
    No value can be checked against it, so the machine cannot be started. The same is true of schemas that refer to each
    other so often that a check might not end.

    Example:
        "context_schema": {"type": "object", "properties": {"age": {"type": "interger"}}},
        "states": {"hello": {"purpose": "Ask for the age"}}

    Fix:
    Correct the place that the message names. Types are string, number, integer, boolean, array, object, null.
    """
    whole = document.root.value.get("context_schema")
    if not isinstance(whole, dict):
        return
    faulty: set[str] = set()
    properties = whole.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        if isinstance(schema, dict):
            place = "/context_schema/properties" + step(name)
            for pointer, message, hint in schema_faults(schema, whole.get("$defs"), place):
                shared = pointer.startswith(place + "/$defs/") and "$defs" not in schema
                where = "/context_schema" + pointer.removeprefix(place) if shared else pointer
                if where not in faulty:
                    yield bad_context_schema.finding(message, pointer=where, hint=hint)
                faulty.add(where)
    if not faulty:
        for pointer, message, hint in schema_faults(whole, None, "/context_schema"):
            yield bad_context_schema.finding(message, pointer=pointer, hint=hint)


@lint_rule("S111", "error")
def bad_answer_schema(document: Document) -> Iterator[Finding]:
    """The `answer_schema` of a state is not a JSON Schema.

    Why it is bad:
    No answer can be checked against it, so the wait could never end. The same is true of schemas that refer to each
    other so often that a check might not end.

    Example:
        "states": {"hello": {"kind": "wait", "timeout": 60, "answer_schema": {"type": "bool"},
                             "transitions": [{"target_state": "bye"}]},
                   "bye": {"kind": "final", "purpose": "Say goodbye"}}

    Fix:
    Correct the place that the message names.
    """
    for state in document.states.values():
        answer = state.value.get("answer_schema")
        if isinstance(answer, dict):
            for pointer, message, hint in schema_faults(answer, None, state.pointer + "/answer_schema"):
                yield bad_answer_schema.finding(message, pointer=pointer, hint=hint)
