"""A circle of states is run through without anybody being asked: each takes its first transition in any case.

Why it is bad:
A turn that gets in goes round until `limits.auto_steps` stops it, and the user waits for nothing.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "a"}]},
               "a": {"kind": "decide", "transitions": [{"target_state": "b"}]},
               "b": {"kind": "decide", "transitions": [{"target_state": "a"}]}}

Fix:
Give one of the transitions a condition, or put a state into the circle that waits for the user.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.graph import components
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import route
from llm_fsm.lint.subject import Subject


def _forced(subject: Subject, name: str) -> str | None:
    """The state that follows in any case and at once; None where something is asked or tested."""
    kind = subject.kind_of(name)
    if kind not in ("converse", "decide"):
        return None
    arcs = [arc for arc in subject.arcs_from[name] if kind == "decide" or (arc.auto and arc.target != name)]
    if not arcs or arcs[0].placed.value.get("conditions") or arcs[0].target not in subject.states:
        return None
    return arcs[0].target


def check(subject: Subject) -> Iterator[Finding]:
    """Circles in the graph of what follows in any case."""
    forced: dict[str, tuple[str, ...]] = {}
    for name in subject.states:
        after = _forced(subject, name)
        forced[name] = () if after is None or name not in subject.reached else (after,)
    for members in components(forced):
        if len(members) == 1 and members[0] not in forced[members[0]]:
            continue
        first = subject.first_reached(members)
        circle, after = [first], forced[first][0]
        while after != circle[0]:
            circle.append(after)
            after = forced[after][0]
        circle.append(after)
        yield RULE.finding(
            f"nothing stops the machine from going round: {route(circle)}",
            pointer=subject.states[first].pointer,
            hint="give a transition of the circle a condition",
            path=(*subject.path_to(first)[:-1], *circle),
        )


RULE = Rule(name="auto-loop", code="F108", level="warning", check=check, at_key=True)
