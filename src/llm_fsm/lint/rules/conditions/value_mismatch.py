"""A key is compared with a value of a type that it cannot have.

Why it is bad:
The comparison does not test what it seems to: mostly it never holds.

Example:
    "context_schema": {"type": "object", "properties": {"age": {"type": "integer"}}},
    "states": {"hello": {"purpose": "Ask for the age", "required_context_keys": ["age"], "transitions": [
        {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "age"}, "eighteen"]}}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Compare with a value of the type that `context_schema` gives the key, or correct the schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.mismatches import misfits, type_word
from llm_fsm.lint.solver.solver import reasoning
from llm_fsm.lint.solver.value_sets import points


def check(subject: Subject) -> Iterator[Finding]:
    """Report comparisons across types."""
    for pointer, misfit in misfits(subject).items():
        if misfit.kind != "type":
            continue
        key, literal = misfit.comparison.key, misfit.comparison.literal
        known, given = type_word(reasoning(subject).domain(key)), type_word(points([literal]))
        shown = json.dumps(literal, ensure_ascii=False)[:60]
        effect = "is converted first" if misfit.harmless else "does not compare as it is meant"
        yield RULE.finding(
            f"{quoted(key)} is {known}, and {shown} is {given}: this {effect}",
            pointer=pointer,
            hint=f"compare {quoted(key)} with {known}",
            level="info" if misfit.harmless else None,
        )


RULE = Rule(name="type-mismatch", code="C210", level="warning", check=check)
