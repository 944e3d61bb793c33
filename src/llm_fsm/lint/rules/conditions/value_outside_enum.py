"""A key is compared with a value that its schema does not let it have: one that is not listed, or beyond its bounds.

Why it is bad:
The key can never have that value, so an equality never holds and an inequality always does.

Example:
    "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "enum": ["gold", "silver"]}}},
    "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
        {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "tier"}, "golden"]}}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Write one of the listed values, or add this one to the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.elements import never
from llm_fsm.lint.facts.schema_parts import Part, refusal
from llm_fsm.lint.facts.suggestions import Speller, quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.comparisons import parts
from llm_fsm.lint.solver.mismatches import Misfit, misfits
from llm_fsm.lint.solver.outcomes import variable
from llm_fsm.lint.solver.solver import reasoning

_TAG = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
_COMPARED = re.compile(r"([A-Za-z_][\w.]*)\s*[=!]=\s*['\"]([^'\"\\]+)['\"]")


def check(subject: Subject) -> Iterator[Finding]:
    """Report comparisons with values that are not listed."""
    for pointer, misfit in misfits(subject).items():
        if misfit.kind == "value":
            key, literal = misfit.comparison.key, misfit.comparison.literal
            shown = json.dumps(literal, ensure_ascii=False)[:60]
            if misfit.why and misfit.comparison.ordering:
                yield RULE.finding(
                    f"{quoted(key)} is compared with what it cannot be: {misfit.why}", pointer=pointer
                )
            elif misfit.why:
                yield RULE.finding(f"{quoted(key)} is never {shown}: {misfit.why}", pointer=pointer)
            else:
                yield RULE.finding(
                    f"{quoted(key)} is never {shown}: its schema does not list it",
                    pointer=pointer,
                    hint=_hint(subject.speller, misfit),
                )
    yield from _in_lists(subject)
    for pointer, message in never(subject):
        yield RULE.finding(message, pointer=pointer)
    yield from _in_replies(subject)


def _in_lists(subject: Subject) -> Iterator[Finding]:
    """Elements that a list is searched for and that its schema does not let in."""
    known = reasoning(subject)
    for inner in parts(subject).values() if subject.keys is not None else ():
        for place, _, operator, arguments, _ in inner:
            if operator not in ("in", "contains", "count") or len(arguments) != 2:
                continue
            here = 0 if operator == "in" else 1
            key, literal = variable(arguments[1 - here]), arguments[here]
            schema = known.schema(key) if key is not None else None
            items = schema.get("items") if schema is not None and schema.get("type") == "array" else None
            if key is None or not isinstance(items, dict) or not isinstance(literal, str | int | float):
                continue
            why = refusal(Part("", items, key, known.definitions), literal)
            if why is not None:
                shown = json.dumps(literal, ensure_ascii=False)[:60]
                message = f"the list {quoted(key)} never holds {shown}: {why}"
                yield RULE.finding(message[:300], pointer=f"{place}/{operator}/{here}")


def _in_replies(subject: Subject) -> Iterator[Finding]:
    """Texts with which a fixed reply compares a key that has listed values."""
    known = reasoning(subject)
    for state in subject.states.values() if subject.keys is not None else ():
        for name, text in _compared(state.text("reply")):
            schema = known.schema(name) or {}
            listed = schema.get("enum")
            if isinstance(listed, list) and text not in listed:
                texts = [value for value in listed if isinstance(value, str)]
                meant = subject.speller.meant(text, texts)
                yield RULE.finding(
                    f"the reply asks whether {quoted(name)} is {quoted(text)}: its schema does not list that",
                    pointer=state.pointer + "/reply",
                    hint=f"did you mean {quoted(meant)}?"
                    if meant
                    else f"the values are {', '.join(texts[:8])}",
                )


def _compared(reply: str) -> Iterator[tuple[str, str]]:
    for tag in _TAG.findall(reply):
        yield from _COMPARED.findall(tag)


def _hint(speller: Speller, misfit: Misfit) -> str:
    literal = misfit.comparison.literal
    meant = None
    if isinstance(literal, str) and not speller.spent:
        meant = speller.meant(literal, [value for value in misfit.values if isinstance(value, str)])
    if meant is not None:
        return f"did you mean {quoted(meant)}?"
    listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in misfit.values[:8])
    return f"the values are {listed[:200]}"


RULE = Rule(name="value-outside-enum", code="C211", level="warning", check=check)
