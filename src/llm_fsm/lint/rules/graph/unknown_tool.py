"""A state uses a tool that is not declared under `tools`.

Why it is bad:
The tool cannot be called: the machine cannot be started.

Example:
    "tools": {"search": {"registered": "search"}},
    "states": {"find": {"kind": "task", "purpose": "Find it", "tools": ["serch"],
                        "key_results": [{"name": "found", "description": "Something was found"}]}}

Fix:
Correct the name, or declare the tool.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look up the tools of each state."""
    tools = subject.root.value.get("tools")
    known = frozenset(tools) if isinstance(tools, dict) else frozenset()
    for state_id, state in subject.states.items():
        for pointer, name in state.texts("tools"):
            if name not in known:
                yield RULE.finding(
                    f"state {quoted(state_id)} uses the unknown tool {quoted(name)}",
                    pointer=pointer,
                    hint=subject.speller.hint(name, known, 'tools under "tools"'),
                )


RULE = Rule(name="unknown-tool", code="T501", level="error", check=check)
