"""A tool is used only in states that no conversation reaches.

Why it is bad:
It is never called.

Example:
    "tools": {"search": {"registered": "search"}},
    "states": {"hello": {"purpose": "Greet"}, "find": {"purpose": "Find it", "tools": ["search"]}}

Fix:
Lead a transition to one of the states.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the states that use a tool with those that are reached."""
    users: dict[str, list[str]] = {}
    for state_id, state in subject.states.items():
        for _, name in state.texts("tools"):
            users.setdefault(name, []).append(state_id)
    for tool in subject.root.members("tools"):
        states = users.get(tool.name)
        if states and not subject.reached.intersection(states):
            names = listed((quoted(state) for state in states), 4)
            yield RULE.finding(
                f"tool {quoted(tool.name)} is used only where no conversation comes: {names}",
                pointer=tool.pointer,
                hint="lead a transition there",
            )


RULE = Rule(name="tool-never-reachable", code="T504", level="warning", check=check, at_key=True)
