"""Lines with styles, which a terminal shows and everything else leaves out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module

from llm_fsm.cli.terminal import escape as printing

Parts = list[tuple[str, str]]
"""A line as pieces, each with its style in words of rich: `bold red`."""


_HANGING = 3


def show(lines: Iterable[Parts], *, wrapped: bool = False) -> None:
    """Write lines to standard output: with styles on a terminal, without colours if NO_COLOR is set.

    Args:
        lines: The lines; none of them has a line break in it.
        wrapped: On a terminal, break long lines between words, and indent what follows.
    """
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        printing.out("\n".join(plain(line) for line in lines))
        return
    console = import_module("rich.console").Console(highlight=False, markup=False, emoji=False)
    text = import_module("rich.text").Text
    for line in lines:
        shown = text.assemble(*line)
        indent = len(shown.plain) - len(shown.plain.lstrip())
        if wrapped and indent + _HANGING < console.width:
            first, *rest = shown[indent:].wrap(console, console.width - indent - _HANGING) or [text()]
            for part in (first, *rest):
                part.rstrip()
            shown = text("\n" + " " * (indent + _HANGING)).join([text(" " * indent) + first, *rest])
        console.print(shown, soft_wrap=True)


def plain(line: Parts) -> str:
    """Return a line without its styles."""
    return "".join(text for text, _ in line)
