"""The beginning of a text or of a list that is too long, and how that is told from a whole one."""

from __future__ import annotations

from collections.abc import Iterable

TRUNCATED = "... [truncated]"


def cut(text: str, chars: int) -> str:
    """The first `chars` characters of a text, marked when something is missing."""
    return text if len(text) <= chars else text[:chars] + TRUNCATED


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Names for a message, the first `limit` of them."""
    every = list(names)
    shown = ", ".join(every[:limit])
    return f"{shown}, … ({len(every)} in all)" if len(every) > limit else shown
