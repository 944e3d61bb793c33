"""Two key results of a state have the same name.

Why it is bad:
The verdicts of a task are kept by name: what failed cannot be told apart from what passed.

Example:
    "states": {"write": {"kind": "task", "key_results": [
        {"name": "long", "description": "Has 200 words"}, {"name": "long", "description": "Has a title"}]}}

Fix:
Give each its own name.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look for names that come back."""
    for state_id, state in subject.states.items():
        seen: set[str] = set()
        for result in state.items("key_results"):
            name = result.value.get("name")
            if isinstance(name, str) and name in seen:
                yield RULE.finding(
                    f"a second key result {quoted(name)} in state {quoted(state_id)}",
                    pointer=result.pointer + "/name",
                    hint="give each its own name",
                )
            elif isinstance(name, str):
                seen.add(name)


RULE = Rule(name="duplicate-name", code="S114", level="error", check=check)
