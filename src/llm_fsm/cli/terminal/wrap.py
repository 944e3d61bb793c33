"""A reply on a terminal that is written as it comes, its lines broken between words and not within them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from rich.cells import cell_len

from llm_fsm.cli.terminal import escape as printing

_PARTS = re.compile("\n|[^\\S\n\u00a0\u202f]+|[\\S\u00a0\u202f]+")
_LONG = 24
"""Cells that hardly any word needs beyond those that have come."""
_TAB = 8


class Words:
    """A reply with an empty line before and after it. `width`: the cells of a line, as the terminal is now.

    A word that may not fit is written when it is whole; where a script has no spaces, the terminal breaks lines.
    """

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._begun = False
        self._held = ""
        self._column = 0
        self._within = False

    def say(self, piece: str) -> None:
        """Write the next piece."""
        text = self._held + piece
        self._held = "\r" if text.endswith("\r") else ""  # half of a line break, perhaps
        *parts, last = _PARTS.findall(printing.words(text.removesuffix(self._held))) or [""]
        shown = "".join(("" if self._begun else "\n", *map(self._placed, parts)))
        if not self._held and self._may_grow(last):
            self._held = last
        else:
            shown += self._placed(last)
        self._write(shown)
        self._begun = True

    def end(self) -> None:
        """The reply is over, or breaks off; nothing where there was none."""
        if self._begun:
            self._write(self._placed(printing.words(self._held)) + "\n")
        self._begun, self._held, self._column, self._within = False, "", 0, False

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def _may_grow(self, part: str) -> bool:
        """True for the beginning of a word that may not fit, where it is known where lines may be broken."""
        cells, width = cell_len(part), self._width()
        known = part != "" and not part.isspace() and cells == len(part) and cells <= width
        return known and not self._within and self._column + cells + _LONG > width

    def _placed(self, part: str) -> str:
        """A part with what stands before it in its line, or in place of it."""
        if not part:
            return part
        width, cells = self._width(), cell_len(part)
        if part == "\n":
            self._column, self._within = 0, False
            return part
        if part.isspace():
            self._within = False
            cells = sum(_TAB - self._column % _TAB if char == "\t" else 1 for char in part)
            fits = self._column + cells <= width
            self._column = min(self._column + cells, width)
            return part if fits else ""
        breaks = 0 < self._column < self._column + cells > width >= cells == len(part) and not self._within
        self._column = cells if breaks else self._column + cells
        if self._column > width:
            self._column %= width
        self._within = True
        return f"\n{part}" if breaks else part
