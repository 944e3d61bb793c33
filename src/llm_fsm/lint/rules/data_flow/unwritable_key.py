"""A state collects a key that the model cannot write, because its `x-source` is another one.

Why it is bad:
The model asks for it, the user answers, and nothing is stored.

Example:
    "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "x-source": "host"}}},
    "states": {"hello": {"purpose": "Ask", "required_context_keys": ["tier"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Take the key out of `required_context_keys`, or let the model write it.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_OTHERS = ("host", "tool", "answer")


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the source of every key that a state collects."""
    keys = subject.keys or {}
    for state in subject.states.values():
        for pointer, name in state.texts("required_context_keys"):
            declared = name if name in keys else name.split(".", 1)[0]
            source = subject.source_of(declared)
            if source in _OTHERS:
                yield RULE.finding(
                    f'{quoted(name)} cannot be collected from the user: its "x-source" is "{source}"',
                    pointer=pointer,
                    hint="take it out, or let the model write it",
                )


RULE = Rule(name="unwritable-key", code="K303", level="warning", check=check)
