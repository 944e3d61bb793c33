"""Thoughts that a model writes before its reply, between the marks of its template."""

from __future__ import annotations

import re

_TAGS = ("<think>", "<thinking>", "<thought>", "<reasoning>", "<seed:think>", "[think]", "◁think▷")
_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL


def _end(tag: str) -> str:
    return f"{tag[0]}/{tag[1:]}"


def _thought(tag: str) -> str:
    """Return a pattern for a whole thought."""
    return f"{re.escape(tag)}.*?{re.escape(_end(tag))}"


_CLOSINGS = tuple(map(_end, _TAGS))

OPENING = "(" + "|".join(map(re.escape, _TAGS)) + ")"
"""A pattern for the beginning of a thought. Use it with IGNORECASE and ASCII."""

ENDS = {tag: re.compile(re.escape(_end(tag)), _FLAGS) for tag in _TAGS}
"""The end of a thought, by its beginning in lower case."""

LONGEST_TAG = max(map(len, _CLOSINGS))
_OPENING = re.compile(OPENING, _FLAGS)
ANY_END = re.compile("|".join(map(re.escape, _CLOSINGS)), _FLAGS)
_LEADING = re.compile(r"(?:\s*(?:" + "|".join(map(_thought, _TAGS)) + r"))+\s*", _FLAGS)


def unthought(text: str) -> str:
    """Return a text without the whole thoughts that it begins with."""
    thoughts = _LEADING.match(text)
    return text if thoughts is None else text[thoughts.end() :]


def after_thoughts(text: str) -> str:
    """Return the text behind a model's thoughts.

    If the prompt had begun a thought, only its end is in the text. So everything before an end
    goes, up to the last object.
    """
    text = unthought(text)
    last_object = text.rfind("{")
    start = 0
    end = ANY_END.search(text, start)
    while end is not None and end.end() <= last_object:
        opening = _OPENING.search(text, start, end.start())
        if opening is not None and "{" in text[start : opening.start()]:
            break  # an object precedes this thought, which is about it
        start = end.end()
        end = ANY_END.search(text, start)
    return text[start:]


def may_begin(text: str) -> bool:
    """Return true for a text that is the beginning of the mark of a thought, and no more."""
    return any(tag.startswith(text.lower()) for tag in _TAGS)
