"""`initial_state` names a state that does not exist.

Why it is bad:
No conversation could begin.

Example:
    "initial_state": "helo", "states": {"hello": {"purpose": "Greet the user"}}

Fix:
Name one of the states.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look the initial state up."""
    initial = subject.root.value.get("initial_state")
    if subject.ids and isinstance(initial, str) and initial not in subject.ids:
        yield RULE.finding(
            f"initial state {quoted(initial)} is not among the states",
            pointer="/initial_state",
            hint=subject.speller.hint(initial, subject.ids, "states"),
        )


RULE = Rule(name="unknown-initial-state", code="F102", level="error", check=check)
