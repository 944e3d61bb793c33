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

from llm_fsm.codes import listed
from llm_fsm.findings import Finding
from llm_fsm.graph import Graph, components, reachable, shortest_path
from llm_fsm.lint.endings import ends, unsure, ways
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Subject


def _into_and_round(graph: Graph, start: str, group: frozenset[str]) -> tuple[str, ...]:
    """The way into a group and once round in it."""
    into = shortest_path(graph, start, group)
    if not into:
        return ()
    rounds = [shortest_path(graph, after, [into[-1]]) for after in graph[into[-1]] if after in group]
    return into + min((way for way in rounds if way), key=len, default=())


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
        path = _into_and_round(subject.graph, subject.initial, group)
        entry = next((name for name in path if name in group), members[0])
        names = listed((quoted(name) for name in subject.states if name in group), 6)
        yield RULE.finding(
            f"no way leads out of the states {names}, and none of them ends the conversation",
            pointer=subject.states[entry].pointer,
            hint="add a transition that leads out",
            path=path,
        )


RULE = Rule(name="trap", code="F105", level="warning", check=check, at_key=True)
