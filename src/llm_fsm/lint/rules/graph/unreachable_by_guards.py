"""A state can be reached only through transitions that are never taken.

Why it is bad:
The picture of the machine shows a way to it, but no conversation ever arrives.

Example:
    "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "maximum": 8}}},
    "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
        {"target_state": "large", "conditions": [{"logic": {">": [{"var": "guests"}, 8]}}]},
        {"target_state": "small", "conditions": [{"requires_context_keys": ["guests"]}]}]},
        "small": {"purpose": "Offer a table"}, "large": {"purpose": "Pass the party on to a colleague"}}

Fix:
Correct the conditions on the way, or take the state out.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.definition.graph import reachable, shortest_path
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.paths import routes
from llm_fsm.lint.facts.suggestions import quoted, route
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what the graph reaches with what is reached where conditions are followed."""
    initial = subject.initial
    if initial is None:
        return
    alive = routes(subject).alive
    lost = [state for state in subject.states if state in subject.reached and state not in alive]
    if not lost:
        return
    first = {target for state in alive for target in subject.graph[state]}
    for state in lost:
        if state not in first:
            continue
        path = shortest_path(subject.graph, initial, [state])
        behind = len(reachable(subject.graph, [state]) - alive) - 1
        more = f", and so can {behind} more behind it" if behind else ""
        yield RULE.finding(
            f"state {quoted(state)} can be reached only by transitions that are never taken{more}: {route(path)}",
            pointer=subject.states[state].pointer,
            path=path,
        )


RULE = Rule(name="unreachable-by-guards", code="C214", level="warning", check=check)
