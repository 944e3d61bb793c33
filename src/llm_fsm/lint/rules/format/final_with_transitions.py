"""A state of kind `final` has transitions.

Why it is bad:
A final state ends the conversation: its transitions are never taken, and what they lead to is not reached.

Example:
    "states": {"hello": {"kind": "final", "purpose": "Greet", "transitions": [{"target_state": "bye"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Remove `kind` if the conversation goes on from here, or else the transitions.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the final states."""
    for name, state in subject.states.items():
        if state.value.get("kind") == "final" and state.value.get("transitions"):
            yield RULE.finding(
                f"state {quoted(name)} is final: its transitions are never taken",
                pointer=state.pointer + "/transitions",
                hint='remove "kind" if the conversation goes on from here, or else the transitions',
            )


RULE = Rule(name="final-with-transitions", code="F110", level="warning", check=check, at_key=True)
