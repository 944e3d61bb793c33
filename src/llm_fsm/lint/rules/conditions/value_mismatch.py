"""Comparisons with values that a key or a system name never has."""

from __future__ import annotations

import re

from llm_fsm._json import json_text, of_kind
from llm_fsm.definition.reply_names import compared_states
from llm_fsm.lint.document import Document, Pairs
from llm_fsm.lint.facts.members import never
from llm_fsm.lint.facts.schema_parts import SchemaPart, refusal
from llm_fsm.lint.facts.suggestions import Speller, as_json, quoted
from llm_fsm.lint.logics import transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.comparisons import comparisons, parts
from llm_fsm.lint.solver.mismatches import Mismatch, mismatches, type_word
from llm_fsm.lint.solver.outcomes import variable
from llm_fsm.lint.solver.solver import reasoning
from llm_fsm.lint.solver.value_sets import points


@lint_rule("C210", "warning")
def type_mismatch(document: Document) -> Faults:
    """A key is compared with a value of a type that it cannot have.

    Why it is bad:
    The comparison does not test what it seems to. Mostly it is never true.

    Example:
        "context_schema": {"type": "object", "properties": {"age": {"type": "integer"}}},
        "states": {"hello": {"purpose": "Ask for the age", "required_context_keys": ["age"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "age"}, "eighteen"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Compare with a value of the type that `context_schema` gives the key, or correct the schema.
    """
    for pointer, mismatch in mismatches(document).items():
        if mismatch.kind != "type":
            continue
        key = mismatch.comparison.key
        literal = mismatch.comparison.literal
        known = type_word(reasoning(document).keys.domain(key))
        given = type_word(points([literal]))
        shown = as_json(literal)
        effect = "is converted first" if mismatch.harmless else "does not compare as it is meant"
        yield Fault(
            f"{quoted(key)} is {known}, and {shown} is {given}: this {effect}",
            pointer=pointer,
            hint=f"compare {quoted(key)} with {known}",
            level="info" if mismatch.harmless else None,
        )


_TAG = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_COMPARED = re.compile(r"([A-Za-z_][\w.]*)\s*[=!]=\s*['\"]([^'\"\\]+)['\"]")


@lint_rule("C211", "warning")
def value_outside_enum(document: Document) -> Faults:
    """A key is compared with a value outside its schema: it is not listed, or beyond the bounds.

    Why it is bad:
    The key can never have that value, so an equality is never true and an inequality always is.

    Example:
        "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "enum": ["gold", "silver"]}}},
        "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "tier"}, "golden"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write one of the listed values, or add this one to the list.
    """
    for pointer, mismatch in mismatches(document).items():
        if mismatch.kind == "value":
            key = mismatch.comparison.key
            literal = mismatch.comparison.literal
            shown = as_json(literal)
            if mismatch.why and mismatch.comparison.ordering:
                yield Fault(
                    f"{quoted(key)} is compared with what it cannot be: {mismatch.why}",
                    pointer=pointer,
                )
            elif mismatch.why:
                yield Fault(f"{quoted(key)} is never {shown}: {mismatch.why}", pointer=pointer)
            else:
                yield Fault(
                    f"{quoted(key)} is never {shown}: its schema does not list it",
                    pointer=pointer,
                    hint=_hint(document.speller, mismatch),
                )
    yield from _in_lists(document)
    for pointer, message in never(document):
        yield Fault(message, pointer=pointer)
    yield from _in_replies(document)


def _in_lists(document: Document) -> Faults:
    """Find elements that a condition looks for in a list and that the schema of the list does not
    allow.
    """
    known = reasoning(document)
    for inner in parts(document).values():
        for place, _, operator, arguments, _ in inner:
            if operator not in ("in", "contains", "count") or len(arguments) != 2:
                continue
            here = 0 if operator == "in" else 1
            key = variable(arguments[1 - here])
            literal = arguments[here]
            items = None if key is None else known.keys.items(key)
            if key is None or items is None or not isinstance(literal, str | int | float):
                continue
            why = refusal(SchemaPart("", items, key, known.keys.definitions), literal)
            if why is not None:
                shown = as_json(literal)
                message = f"the list {quoted(key)} never holds {shown}: {why}"
                yield Fault(message[:300], pointer=f"{place}/{operator}/{here}")


def _in_replies(document: Document) -> Faults:
    """Find texts with which a fixed reply compares a key that has listed values."""
    known = reasoning(document)
    for state in document.states.values():
        for name, text in _compared(state.text("reply")):
            schema = known.keys.schema(name) or {}
            listed = schema.get("enum")
            if isinstance(listed, list) and text not in listed:
                texts = of_kind(listed, str)
                meant = document.speller.meant(text, texts)
                yield Fault(
                    f"the reply asks whether {quoted(name)} is {quoted(text)}: its schema does"
                    " not list that",
                    pointer=state.pointer + "/reply",
                    hint=f"did you mean {quoted(meant)}?"
                    if meant
                    else f"the values are {', '.join(texts[:8])}",
                )


def _compared(reply: str) -> Pairs:
    for tag in _TAG.findall(reply):
        yield from _COMPARED.findall(tag)


def _hint(speller: Speller, mismatch: Mismatch) -> str:
    literal = mismatch.comparison.literal
    meant = None
    if isinstance(literal, str) and not speller.spent:
        meant = speller.meant(literal, of_kind(mismatch.values, str))
    if meant is not None:
        return f"did you mean {quoted(meant)}?"
    listed = ", ".join(json_text(value) for value in mismatch.values[:8])
    return f"the values are {listed[:200]}"


@lint_rule("C212", "warning")
def case_mismatch(document: Document) -> Faults:
    """A key is compared with a listed value in other letter case.

    Why it is bad:
    Texts are compared exactly. "Gold" is not "gold", so the comparison is never true.

    Example:
        "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "enum": ["gold", "silver"]}}},
        "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "tier"}, "Gold"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write the value as the schema has it.
    """
    for pointer, mismatch in mismatches(document).items():
        if mismatch.kind == "case":
            literal = mismatch.comparison.literal
            meant = [
                v
                for v in mismatch.values
                if isinstance(v, str) and v.casefold() == literal.casefold()
            ]
            yield Fault(
                f"{quoted(mismatch.comparison.key)} is never {quoted(literal)}: its schema writes"
                f" {quoted(meant[0])}",
                pointer=pointer,
                hint=f"write {quoted(meant[0])}",
            )


@lint_rule("C216", "warning")
def unknown_state_in_condition(document: Document) -> Faults:
    """A condition or a fixed reply compares `_current_state` or `_previous_state` with a value that it never has.

    Why it is bad:
    The comparison has the same outcome every time, so the condition does not test what the author meant.

    Example:
        "states": {"menu": {"purpose": "Show the menu", "transitions": [{"target_state": "help",
                "conditions": [{"logic": {"==": [{"var": "_previous_state"}, "chekout"]}}]}]},
            "help": {"purpose": "Help", "transitions": [{"target_state": "menu"}]}}

    Fix:
    Write the id of a state. A transition of a state is only checked in that state, so `_current_state` needs no test
    there.
    """
    for state in document.states.values():
        reply = state.text("reply")
        for start, end in compared_states(reply):
            name = reply[start:end]
            if name not in (*document.states, ""):
                yield Fault(
                    f"the reply compares a state with {quoted(name)}: there is no such state",
                    pointer=state.pointer + "/reply",
                    hint=document.speller.hint(name, document.states, "states"),
                )
    owners = {placed.pointer: owner for owner, placed in transitions_of(document)}
    for found in comparisons(document):
        if found.key not in ("_current_state", "_previous_state") or not isinstance(
            found.literal, str
        ):
            continue
        owner = owners.get(found.owner.pointer.rpartition("/conditions/")[0])
        if found.literal not in document.states:
            if not (found.key == "_previous_state" and found.literal == ""):
                yield Fault(
                    f"{quoted(found.key)} is never {quoted(found.literal)}: there is no such state",
                    pointer=found.at,
                    hint=document.speller.hint(found.literal, document.states, "states"),
                )
        elif found.key == "_current_state" and owner is not None and found.literal != owner:
            yield Fault(
                f'"_current_state" is always {quoted(owner)} here: the transition belongs to that'
                " state",
                pointer=found.at,
                hint="write the transition in the state that is meant",
            )
