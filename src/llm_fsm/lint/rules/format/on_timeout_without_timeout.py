"""A `wait` state says where to go when its time is over, and sets no time.

Why it is bad:
The way is never taken: the run waits for ever.

Example:
    "states": {"approval": {"kind": "wait", "on_timeout": "late", "transitions": [{"target_state": "done"}]},
               "late": {"purpose": "Say that it is too late"}, "done": {"purpose": "Say that it is done"}}

Fix:
Add `timeout` in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare both keys."""
    for name, state in subject.states.items():
        if state.value.get("on_timeout") is not None and state.value.get("timeout") is None:
            yield RULE.finding(
                f'"on_timeout" of state {quoted(name)} never happens: there is no "timeout"',
                pointer=state.pointer + "/on_timeout",
                hint='add "timeout" in seconds',
            )


RULE = Rule(name="on-timeout-without-timeout", code="T510", level="warning", check=check, at_key=True)
