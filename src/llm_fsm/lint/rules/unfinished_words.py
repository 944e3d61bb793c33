"""A text is a note of its author to write it later.

Why it is bad:
The model reads the note, or the user does.

Example:
    "states": {"hello": {"purpose": "TODO: what happens here?"}}

Fix:
Write the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted
from llm_fsm.lint.subject import Subject
from llm_fsm.lint.words import replies, texts

_NOTE = re.compile(
    r"^\s*(?:TODO|FIXME|TBD|XXX)\b(?! list)|\b(?:TODO|FIXME):|\b[Ll]orem ipsum\b", re.MULTILINE
)


def check(subject: Subject) -> Iterator[Finding]:
    """Look for the usual marks."""
    for pointer, text in (*texts(subject), *replies(subject)):
        found = _NOTE.search(text)
        if found is not None:
            message = f"{quoted(found[0].strip())} stands where words for the conversation belong"
            yield RULE.finding(message, pointer=pointer, hint="write the text")


RULE = Rule(name="unfinished-words", code="W409", level="warning", check=check)
