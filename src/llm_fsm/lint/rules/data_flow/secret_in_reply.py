"""A fixed reply shows a secret key.

Why it is bad:
`x-secret` keeps a value out of fixed replies: the text would have a hole where it should stand, and were
it filled, the secret would stand in histories, logs and traces.

Example:
    "context_schema": {"type": "object", "properties": {"pin": {"type": "string", "x-secret": true}}},
    "states": {"hello": {"purpose": "Ask for the PIN", "required_context_keys": ["pin"], "transitions": [
            {"target_state": "bye", "conditions": [{"requires_context_keys": ["pin"]}]}]},
        "bye": {"kind": "final", "purpose": "Confirm", "reply": "Your PIN is {{ pin }}."}}

Fix:
Take the key out of the reply, or take `x-secret` from the key if it is none.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look for secrets among the names in fixed replies."""
    ways = flow(subject)
    if not any(ways.is_secret(key) for key in subject.keys or ()):
        return
    for state, mentioned in ways.replies.items():
        shown = {mention.name: mention.shown for mention in sorted(mentioned, key=lambda found: found.shown)}
        for name, is_shown in shown.items():
            if ways.is_secret(name):
                verb = "shows" if is_shown else "tests"
                yield RULE.finding(
                    f"the fixed reply of state {quoted(state)} {verb} the secret {quoted(name)}",
                    pointer=subject.states[state].pointer + "/reply",
                    hint="secrets are never set in replies: take it out",
                    level=None if is_shown else "warning",
                )


RULE = Rule(name="secret-in-reply", code="K312", level="error", check=check, blocks=False)
