"""No state of the machine ends a conversation.

Why it is bad:
Open-ended companions are made so on purpose. Otherwise the end was forgotten: conversations stay open and
`turn.ended` is never true.

Example:
    "states": {"ask": {"purpose": "Ask", "transitions": [{"target_state": "answer"}]},
               "answer": {"purpose": "Answer", "transitions": [{"target_state": "ask"}]}}

Fix:
Add a state without transitions and lead to it; or leave this rule out under `x-lint` and say why.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.endings import ends
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Whether there is an end at all."""
    if subject.states and not ends(subject):
        yield RULE.finding(
            "no state ends the conversation",
            pointer="/states",
            hint="a state without transitions is an end; open-ended machines need none",
        )


RULE = Rule(name="no-final-state", code="F107", level="info", check=check, at_key=True)
