"""A state that the model serves says neither what it is for nor how to go about it.

Why it is bad:
The model knows nothing but the state's id, and what it says there is a guess.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "step_2"}]},
               "step_2": {"transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Write a `purpose` in one sentence, or a fixed `reply`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import has_words
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """States without words; where none of several has any, the machine may be a bare table, and one note does."""
    served = [name for name in subject.states if subject.kind_of(name) in ("converse", "final")]
    silent = [name for name in served if not has_words(subject.states[name])]
    if len(silent) == len(subject.states) and silent:
        yield RULE.finding(
            "no state says what it is there for: the model knows only their ids",
            pointer="/states",
            hint='write a "purpose" for each',
            level="info",
        )
        return
    for name in silent:
        yield RULE.finding(
            f"state {quoted(name)} says neither what it is for nor how to go about it",
            pointer=subject.states[name].pointer,
            hint='write a "purpose"',
            level="info" if subject.kind_of(name) == "final" else "warning",
        )


RULE = Rule(name="missing-purpose", code="W401", level="warning", check=check, at_key=True)
