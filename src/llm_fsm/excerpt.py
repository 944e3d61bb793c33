"""The beginning of a text that is too long, and how that is told from a whole one."""

from __future__ import annotations

TRUNCATED = "... [truncated]"


def cut(text: str, chars: int) -> str:
    """The first `chars` characters of a text, marked when something is missing."""
    return text if len(text) <= chars else text[:chars] + TRUNCATED
