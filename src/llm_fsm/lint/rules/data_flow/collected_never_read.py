"""A state collects a key that nothing in the file reads.

Why it is bad:
The user is asked for something that no condition, fixed reply, mapping or instruction uses. Perhaps the
program reads it; perhaps a transition was meant to demand it.

Example:
    "context_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    "states": {"hello": {"purpose": "Where to?", "required_context_keys": ["city"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Demand the key in the transition that it is collected for, or do not ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what is collected with what is read; only where a schema says which keys there are."""
    if subject.keys is None:
        return
    ways = flow(subject)
    for key, places in ways.collected.items():
        if key in subject.keys and key not in ways.read:
            yield RULE.finding(
                f"{quoted(key)} is collected, but no condition, reply, mapping or instruction reads it",
                pointer=places[0][1],
                hint="demand it in a transition, unless the program reads it",
            )


RULE = Rule(name="collected-never-read", code="K306", level="info", check=check)
