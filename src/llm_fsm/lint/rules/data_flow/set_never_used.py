"""An output mapping sets a key that nothing in the file reads.

Why it is bad:
The result is stored and, as far as the file shows, forgotten; perhaps the key is misspelt.

Example:
    "context_schema": {"type": "object", "properties": {"approved": {"type": "boolean", "x-source": "answer"}}},
    "states": {"hello": {"kind": "wait", "wait_for": "manager", "output": {"approved": "$.ok"},
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Use the key in a condition or a reply, or take the mapping out.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import flow, mapped
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what mappings set with what is read."""
    ways = flow(subject)
    for placed in (*subject.states.values(), *subject.root.members("tools")):
        for key, pointer in mapped(placed):
            if (subject.keys is None or key in subject.keys) and key not in ways.read:
                yield RULE.finding(
                    f"{quoted(key)} is set here, but no condition, reply, mapping or instruction reads it",
                    pointer=pointer,
                )


RULE = Rule(name="set-never-used", code="K307", level="info", check=check, at_key=True)
