"""Thoughts that a model writes before its reply, between the marks of its template."""

from __future__ import annotations

import re

_TAGS = ("<think>", "<thinking>", "<thought>", "<reasoning>", "<seed:think>", "[think]", "◁think▷")
_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL


def _end(tag: str) -> str:
    return f"{tag[0]}/{tag[1:]}"


OPENING = "(" + "|".join(map(re.escape, _TAGS)) + ")"
"""A pattern for the beginning of a thought. Use it with IGNORECASE and ASCII."""

ENDS = {tag: re.compile(re.escape(_end(tag)), _FLAGS) for tag in _TAGS}
"""The end of a thought, by its beginning in lower case."""

LONGEST_TAG = max(map(len, map(_end, _TAGS)))
_OPENING = re.compile(OPENING, _FLAGS)
ANY_END = re.compile("|".join(re.escape(_end(tag)) for tag in _TAGS), _FLAGS)
_LEADING = re.compile(
    r"(?:\s*(?:" + "|".join(f"{re.escape(tag)}.*?{re.escape(_end(tag))}" for tag in _TAGS) + r"))+\s*", _FLAGS
)


def unthought(text: str) -> str:
    """Return a text without the whole thoughts that it begins with."""
    found = _LEADING.match(text)
    return text if found is None else text[found.end() :]


def after_thoughts(text: str) -> str:
    """Return what follows a model's thoughts, also those that its prompt had begun: only their end is in the text."""
    text = unthought(text)
    at, last = 0, text.rfind("{")
    while (end := ANY_END.search(text, at)) is not None and end.end() <= last:
        opening = _OPENING.search(text, at, end.start())
        if opening is not None and "{" in text[at : opening.start()]:
            break  # a thought about what stands before it
        at = end.end()
    return text[at:]


def may_begin(text: str) -> bool:
    """Return true for a text that is the beginning of the mark of a thought, and no more."""
    return any(tag.startswith(text.lower()) for tag in _TAGS)
