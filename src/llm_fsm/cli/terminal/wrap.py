"""A reply on a terminal that is written as it comes, word by word, its lines broken between words."""

from __future__ import annotations

import re
from collections.abc import Callable

from rich.cells import cell_len

from llm_fsm.cli.terminal import console, escape

_PARTS = re.compile("\r?\n|\r|[^\\S\r\n\u00a0\u202f]+|[\\S\u00a0\u202f]+")
_TAB = "    "


class Words:
    """A reply with an empty line before and after it. `width`: the cells of a line, as the terminal
    is now.

    A word is written when it is whole. Characters that are wide, and scripts without spaces, are
    written at once. The terminal breaks their lines, and those of words that are longer than a
    line.
    """

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._begun = False
        self._held = ""
        self._column = 0

    def say(self, piece: str) -> None:
        """Write the next piece, up to its last word."""
        *whole, self._held = _PARTS.findall(self._held + piece) or [""]
        if not self._held.isspace() and cell_len(self._held) != len(self._held):
            whole, self._held = [*whole, self._held], ""
        console.piece(("" if self._begun else "\n") + "".join(map(self._placed, whole)))
        self._begun = True

    def end(self) -> None:
        """The reply is over, or breaks off; nothing where there was none."""
        if self._begun:
            console.piece(self._placed(self._held) + "\n")
        self._begun, self._held, self._column = False, "", 0

    def _placed(self, part: str) -> str:
        """Return a part with the line break before it, or without the blanks that end a line."""
        text = escape.words(part).replace("\t", _TAB)
        width, cells = self._width(), cell_len(text)
        if text == "\n":
            self._column = 0
            return text
        if text.isspace() and self._column + cells > width:
            self._column = width
            return ""
        breaks = (
            0 < self._column < self._column + cells > width >= cells == len(text)
            and not text.isspace()
        )
        self._column = cells if breaks else self._column + cells
        if self._column > width:
            self._column %= width
        return f"\n{text}" if breaks else text
