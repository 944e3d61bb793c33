"""A message of an example dialogue is said by somebody else than `user` or `system`.

Why it is bad:
The conversation that the model reads has `user` and `system` only; it does not see whose example this is.

Example:
    "states": {"hello": {"purpose": "Greet", "example_dialogue": [{"usre": "Hi"}, {"system": "Hello!"}]}}

Fix:
Write `{"user": "…"}` for what the user says and `{"system": "…"}` for the answers.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm._text import nearest
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_ROLES = ("user", "system")
_ANSWERERS = frozenset({"assistant", "bot", "agent"})


def check(subject: Subject) -> Iterator[Finding]:
    """Look at who says what."""
    for state in subject.states.values():
        for message in state.items("example_dialogue"):
            for role in message.value:
                if role in _ROLES:
                    continue
                meant = "system" if role in _ANSWERERS else nearest(role, _ROLES)
                yield RULE.finding(
                    f"{quoted(role)} takes no part in a dialogue",
                    pointer=message.pointer + step(role),
                    hint='the two are "user" and "system"' if meant is None else f'did you mean "{meant}"?',
                    level="info" if role in _ANSWERERS else "warning",
                )


RULE = Rule(name="example-dialogue-roles", code="W407", level="warning", check=check, at_key=True)
