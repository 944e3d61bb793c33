"""A context key has a name that can never be stored, or that not every model can be asked for.

Why it is bad:
Names that begin with `_` belong to the system, and others must be ASCII letters, digits, `_`, `.` and `-`,
begin with a letter and have at most 64 characters. What the user says would be lost. A key that `context_schema`
declares is stored under other names as well, but some providers (Anthropic, for one) refuse the schema of a reply
that has them: a warning.

Example:
    "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["first name"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Rename the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.definition.names import KEY_PATTERN
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_ALLOWED = "keys are ASCII letters, digits, _ . and -, begin with a letter, and have at most 64 characters"


def _names(subject: Subject) -> Iterator[tuple[str, str]]:
    """(pointer, name) of every key that is collected or declared."""
    declared = subject.keys or {}
    for state in subject.states.values():
        for pointer, name in state.texts("required_context_keys"):
            if name.startswith("_") or not declared.keys() & {name, name.partition(".")[0]}:
                yield pointer, name
    for key in declared:
        if key.startswith("_") or subject.source_of(key) == "model":
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
            if name in (subject.keys or {}):
                message = f"some models cannot be asked for context key {quoted(name)}"
                yield RULE.finding(message, pointer=pointer, hint=_ALLOWED, level="warning")
            else:
                message = f"context key {quoted(name)} can never be stored"
                yield RULE.finding(message, pointer=pointer, hint=_ALLOWED)


RULE = Rule(name="bad-key", code="K301", level="error", check=check, blocks=False)
