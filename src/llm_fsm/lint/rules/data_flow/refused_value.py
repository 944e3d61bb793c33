"""Values that a mapping or a `set` gives to keys which refuse them."""

from __future__ import annotations

import re
from typing import Any

from llm_fsm._json import step
from llm_fsm.conditions.operators import COMPARISONS
from llm_fsm.definition.names import KEY_PATTERN
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.data_flow import data_flow, mapped
from llm_fsm.lint.facts.schema_parts import answers, refusal, schema_parts
from llm_fsm.lint.facts.subflows import called
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.graph import states_of_kind
from llm_fsm.lint.logics import Assigned, assignments_of, compiled_rules
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.mismatches import type_word
from llm_fsm.lint.solver.solver import Reasoning, reasoning
from llm_fsm.lint.solver.value_sets import SET, ValueSet


@lint_rule("K317", "warning")
def mapping_never_fits(document: Document) -> Faults:
    """An `output` or `input` maps a value to a key that never accepts its type, its values or its `x-source`.

    Why it is bad:
    The value is refused each time, and the key stays empty.

    Example:
        "context_schema": {"type": "object", "properties": {"approved": {"type": "boolean", "x-source": "answer"}}},
        "states": {"hello": {"kind": "wait", "wait_for": "manager", "output": {"approved": "said"},
                "answer_schema": {"type": "object", "properties": {"said": {"type": "string"}}},
                "transitions": [{"target_state": "bye", "conditions": [{"requires_context_keys": ["approved"]}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Give both sides the same type, and give the key the `x-source` of its writer.
    """
    if not document.has_schema:
        return
    known = reasoning(document)
    for _, state in states_of_kind(document, "wait"):
        yield from _sources(document, state, "answer")
        yield from _answers(known, state)
    for tool in document.root.members("tools"):
        yield from _sources(document, tool, "tool")
    for name, inner in called(document).items():
        if inner.has_schema:
            yield from _calls(known, reasoning(inner), document.states[name])
            yield from _owned(document, inner, document.states[name])


def _sources(document: Document, placed: Placed, source: str) -> Faults:
    for key, pointer in mapped(placed):
        owner = document.source_of(key)
        if key in document.keys and owner not in ("model", source):
            yield Fault(
                f'{quoted(key)} never takes this: its "x-source" is {quoted(owner)}, and this'
                " comes from "
                f"{'a tool' if source == 'tool' else 'an answer'}",
                pointer=pointer,
                hint=f'write "x-source": "{source}"',
            )


def _answers(known: Reasoning, state: Placed) -> Faults:
    for key, brought in answers(state).items():
        if key in known.document.keys:
            yield from _compared(
                brought, known.keys.domain(key), key, f"{state.pointer}/output{step(key)}"
            )


def _calls(here: Reasoning, there: Reasoning, state: Placed) -> Faults:
    for option, taker, giver in (("input", there, here), ("output", here, there)):
        for pointer, key, source_key in state.mapping(option):
            if taker.keys.schema(key) is not None:
                yield from _compared(
                    giver.keys.domain(source_key), taker.keys.domain(key), key, pointer
                )


def _owned(document: Document, inner: Document, state: Placed) -> Faults:
    """Find keys that the model may not write, and that the called definition takes from its
    model.
    """
    for key, pointer in mapped(state):
        source_key = str(state.value["output"][key])
        owner = document.source_of(key)
        theirs = source_key in inner.keys and inner.source_of(source_key) == "model"
        if owner != "model" and theirs and source_key not in state.at("input").value:
            yield Fault(
                f'{quoted(key)} never takes this: its "x-source" is {quoted(owner)}, and there'
                " the model writes "
                f"{quoted(source_key)}",
                pointer=pointer,
                hint='take "x-source" out, or name another key',
            )


def _compared(brought: ValueSet, taken: ValueSet, key: str, pointer: str) -> Faults:
    brought = brought & SET
    taken = taken & SET
    if brought.empty or taken.empty or not (brought & taken).empty:
        return
    here = type_word(taken)
    there = type_word(brought)
    why = "none of the values fits its schema"
    if here != there:
        why = f"it is {here}, and this is {there}"
    yield Fault(f"{quoted(key)} never takes this: {why}", pointer=pointer)


@lint_rule("K320", "warning")
def bad_set(document: Document) -> Faults:
    """`set` gives a key a value that is always refused.

    Why it is bad:
    The key keeps its old value, and only the record shows it. The schema refuses the value, or the name is no key. A
    value that is made of a secret is also refused if the key is not secret.

    Example:
        "context_schema": {"type": "object", "properties": {"tier": {"enum": ["gold", "basic"]}}},
        "states": {"hello": {"purpose": "Greet", "transitions": [
            {"target_state": "bye", "set": {"tier": "golden"}}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Correct the value, its rule or the schema.
    """
    flow = data_flow(document)
    parts = {part.pointer: part for part in schema_parts(document)}
    for given in assignments_of(document):
        rule = compiled_rules(document).get(given.pointer)
        part = parts.get("/context_schema/properties" + step(given.key))
        is_constant = isinstance(given.logic, str | int | float)
        why = refusal(part, given.logic) if part is not None and is_constant else None
        secrets = sorted(filter(flow.is_secret, rule.reads if rule is not None else ()))
        if re.fullmatch(KEY_PATTERN, given.key) is None:
            yield _finding(given, "it is no name of a context key")
        elif why is not None:
            yield _finding(given, f"{as_json(given.logic)} is refused: {why}"[:300])
        elif secrets and not flow.is_secret(given.key) and not _is_test(given.logic):
            yield _finding(given, f"{quoted(secrets[0])} is secret, and this key is not")


_TESTS = COMPARISONS | {"!", "!!", "in", "has_context", "matches", "contains"}
"""Operators that give true or false."""


def _is_test(logic: Any) -> bool:
    return isinstance(logic, dict) and len(logic) == 1 and not _TESTS.isdisjoint(logic)


def _finding(given: Assigned, why: str) -> Fault:
    return Fault(f"{quoted(given.key)} never gets this value: {why}", pointer=given.pointer)
