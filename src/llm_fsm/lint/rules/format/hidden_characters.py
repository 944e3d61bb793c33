"""Characters that nobody sees."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.texts import all_joined, every_text
from llm_fsm.lint.rule import lint_rule

# Joiners (200c, 200d) and direction marks (200e, 200f) belong to the writing of many languages and to emoji.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2060\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_FROM_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufefc]")
_TURNS = re.compile("[\u202a-\u202c\u2066-\u2069]")
"""Marks that texts of right-to-left scripts need around words of other scripts."""
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007f]+")


@lint_rule("S125", "warning")
def hidden_characters(document: Document) -> Iterator[Finding]:
    """A text has characters that nobody sees: control characters, marks that turn the direction, blanks without width.

    Why it is bad:
    What a reader sees is not what the model and the conditions read: two values look equal and are not, and a line
    can be shown in another order than it is in.

    Example:
        "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"==": [{"var": "tier"}, "gold\\u200b"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Take them out; the message says which they are.
    """
    # One finding a text.
    if _HIDDEN.search(all_joined(document)) is None:
        return
    for pointer, text, is_key in every_text(document):
        if text.isascii() and text.isprintable():
            continue
        plain = _TURNS.sub("", text) if _FROM_RIGHT.search(text) else text
        found = _HIDDEN.search(_FLAG.sub("", plain))
        if found is not None:
            what = "this name" if is_key else "this text"
            message = f"{what} has the hidden character U+{ord(found[0]):04X}"
            yield hidden_characters.finding(message, pointer=pointer, hint="take it out")
