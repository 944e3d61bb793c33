"""A declared key appears nowhere else in the file.

Why it is bad:
Nothing asks for it, and nothing reads it: no state, no condition, no reply, no text. It takes room in every prompt.

Example:
    "context_schema": {"type": "object", "properties": {"name": {"type": "string"}, "fax": {"type": "string"}}},
    "states": {"hello": {"purpose": "Ask for the name", "required_context_keys": ["name"],
                         "transitions": [{"target_state": "bye"}]}, "bye": {"purpose": "Say goodbye"}}

Fix:
Take it out, or collect it where it is needed. If only the program reads it, leave it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.data_flow import flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import texts
from llm_fsm.lint.rule import Rule


def check(subject: Subject) -> Iterator[Finding]:
    """Look for keys that nothing names; words may name a key with blanks, or by its title."""
    keys = subject.keys
    if not keys:
        return
    ways = flow(subject)
    used = ways.read | ways.collected.keys() | ways.outputs.keys()
    unused = [
        key
        for key, schema in keys.items()
        if key not in used and subject.source_of(key) != "host" and schema.get("x-secret") is not True
    ]
    words = " ".join(dict.fromkeys(text for _, text in texts(subject))).casefold() if unused else ""
    for key in unused:
        title = keys[key].get("title")
        names = [key, key.replace("_", " "), *([title] if isinstance(title, str) else [])]
        if not any(name.casefold() in words for name in names):
            yield RULE.finding(
                f"the key {quoted(key)} appears nowhere else",
                pointer="/context_schema/properties" + step(key),
                hint="collect it in a state, or take it out",
            )


RULE = Rule(name="unused-key", code="K316", level="info", check=check, at_key=True, needs_form=True)
