"""Changes to a JSON text that keep comments, order and white space."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llm_fsm.definition.json_source import Member

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters from `start` to `end` of a text by `text`."""

    start: int
    end: int
    text: str

    def apply(self, whole: str) -> str:
        """Return the text after the change."""
        return whole[: self.start] + self.text + whole[self.end :]


def line_start(text: str, offset: int) -> int:
    """Return the offset at which the line of an offset begins."""
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


def is_first_on_line(text: str, offset: int) -> bool:
    """Return true if only blanks precede an offset on its line, and it is not the first line."""
    begin = line_start(text, offset)
    return begin > 0 and not text[begin:offset].strip(" \t")


def removal(text: str, member: Member) -> Edit:
    """Return the edit that removes a member with the comma behind it, and its line if nothing else
    is on it.
    """
    end = member.end if member.comma is None else member.comma + 1
    behind = text[end:].lstrip(" \t")
    end = len(text) - len(behind)
    line_end = _LINE_END.match(behind)
    if line_end is not None and is_first_on_line(text, member.start):
        return Edit(line_start(text, member.start), end + line_end.end(), "")
    return Edit(member.start, end, "")
