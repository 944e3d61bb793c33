"""A table on standard output. Its head is bold on a terminal, and a terminal that is too narrow breaks its lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module

from llm_fsm.cli.terminal import escape as printing

_UNLIMITED = 100_000


def show(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> None:
    """Write a table.

    Args:
        head: The names of the columns; those of `numbers` are aligned to the right.
        rows: The cells of each line.
        numbers: Indexes of columns.
    """
    console = import_module("rich.console").Console(width=_UNLIMITED, highlight=False)
    text = import_module("rich.text").Text
    right = set(numbers)
    table = import_module("rich.table").Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(head):
        align = "right" if index in right else "left"
        table.add_column(text(name), justify=align, no_wrap=True)
    for row in rows:
        table.add_row(*(text(printing.one_line(cell)) for cell in row))
    with console.capture() as captured:
        console.print(table)
    printing.out("\n".join(line.rstrip() for line in captured.get().splitlines()))
