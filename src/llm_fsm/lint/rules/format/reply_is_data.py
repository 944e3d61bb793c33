r"""A fixed reply is JSON instead of words.

Why it is bad:
A reply is said to the user as it stands; the form of a model's reply belongs to models.

Example:
    "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
               "bye": {"kind": "final", "purpose": "Say goodbye", "reply": "{\"message\": \"Goodbye!\"}"}}

Fix:
Write the words alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import failure_words, replies
from llm_fsm.lint.rule import Rule

_TAGS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)


def check(subject: Subject) -> Iterator[Finding]:
    """Look for replies that are a JSON object or a list of them; templates in them count as words."""
    for pointer, text in (*replies(subject), *failure_words(subject)):
        plain = _TAGS.sub("0", text).strip()
        if plain[:1] in ("{", "[") and plain[-1:] in ("}", "]") and '"' in plain:
            try:
                value = json.loads(plain)
            except ValueError:
                continue
            words = value.get("message") if isinstance(value, dict) else None
            told = isinstance(words, str) and plain == text.strip()
            hint = f"write {quoted(str(words))}" if told else "write the words alone"
            yield RULE.finding("users would read JSON here", pointer=pointer, hint=hint)


RULE = Rule(name="reply-is-data", code="W411", level="warning", check=check)
