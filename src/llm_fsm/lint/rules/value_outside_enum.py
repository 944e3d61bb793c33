"""A key is compared with a value that is not among those that its schema lists.

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
from collections.abc import Iterator

from llm_fsm.findings import Finding, nearest
from llm_fsm.lint.misfits import Misfit, misfits
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Report comparisons with values that are not listed."""
    for pointer, misfit in misfits(subject).items():
        if misfit.kind == "value":
            key, literal = misfit.comparison.key, misfit.comparison.literal
            shown = json.dumps(literal, ensure_ascii=False)[:60]
            yield RULE.finding(
                f"{quoted(key)} is never {shown}: its schema does not list it",
                pointer=pointer,
                hint=_hint(misfit),
            )


def _hint(misfit: Misfit) -> str:
    literal = misfit.comparison.literal
    texts = [value for value in misfit.values if isinstance(value, str)]
    meant = nearest(literal, texts) if isinstance(literal, str) else None
    if meant is not None:
        return f"did you mean {quoted(meant)}?"
    listed = ", ".join(json.dumps(value, ensure_ascii=False) for value in misfit.values[:8])
    return f"the values are {listed[:200]}"


RULE = Rule(name="value-outside-enum", code="C211", level="warning", check=check)
