"""The machine has states that end a conversation, and none of them can be reached from the initial state.

Why it is bad:
No conversation ever ends, although its author meant it to.

Example:
    "states": {"ask": {"purpose": "Ask", "transitions": [{"target_state": "answer"}]},
               "answer": {"purpose": "Answer", "transitions": [{"target_state": "ask"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Add the transition that leads to the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.definition.graph import reachable
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.endings import ends, unsure, ways
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Whether one of the ends is among the states that can be reached."""
    last = ends(subject)
    if subject.initial is None or not last:
        return
    if reachable(ways(subject), [subject.initial]) & (last | unsure(subject)):
        return
    names = listed((quoted(name) for name in subject.states if name in last), 4)
    yield RULE.finding(
        f"no way leads from {quoted(subject.initial)} to a state that ends the conversation ({names})",
        pointer="/initial_state",
        hint="add a transition that leads there",
    )


RULE = Rule(name="no-way-to-an-end", code="F104", level="warning", check=check)
