"""Words for the model hold a placeholder, which is filled in fixed replies only.

Why it is bad:
The model reads the placeholder as it stands. It often guesses what is meant, as it sees the context; it may
also repeat the braces to the user.

Example:
    "states": {"hello": {"purpose": "Greet {{ name }} by name"}}

Fix:
Name the key in words: the values are shown to the model anyway. Or make the text a fixed `reply`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import texts
from llm_fsm.lint.rule import Rule

_PLACEHOLDER = re.compile(r"\{\{[^{}\n]{1,80}\}\}|\{%[^{}\n]{1,80}%\}")


def check(subject: Subject) -> Iterator[Finding]:
    """Look for double braces in everything that only the model reads; one finding a text."""
    for pointer, text in texts(subject):
        found = _PLACEHOLDER.search(text)
        if found is not None:
            yield RULE.finding(
                f"{quoted(found[0])} is not filled in here: the model reads it as it stands",
                pointer=pointer,
                hint='name the key in words, or use a fixed "reply"',
            )


RULE = Rule(name="template-in-words", code="W405", level="info", check=check)
