"""A state calls itself by another id than its key under `states`.

Why it is bad:
Transitions, handlers and conversations know the state by its key. One of the two names is a mistake, often
left over from copying a state.

Example:
    "states": {"hello": {"id": "greeting", "purpose": "Greet the user"}}

Fix:
Give the key as the id, or leave the id away; `llm-fsm validate --fix` does the former.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare each state's id with its key."""
    for name, state in subject.states.items():
        given = state.value.get("id")
        if isinstance(given, str) and given not in ("", name):
            yield RULE.finding(
                f"state {quoted(name)} calls itself {quoted(given)}",
                pointer=state.pointer + "/id",
                hint=f'write "id": {quoted(name)}, or leave the id away',
            )


RULE = Rule(name="mismatched-id", code="S106", level="error", check=check)
