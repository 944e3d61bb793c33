"""A group of states leads only to each other, while other conversations of the machine come to an end.

Why it is bad:
Whoever gets in never gets out: the conversation cannot be ended, only left.

Example:
    "states": {"ask": {"purpose": "Ask", "transitions": [{"target_state": "a"}, {"target_state": "bye"}]},
               "a": {"purpose": "Explain", "transitions": [{"target_state": "b"}]},
               "b": {"purpose": "Explain more", "transitions": [{"target_state": "a"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Add a transition that leads out of the group.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.definition.graph import components, reachable, shortest_round
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.endings import ends, unsure, ways
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Strongly connected groups of reached states without exit and without end."""
    last, graph, unknown = ends(subject), ways(subject), unsure(subject)
    if subject.initial is None or not reachable(graph, [subject.initial]) & last:
        return
    for members in components({name: graph[name] for name in subject.states if name in subject.reached}):
        group = frozenset(members)
        if (
            len(members) < 2
            or group & (last | unknown)
            or any(after not in group for one in members for after in graph[one])
        ):
            continue
        entry = subject.first_reached(members)
        names = listed((quoted(name) for name in subject.states if name in group), 6)
        yield RULE.finding(
            f"no way leads out of the states {names}, and none of them ends the conversation",
            pointer=subject.states[entry].pointer,
            hint="add a transition that leads out",
            path=subject.path_to(entry) + shortest_round(graph, entry)[1:],
        )


RULE = Rule(name="trap", code="F105", level="warning", check=check, at_key=True)
