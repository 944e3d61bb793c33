"""Words for the model name a key, state or tool that does not exist, but nearly does.

Why it is bad:
The model writes the value under the name that it is told, where nothing looks for it.

Example:
    "states": {"hello": {"purpose": "Ask", "instructions": "Store the address as `emial_address`.",
                         "required_context_keys": ["email_address"], "transitions": [{"target_state": "bye"}]},
               "bye": {"purpose": "Say goodbye"}}

Fix:
Correct the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from llm_fsm.findings import Finding
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.spelling import quoted, slip
from llm_fsm.lint.subject import Subject
from llm_fsm.lint.words import known_names, texts

# Names in back-quotes or braces, and words that look like names because they have an underscore.
_NAME = re.compile(
    r"`([A-Za-z][A-Za-z0-9_.-]{3,63})`|\{\{\s*([A-Za-z][A-Za-z0-9_]{3,63})|\b([A-Za-z][A-Za-z0-9]*_\w{2,63})\b"
)
_MOST = 40_000
"""Pairs of names that are compared in one file."""


class _Near:
    """Known names by length, for as many comparisons as are worth the time."""

    def __init__(self, known: Iterable[str]) -> None:
        self.left = _MOST
        self.by_length: dict[int, list[str]] = {}
        for name in known:
            self.by_length.setdefault(len(name), []).append(name)
        self.seen: dict[str, str | None] = {}

    def meant(self, name: str) -> str | None:
        """The known name that differs from this one by a slip of the fingers."""
        if self.left <= 0:
            return self.seen.get(name)
        if name not in self.seen:
            near = [one for size in (-1, 0, 1) for one in self.by_length.get(len(name) + size, ())]
            self.seen[name] = next((one for one in near if slip(name, one)), None)
            self.left -= len(near)
        return self.seen[name]


def check(subject: Subject) -> Iterator[Finding]:
    """Look for names that are nearly known."""
    known = known_names(subject)
    names = _Near(known)
    for pointer, text in texts(subject):
        if "_" not in text and "`" not in text and "{" not in text:
            continue
        for match in _NAME.finditer(text):
            name = next(group for group in match.groups() if group)
            if name in known or name.split(".", 1)[0] in known:
                continue
            meant = names.meant(name)
            if meant is not None:
                yield RULE.finding(
                    f"{quoted(name)} is no key, state or tool",
                    pointer=pointer,
                    hint=f"did you mean the {known[meant]} {quoted(meant)}?",
                )


RULE = Rule(name="unknown-name-in-words", code="W404", level="warning", check=check)
