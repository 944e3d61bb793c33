"""A key is compared with a listed value in other letter case.

Why it is bad:
Texts are compared exactly: "Gold" is not "gold", so the comparison never comes out as meant.

Example:
    "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "enum": ["gold", "silver"]}}},
    "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
        {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "tier"}, "Gold"]}}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Write the value as the schema has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.mismatches import misfits


def check(subject: Subject) -> Iterator[Finding]:
    """Report values that differ from a listed one in case alone."""
    for pointer, misfit in misfits(subject).items():
        if misfit.kind == "case":
            literal = misfit.comparison.literal
            meant = [v for v in misfit.values if isinstance(v, str) and v.casefold() == literal.casefold()]
            yield RULE.finding(
                f"{quoted(misfit.comparison.key)} is never {quoted(literal)}: its schema writes {quoted(meant[0])}",
                pointer=pointer,
                hint=f"write {quoted(meant[0])}",
            )


RULE = Rule(name="case-mismatch", code="C212", level="warning", check=check)
