"""A reminder of a `wait` state comes when the wait is over.

Why it is bad:
It is never sent.

Example:
    "states": {"approval": {"kind": "wait", "timeout": 3600, "on_timeout": "late", "remind": [600, 7200],
                            "transitions": [{"target_state": "late"}]},
               "late": {"purpose": "Say that it is too late"}}

Fix:
Remind earlier, or wait longer; both are seconds from the beginning of the wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the seconds."""
    for state in subject.states.values():
        timeout, remind = state.value.get("timeout"), state.value.get("remind")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not isinstance(remind, list):
            continue
        for index, seconds in enumerate(remind):
            if isinstance(seconds, int | float) and seconds >= timeout:
                yield RULE.finding(
                    f"the wait is over after {timeout:g} seconds, before this reminder",
                    pointer=f"{state.pointer}/remind/{index}",
                    hint="remind earlier, or wait longer",
                )


RULE = Rule(name="remind-after-timeout", code="T515", level="warning", check=check)
