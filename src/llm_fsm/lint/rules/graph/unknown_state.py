"""The `scope` of a tool names a state that does not exist.

Why it is bad:
The tool may not be called where it was meant to be.

Example:
    "tools": {"search": {"registered": "search", "scope": ["fnd"]}},
    "states": {"find": {"kind": "task", "purpose": "Find it", "tools": ["search"],
                        "key_results": [{"name": "found", "description": "Something was found"}]}}

Fix:
Correct the name.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look up the states that tools are limited to."""
    for tool in subject.root.members("tools"):
        for pointer, state in tool.texts("scope"):
            if state not in subject.ids:
                yield RULE.finding(
                    f"tool {quoted(tool.name)} is offered in unknown state {quoted(state)}",
                    pointer=pointer,
                    hint=subject.speller.hint(state, subject.ids, "states"),
                )


RULE = Rule(name="unknown-state", code="T502", level="warning", check=check)
