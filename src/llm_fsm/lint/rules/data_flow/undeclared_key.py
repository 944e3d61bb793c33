"""A state collects a key that `context_schema` does not declare.

Why it is bad:
Where there is a `context_schema`, only its keys can be written: what the user says is not stored under this
one, and a transition that needs it never opens.

Example:
    "context_schema": {"type": "object", "properties": {"email": {"type": "string"}}},
    "states": {"hello": {"purpose": "Ask", "required_context_keys": ["e_mail"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Declare the key, or correct its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.definition.names import KEY_PATTERN
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import flow
from llm_fsm.lint.facts.members import member_fault
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look up every key that a state collects."""
    keys = subject.keys
    if keys is None:
        return
    ways = flow(subject)
    for state in subject.states.values():
        for pointer, name in state.texts("required_context_keys"):
            fault = member_fault(ways, name)
            if fault is not None:
                yield RULE.finding(
                    f"{quoted(name)} cannot be collected: {fault[0]}", pointer=pointer, hint=fault[1]
                )
            if name in keys or name.split(".", 1)[0] in keys or re.fullmatch(KEY_PATTERN, name) is None:
                continue
            yield RULE.finding(
                f'{quoted(name)} cannot be collected: "context_schema" does not declare it',
                pointer=pointer,
                hint=subject.speller.hint(name, keys, "declared keys"),
            )


RULE = Rule(name="undeclared-key", code="K302", level="warning", check=check)
