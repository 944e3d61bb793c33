"""A state lists a tool whose `scope` leaves the state out.

Why it is bad:
Every call there is refused.

Example:
    "tools": {"search": {"registered": "search", "scope": ["find"]}},
    "states": {"find": {"purpose": "Find it", "tools": ["search"], "transitions": [{"target_state": "tell"}]},
               "tell": {"purpose": "Tell it", "tools": ["search"]}}

Fix:
Add the state to the scope, or take the tool out of the state.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare both lists."""
    scopes = {
        tool.name: {state for _, state in tool.texts("scope")}
        for tool in subject.root.members("tools")
        if isinstance(tool.value.get("scope"), list)
    }
    for state_id, state in subject.states.items():
        for pointer, name in state.texts("tools"):
            if name in scopes and state_id not in scopes[name]:
                yield RULE.finding(
                    f"tool {quoted(name)} may not be called in state {quoted(state_id)}, which lists it",
                    pointer=pointer,
                    hint=f'add {quoted(state_id)} to the "scope" of the tool',
                )


RULE = Rule(name="tool-out-of-scope", code="T505", level="warning", check=check)
