"""A property is written in a way that says nothing.

Why it is bad:
It is not checked, and the author thinks that it holds.

Example:
    "properties": [{"always": "bye"}],
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Write `{"never": S}`, `{"never": S, "before": S}`, `{"always": S, "after": S}` or `{"eventually": S}`, where
S is a state id, a list of them, or `{"key": "name"}`. `never … before T` says that T comes first, `eventually` that
every path comes to S before it ends, `always … after T` that whoever has come to T comes to S, there or later.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.properties import FormError, read
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Read each property."""
    for placed in subject.root.items("properties"):
        try:
            read(placed.value)
        except FormError as error:
            place = step(error.key) if error.key else ""
            yield RULE.finding(str(error), pointer=placed.pointer + place, hint=error.hint or None)


RULE = Rule(name="property-malformed", code="P602", level="error", check=check, blocks=False)
