"""The logic of a condition holds in every case, so it decides nothing.

Why it is bad:
The author thought that it would keep the transition closed at times.

Example:
    "context_schema": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 18}}},
    "states": {"hello": {"purpose": "Ask for the age", "required_context_keys": ["age"], "transitions": [
        {"target_state": "bye", "conditions": [{"logic": {"or": [{">=": [{"var": "age"}, 18]},
                                                                 {"!": {"has_context": "age"}}]}}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Take the logic out, or correct it.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.rules.conditions.constant_expression import constants
from llm_fsm.lint.rules.conditions.impossible_comparison import impossible
from llm_fsm.lint.rules.graph.unknown_state_in_condition import unknown_states
from llm_fsm.lint.solver.mismatches import misfits
from llm_fsm.lint.solver.solver import reasoning


def check(subject: Subject) -> Iterator[Finding]:
    """Look for logic that no case makes fail."""
    known = reasoning(subject)
    explained = {misfit.comparison.owner.pointer for misfit in misfits(subject).values()}
    explained |= {owner for owner, _, _ in constants(subject)}
    explained |= {
        found.pointer.partition("/logic")[0] for found in (*impossible(subject), *unknown_states(subject))
    }
    for _, transition in subject.transitions():
        for condition in transition.items("conditions"):
            rule = subject.rules.get(condition.pointer + "/logic")
            if rule is None or condition.pointer in explained:
                continue
            guard = known.guard_of([condition])
            if guard is not None and guard.always and rule.reads:
                names = ", ".join(map(quoted, sorted(rule.reads)))
                yield RULE.finding(
                    f"this holds in any case, whatever the value of {names}",
                    pointer=condition.pointer + "/logic",
                )


RULE = Rule(name="always-holds", code="C204", level="info", check=check)
