"""A transition of a state has `return`, which works on global transitions only.

Why it is bad:
The conversation does not come back as the author expects.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "help", "return": true}]},
               "help": {"purpose": "Explain the rules"}}

Fix:
Move the transition to `global_transitions`, or remove `return` and lead back by a transition.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Look for `return` on transitions of states."""
    for name, transition in subject.transitions():
        if name is not None and transition.value.get("return") is True:
            yield RULE.finding(
                '"return" has no effect on a transition of a state',
                pointer=transition.pointer + "/return",
                hint='only transitions under "global_transitions" come back',
            )


RULE = Rule(name="return-without-effect", code="F112", level="warning", check=check, at_key=True)
