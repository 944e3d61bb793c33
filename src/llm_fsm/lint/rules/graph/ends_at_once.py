"""The conversation ends in the state in which it begins, although there are others.

Why it is bad:
The user reads one message, and no other state is ever reached.

Example:
    "initial_state": "bye", "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                                       "bye": {"kind": "final", "purpose": "Say goodbye"}}

Fix:
Name another initial state, or give this one transitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Ask of what kind the initial state is."""
    first = subject.initial
    if first is None or len(subject.states) == 1 or subject.kind_of(first) != "final":
        return
    if subject.states[first].pointer + "/transitions" in subject.unread:
        return
    stated = subject.states[first].value.get("kind") == "final"
    others = [name for name in subject.states if first in subject.graph[name]]
    what = "is final" if stated else "has no transitions"
    yield RULE.finding(
        f"the conversation begins in {quoted(first)} and ends there: that state {what}",
        pointer="/initial_state",
        hint=f"begin in {quoted(others[0])}?"
        if others
        else "give it transitions, or name another initial state",
    )


RULE = Rule(name="ends-at-once", code="F118", level="warning", check=check)
