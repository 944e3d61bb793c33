"""The `answer_schema` of a state is not a JSON Schema.

Why it is bad:
No answer can be checked against it, so the wait could never be ended. The same goes for schemas that refer to each
other so many times that checking one answer might not end.

Example:
    "states": {"hello": {"kind": "wait", "timeout": 60, "answer_schema": {"type": "bool"},
                         "transitions": [{"target_state": "bye"}]},
               "bye": {"kind": "final", "purpose": "Say goodbye"}}

Fix:
Correct the place that the message names.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.schemas import schema_faults
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compile each answer's schema."""
    for state in subject.states.values():
        answer = state.value.get("answer_schema")
        if isinstance(answer, dict):
            for pointer, message, hint in schema_faults(answer, None, state.pointer + "/answer_schema"):
                yield RULE.finding(message, pointer=pointer, hint=hint)


RULE = Rule(name="bad-answer-schema", code="S111", level="error", check=check)
