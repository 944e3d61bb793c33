"""A fixed reply is empty, whatever its keys hold.

Why it is bad:
The user reads nothing in this state, although the file seems to say something.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
               "bye": {"kind": "final", "purpose": "Say goodbye", "reply": "{# say goodbye #}"}}

Fix:
Write the words, or take the reply out, so that the model speaks.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.reply_trials import trials
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Report replies of blanks, and those that rendered to nothing each time they were tried."""
    tried = trials(subject)
    for state, placed in subject.states.items():
        text = placed.text("reply")
        blank = bool(text) and not text.strip()
        if blank or (state in tried and tried[state].outcome == "empty"):
            yield RULE.finding(
                f"the fixed reply of state {quoted(state)} says nothing" + ("" if blank else " in any case"),
                pointer=placed.pointer + "/reply",
                hint="write the words, or take it out and the model speaks",
            )


RULE = Rule(name="empty-reply", code="S124", level="warning", check=check)
