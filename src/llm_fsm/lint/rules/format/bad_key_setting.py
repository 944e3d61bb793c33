"""`x-source`, `x-secret` or `x-fast` of a context key has a value that it cannot have.

Why it is bad:
Who may write the key, and whether it must be kept out of prompts, would be guessed.

Example:
    "context_schema": {"type": "object", "properties": {"tier": {"type": "string", "x-source": "hots"}}},
    "states": {"hello": {"purpose": "Greet the user"}}

Fix:
`x-source` is `model`, `host`, `tool` or `answer`; `x-secret` and `x-fast` are true or false.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from llm_fsm._json import step
from llm_fsm._text import nearest
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule

SOURCES = ("model", "host", "tool", "answer")


def check(subject: Subject) -> Iterator[Finding]:
    """Look at the settings of each declared key."""
    for key, schema in (subject.keys or {}).items():
        place = "/context_schema/properties" + step(key)
        source = schema.get("x-source")
        if source is not None and source not in SOURCES:
            shown = source if isinstance(source, str) else json.dumps(source)[:40]
            meant = nearest(shown, SOURCES)
            yield RULE.finding(
                f'"x-source": expected one of {", ".join(SOURCES)}, found {quoted(shown)}',
                pointer=place + "/x-source",
                hint=None if meant is None else f'did you mean "{meant}"?',
            )
        for name in ("x-secret", "x-fast"):
            value = schema.get(name)
            if value is not None and not isinstance(value, bool):
                shown = json.dumps(value, ensure_ascii=False)[:40]
                message = f'"{name}": expected true or false, found {shown}'
                yield RULE.finding(message, pointer=f"{place}/{name}")


RULE = Rule(name="bad-key-setting", code="S116", level="error", check=check)
