"""A list of names has the same name twice.

Why it is bad:
It does nothing. Mostly another key, tool or state was meant the second time.

Example:
    "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["name", "name"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Name the other one, or remove the second.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Placed, Subject


def _lists(subject: Subject) -> Iterator[tuple[Placed, str]]:
    for state in subject.states.values():
        yield state, "required_context_keys"
        yield state, "tools"
        scope = state.value.get("context_scope")
        if isinstance(scope, dict):
            yield Placed(state.pointer + "/context_scope", scope), "read"
    for _, transition in subject.transitions():
        for condition in transition.items("conditions"):
            yield condition, "requires_context_keys"
    for tool in subject.root.members("tools"):
        yield tool, "scope"
    yield subject.root, "patterns"


def check(subject: Subject) -> Iterator[Finding]:
    """Look for names that come back in one list."""
    for owner, key in _lists(subject):
        seen: set[str] = set()
        for pointer, name in owner.texts(key):
            if name in seen:
                message = f"{quoted(name)} stands a second time in {quoted(key)}"
                yield RULE.finding(message, pointer=pointer, hint="name each once")
            seen.add(name)


RULE = Rule(name="repeated-entry", code="S115", level="warning", check=check)
