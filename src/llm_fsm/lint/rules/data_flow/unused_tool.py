"""A tool is declared, and no state uses it.

Why it is bad:
A tool can be called only in states that list it under `tools`: this one never is.

Example:
    "tools": {"search": {"registered": "search"}}, "states": {"hello": {"purpose": "Greet the user"}}

Fix:
List it in the states that need it, or remove it.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._text import nearest
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_GUESSED = 20


def check(subject: Subject) -> Iterator[Finding]:
    """Compare what is declared with what is listed."""
    used = {name for state in subject.states.values() for _, name in state.texts("tools")}
    declared = [tool.name for tool in subject.root.members("tools")]
    misspelt = {nearest(name, declared) for name in sorted(used.difference(declared))[:_GUESSED]}
    for tool in subject.root.members("tools"):
        if tool.name not in used and tool.name not in misspelt:
            yield RULE.finding(
                f"tool {quoted(tool.name)} is used in no state",
                pointer=tool.pointer,
                hint='list it under "tools" of the states that need it, or remove it',
            )


RULE = Rule(name="unused-tool", code="T503", level="warning", check=check, at_key=True)
