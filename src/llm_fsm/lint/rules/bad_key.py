"""A context key has a name that can never be stored.

Why it is bad:
Names that begin with `_` belong to the system, and others must be ASCII letters, digits, `_`, `.` and `-`,
begin with a letter and have at most 64 characters. What the user says would be lost.

Example:
    "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["first name"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Rename the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Subject
from llm_fsm.names import KEY_PATTERN
from llm_fsm.pointers import step

_ALLOWED = "keys are ASCII letters, digits, _ . and -, begin with a letter, and have at most 64 characters"


def _names(subject: Subject) -> Iterator[tuple[str, str]]:
    """(pointer, name) of every key that is collected or declared."""
    for state in subject.states.values():
        yield from state.texts("required_context_keys")
    for key in subject.keys or ():
        yield "/context_schema/properties" + step(key), key


def check(subject: Subject) -> Iterator[Finding]:
    """Hold each name against the pattern of context keys."""
    for pointer, name in _names(subject):
        if name.startswith("_"):
            yield RULE.finding(
                f"context key {quoted(name)}: names that begin with _ belong to the system",
                pointer=pointer,
                hint=f"write {quoted(name.lstrip('_') or 'key')}",
            )
        elif re.fullmatch(KEY_PATTERN, name) is None:
            message = f"context key {quoted(name)} can never be stored"
            yield RULE.finding(message, pointer=pointer, hint=_ALLOWED)


RULE = Rule(name="bad-key", code="K301", level="error", check=check, blocks=False)
