"""A state that ends the conversation has keys to collect.

Why it is bad:
The conversation is over when the state is entered: its question is never answered and the keys stay empty.
Mostly its transitions are missing; a state without any is an end.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "email"}]},
               "email": {"purpose": "Ask for the address", "required_context_keys": ["email"]}}

Fix:
Add the transitions, or collect the keys before.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import listed
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the states that end."""
    for name, state in subject.states.items():
        keys = [quoted(key) for _, key in state.texts("required_context_keys")]
        if keys and subject.kind_of(name) == "final":
            stated = state.value.get("kind") == "final"
            why = "" if stated else ": it has no transitions"
            yield RULE.finding(
                f"state {quoted(name)} ends the conversation{why}, so {listed(keys, 4)} cannot be collected there",
                pointer=state.pointer + "/required_context_keys",
                hint="collect them before" if stated else "add its transitions, or collect the keys before",
            )


RULE = Rule(name="collects-at-the-end", code="F116", level="warning", check=check, at_key=True)
