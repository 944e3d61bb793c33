"""A transition is never taken, because the conditions on every way to its state exclude its own.

Why it is bad:
What was asked on the way is asked here again, with another answer in mind: nobody may write the key in between.

Example:
    "context_schema": {"type": "object", "properties": {"topic": {"type": "string", "enum": ["bill", "order"]}}},
    "states": {"hello": {"purpose": "Ask what it is about", "required_context_keys": ["topic"], "transitions": [
            {"target_state": "bills", "conditions": [{"logic": {"==": [{"var": "topic"}, "bill"]}}]}]},
        "bills": {"kind": "decide", "transitions": [
            {"target_state": "order", "priority": 1, "conditions": [{"logic": {"==": [{"var": "topic"}, "order"]}}]},
            {"target_state": "bill", "priority": 2}]},
        "order": {"purpose": "Help with the order"}, "bill": {"purpose": "Help with the bill"}}

Fix:
Lead another way to the state, correct one of the conditions, or take the transition out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Arc, Subject
from llm_fsm.lint.facts.paths import routes
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.solver import read_names, reasoning

_MOST_VALUES = 4


def check(subject: Subject) -> Iterator[Finding]:
    """Look for arcs that no way through the machine takes."""
    for arc in routes(subject).closed():
        what = f"state {quoted(arc.source)}: the transition to {quoted(arc.target)} is never taken"
        yield RULE.finding(
            f"{what}: {_why(subject, arc)}",
            pointer=arc.placed.pointer,
            hint="nobody may write the key in between; correct one of the conditions",
            path=subject.path_to(arc.source),
        )


def _why(subject: Subject, arc: Arc) -> str:
    """What is known of the first key whose values here exclude those that the transition demands."""
    guard = reasoning(subject).guard(arc.placed)
    for name in read_names([] if guard is None else [guard]):
        there = routes(subject).there(arc.source, name)
        wanted = [case.sets[name] for case in (guard.holds if guard else None) or () if name in case.sets]
        values = there.finite(_MOST_VALUES)
        if values and wanted and all((there & demanded).empty for demanded in wanted):
            listed = " or ".join(map(_shown, values))
            return f"on every way here {quoted(name)} is {listed[:120]}"
    return "the conditions on every way here exclude it"


def _shown(value: object) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)


RULE = Rule(name="closed-on-every-way", code="C220", level="warning", check=check)
