"""A list has the same name, or a transition the same condition, twice.

Why it is bad:
It does nothing. Mostly another key, tool or state was meant the second time.

Example:
    "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["name", "name"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Name the other one, or remove the second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


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
    yield from _conditions(subject)


def _conditions(subject: Subject) -> Iterator[Finding]:
    """Conditions that ask the same twice in one transition."""
    for _, transition in subject.transitions():
        conditions = transition.value.get("conditions")
        if not isinstance(conditions, list) or len(conditions) < 2:
            continue
        said: set[str] = set()
        for condition in transition.items("conditions"):
            keys = sorted(key for _, key in condition.texts("requires_context_keys"))
            asked = [keys, condition.value.get("logic")]
            text = json.dumps(asked if asked != [[], None] else condition.text("description").casefold())
            if text in said and text != '""':
                message = "this condition stands a second time in its transition"
                yield RULE.finding(message, pointer=condition.pointer, hint="was another one meant?")
            said.add(text)


RULE = Rule(name="repeated-entry", code="S115", level="warning", check=check)
