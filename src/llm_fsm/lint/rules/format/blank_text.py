"""A name, or a text that is said, is blank.

Why it is bad:
Nothing can be called by a blank name, and users read nothing where a blank text is said.

Example:
    "name": " ", "states": {"hello": {"purpose": "Greet"}}

Fix:
Write it, or take the key out.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

_STATE_KEYS = ("execute", "flow", "wait_for")
_TOOL_KEYS = ("registered", "mcp", "tool")


def check(subject: Subject) -> Iterator[Finding]:
    """Look at everything that is a name, and at the words for failures."""
    yield from _blank(subject.root, "name", "a definition needs a name that says what it is")
    for owner in (subject.root, *subject.states.values()):
        settings = owner.value.get("model")
        if isinstance(settings, dict):
            placed = Placed(owner.pointer + "/model", settings)
            yield from _blank(placed, "name", "name a model, or leave the key out")
            yield from _blank(placed, "on_failure", "write what users read when the model fails")
    for state in subject.states.values():
        for key in _STATE_KEYS:
            yield from _blank(state, key, "name it, or leave the key out")
        for result in state.items("key_results"):
            yield from _blank(result, "name", "name the key result")
    for tool in subject.root.members("tools"):
        if not tool.name.strip():
            yield RULE.finding(
                "a tool has a blank name", pointer="/tools" + step(tool.name), hint="name the tool"
            )
        for key in _TOOL_KEYS:
            yield from _blank(tool, key, "name it")


def _blank(placed: Placed, key: str, hint: str) -> Iterator[Finding]:
    value = placed.value.get(key)
    if isinstance(value, str) and not value.strip():
        yield RULE.finding(f"{quoted(key)} is blank", pointer=placed.pointer + step(key), hint=hint)


RULE = Rule(name="blank-text", code="S126", level="warning", check=check)
