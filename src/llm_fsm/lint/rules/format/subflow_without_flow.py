"""A state of kind `subflow` does not name the definition that it calls.

Why it is bad:
There is nothing to call: the machine cannot go on from here.

Example:
    "states": {"pay": {"kind": "subflow", "transitions": [{"target_state": "done"}]},
               "done": {"purpose": "Say goodbye"}}

Fix:
Add `flow`: a relative path, or the name of a definition that the host registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the states that call."""
    for name, state in subject.states.items():
        if state.value.get("kind") == "subflow" and state.value.get("flow") in (None, ""):
            yield RULE.finding(
                f"state {quoted(name)} is a subflow and names no definition to call",
                pointer=state.pointer,
                hint='add "flow"',
            )


RULE = Rule(name="subflow-without-flow", code="T512", level="error", check=check, at_key=True)
