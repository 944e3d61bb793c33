"""`context_schema` declares no key.

Why it is bad:
With a `context_schema` only its keys can be written, so nothing can be collected. Mostly the keys stand
beside `properties` and not in it.

Example:
    "context_schema": {"email": {"type": "string"}}, "states": {"hello": {"purpose": "Ask for the address"}}

Fix:
Write `{"type": "object", "properties": {"email": {"type": "string"}}}`.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.rule import Rule

_FRAME = frozenset({"$schema", "type", "title", "description", "$defs", "properties"})


def check(subject: Subject) -> Iterator[Finding]:
    """Look for something that is no frame where no key is declared."""
    whole = subject.root.value.get("context_schema")
    if not isinstance(whole, dict) or whole.get("properties") or not whole.keys() - _FRAME:
        return
    if (subject.keys or {}).keys() <= whole.keys():
        yield RULE.finding(
            '"context_schema" declares no keys under "properties": nothing can be collected',
            pointer="/context_schema",
            hint='write {"type": "object", "properties": {"key": {"type": "string"}}}',
        )


RULE = Rule(name="no-keys", code="K304", level="warning", check=check)
