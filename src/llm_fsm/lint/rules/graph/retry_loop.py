"""A task that has used up its attempts goes on to itself.

Why it is bad:
It begins anew with all its attempts, for ever: the limit that `max_retries` sets is none.

Example:
    "states": {"write": {"kind": "task", "purpose": "Write the report", "on_exhausted": "write",
                         "key_results": [{"name": "long", "description": "Has 200 words"}]}}

Fix:
Raise `max_retries`, and name another state, `continue` or `raise`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look for tasks and waits whose way out leads back at once."""
    for name, state in subject.states.items():
        for key, event in (("on_exhausted", "attempts are used up"), ("on_timeout", "time is over")):
            if state.value.get(key) == name:
                yield RULE.finding(
                    f"when its {event}, state {quoted(name)} begins anew, for ever",
                    pointer=f"{state.pointer}/{key}",
                    hint="name another state",
                    path=(name, name),
                )


RULE = Rule(name="retry-loop", code="T516", level="warning", check=check)
