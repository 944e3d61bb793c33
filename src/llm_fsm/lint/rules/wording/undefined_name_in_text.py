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
from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.facts.texts import known_names, near_names, texts
from llm_fsm.lint.rule import Rule

# Names in back-quotes or braces, and words that look like names because they have an underscore.
_NAME = re.compile(
    r"`([A-Za-z][A-Za-z0-9_.-]{3,63})`|\{\{\s*([A-Za-z][A-Za-z0-9_]{3,63})|\b([A-Za-z][A-Za-z0-9]*_\w{2,63})\b"
)

_SETTING = re.compile(
    r"\b(?:set|store|save|extract|record|write|put)\s+(?:(?:it|this|as|in|to|into|under|the|context|key|value)\s+){0,4}$",
    re.IGNORECASE,
)
"""Words right before a name that tell the model to set it."""


def check(subject: Subject) -> Iterator[Finding]:
    """Look for names that are nearly known."""
    known = known_names(subject)
    names = near_names(subject)
    for pointer, text in texts(subject):
        if "_" not in text and "`" not in text and "{" not in text:
            continue
        for match in _NAME.finditer(text):
            name = next(group for group in match.groups() if group)
            if not known.keys().isdisjoint((name, name.split(".", 1)[0], _before_ending(name))):
                continue
            meant = names.meant(name)
            if meant is not None:
                yield RULE.finding(
                    f"{quoted(name)} is no key, state or tool",
                    pointer=pointer,
                    hint=f"did you mean the {known[meant]} {quoted(meant)}?",
                )
            elif subject.keys is not None and match[1] and _is_set(text[: match.start()][-60:]):
                yield RULE.finding(
                    f"{quoted(name)} is to be set, and is no key: what is said there is kept aside, under \"_extra\"",
                    pointer=pointer,
                    hint='declare it in "context_schema"',
                )


def _before_ending(name: str) -> str:
    """A name without the ending that a language of another script writes right after it, as Korean does."""
    return name[: next((place for place, letter in enumerate(name) if not letter.isascii()), None)]


def _is_set(before: str) -> bool:
    return _SETTING.search(before) is not None


RULE = Rule(name="unknown-name-in-words", code="W404", level="warning", check=check)
