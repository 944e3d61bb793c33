"""The `check` of a key result is neither JsonLogic, nor one judge's criterion, nor one function's name.

Why it is bad:
The task could never prove that it is done.

Example:
    "states": {"write": {"kind": "task", "key_results": [{"name": "long", "check": {"judge": ""}}]}}

Fix:
Write JsonLogic over `output`, `context` and `input`, or `{"judge": "criterion"}`, or
`{"registered": "name"}`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.conditions import collect_faults
from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the check of each key result."""
    for state in subject.states.values():
        for result in state.items("key_results"):
            test, pointer = result.value.get("check"), result.pointer + "/check"
            if isinstance(test, dict) and test.keys() & {"judge", "registered"}:
                value = next(iter(test.values()))
                if len(test) != 1 or not isinstance(value, str) or not value.strip():
                    yield RULE.finding(
                        "a check is JsonLogic, or one judge's criterion, or the name of one registered function",
                        pointer=pointer,
                        hint='write {"judge": "criterion"} or {"registered": "name"}',
                    )
            elif test is not None:
                for fault in collect_faults(test):
                    yield RULE.finding(fault.reason, pointer=pointer + fault.pointer, hint=fault.hint)


RULE = Rule(name="bad-check", code="C202", level="error", check=check)
