"""A state of kind `decide` has no transitions.

Why it is bad:
It has nothing to decide between: every run that comes here is stuck.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "route"}]},
               "route": {"kind": "decide"}}

Fix:
Add its transitions; the last one without conditions takes what is left over.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the states that decide."""
    for name, state in subject.states.items():
        if state.value.get("kind") == "decide" and not state.value.get("transitions"):
            yield RULE.finding(
                f"state {quoted(name)} is to decide and has no transitions",
                pointer=state.pointer,
                hint='add "transitions", the last one without conditions',
            )


RULE = Rule(
    name="decide-without-transitions", code="F109", level="error", check=check, at_key=True, blocks=False
)
