"""A deciding state has no transition that could ever be taken.

Why it is bad:
Every conversation that enters it ends there with the outcome `stuck`.

Example:
    "context_schema": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}},
    "states": {"hello": {"purpose": "Ask for the age", "transitions": [{"target_state": "route"}]},
        "route": {"kind": "decide", "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"<": [{"var": "age"}, 0]}}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Give the state a transition that can hold; a last one without conditions always does.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.solver import reasoning


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the deciding states whose transitions all can never hold."""
    known = reasoning(subject)
    for name, state in subject.states.items():
        arcs = known.decided(name)
        if subject.kind_of(name) != "decide" or not arcs or any(map(known.may_hold, arcs)):
            continue
        yield RULE.finding(
            f"none of the transitions of state {quoted(name)} can ever hold: every run that enters it is stuck",
            pointer=state.pointer + "/transitions",
            hint="add a transition without conditions",
            path=subject.path_to(name),
        )


RULE = Rule(name="stuck-decide", code="C215", level="error", check=check, blocks=False)
