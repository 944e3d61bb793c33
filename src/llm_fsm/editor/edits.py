"""The edits that lead from one text to another, by lines, for a page that keeps its own copy."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from llm_fsm.editor.checked import units
from llm_fsm.editor.models import TextEdit


def edits_between(old: str, new: str) -> list[TextEdit]:
    """Return edits, in order, that turn a text into another one. They are as small as lines allow.

    Args:
        old: The text before.
        new: The text after.

    Returns:
        The edits, with offsets of the old text in UTF-16 code units.
    """
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head, tail = _alike(before, after)
    starts = list(accumulate(map(units, before), initial=0))
    ours, theirs = before[head : len(before) - tail], after[head : len(after) - tail]
    found = []
    for tag, low, high, first, last in SequenceMatcher(None, ours, theirs).get_opcodes():
        if tag != "equal":
            edit = _within("".join(ours[low:high]), "".join(theirs[first:last]), starts[head + low])
            found.append(edit)
    return found


def _alike(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many items both begin with, and how many of the others both end with."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _within(old: str, new: str, at: int) -> TextEdit:
    """Return the edit of some lines, without the characters that both begin and end with."""
    head, tail = _alike(old, new)
    start = at + units(old[:head])
    end = start + units(old[head : len(old) - tail])
    return TextEdit(start=start, end=end, text=new[head : len(new) - tail])
