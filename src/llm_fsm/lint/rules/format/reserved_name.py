"""A state or context key has the name of something that the reply or the format uses itself.

Why it is bad:
The model writes `stay`, `null` or `context_update` in other places of its reply, and mixes them up with a
state or key of that name.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "null"}]},
               "null": {"purpose": "Say goodbye"}}

Fix:
Choose a word that says what the state or the key is.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_REPLY = frozenset({"transition", "target_state", "context_update", "message", "reasoning"})
_STATES = frozenset({"null", "none", "true", "false", "stay", "undefined", "raise", "continue"})
_KEYS = frozenset({"context_update", "target_state", "null", "undefined"})


def check(subject: Subject) -> Iterator[Finding]:
    """Look the names up."""
    for name, state in subject.states.items():
        if name.casefold() in _STATES | _REPLY:
            yield RULE.finding(
                f"a state called {quoted(name)} is easily mixed up with a word of the reply or the format",
                pointer=state.pointer,
                hint="choose a word for what the state is there for",
            )
    for key in subject.keys or ():
        if key.casefold() in _KEYS:
            yield RULE.finding(
                f"a context key called {quoted(key)} is easily mixed up with a word of the reply",
                pointer="/context_schema/properties" + step(key),
                hint="choose a word for what the key holds",
            )


RULE = Rule(name="reserved-name", code="S113", level="warning", check=check, at_key=True)
