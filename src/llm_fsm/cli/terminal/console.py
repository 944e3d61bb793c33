"""The streams of the command line: everything that a person or a program reads is written here.

Each function shows control characters as escapes, so no text from outside can move the cursor. A
line is a text, or pieces with a style each. A terminal shows the styles, and leaves them out if
NO_COLOR is set. Everything else, and a terminal that is dumb, gets the text alone. rich and
prompt_toolkit are imported when something needs them.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import Any, TextIO, cast

import click

from llm_fsm._text import visible
from llm_fsm.cli.terminal.escape import as_json, words

PROGRAM = "llm-fsm"
DIM = "dim"
_Parts = Sequence[tuple[str, str]]
Line = str | _Parts
"""One line: a text, or pieces, each with its style in words of rich: `bold red`."""

_HANGING = 3
_UNLIMITED = 100_000


def program() -> str:
    """Return what a user types to start this program again: its name, or its path where PATH lacks
    it.
    """
    known = any(os.access(os.path.join(place, PROGRAM), os.X_OK) for place in os.get_exec_path())
    started = sys.argv[0]
    if known or os.path.basename(started) != PROGRAM or not os.path.isfile(started):
        return PROGRAM
    shown = os.path.relpath(started)
    return shown if not shown.startswith(os.pardir) else started


def prepare_streams() -> None:
    """Make standard input, output and error usable whatever the caller left of them.

    A stream that is closed becomes one that is empty. A file or a pipe is UTF-8, for the program
    that reads it. A console keeps its encoding, and characters that it lacks come out as escapes.
    """
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                encoding=stream.encoding if stream.isatty() else "utf-8", errors="backslashreplace"
            )


def _nowhere(mode: str) -> TextIO:
    return cast(TextIO, open(os.devnull, mode, encoding="utf-8"))


def out(*lines: Line, wrapped: bool = False) -> None:
    """Write lines to standard output. `wrapped`: a terminal breaks long ones between words, and
    indents the rest.
    """
    _write(sys.stdout, [_parts(line, "") for line in lines], wrapped=wrapped)


def err(*lines: Line, style: str = "", wrapped: bool = False) -> None:
    """Write lines to standard error. `style`: that of each line which is a text."""
    _write(sys.stderr, [_parts(line, style) for line in lines], wrapped=wrapped)


def note(text: str, *, to_copy: bool = False) -> None:
    """Tell the user something about the program on standard error. `to_copy`: a terminal must not
    break the line.
    """
    err(f"{PROGRAM}: {text}", style=DIM, wrapped=not to_copy)


def error(text: object) -> None:
    """Tell the user what is wrong, in one line on standard error."""
    err([(f"{PROGRAM}: ", ""), ("error", "bold red"), (f": {text}", "")])


def text(shown: str, to: TextIO | None = None, *, wrapped: bool = False) -> None:
    """Write a text whose line breaks and tabs stay, to standard output or to the stream that stands
    for it.
    """
    _write(
        sys.stdout if to is None else to,
        [[(line, "")] for line in words(shown).split("\n")],
        wrapped=wrapped,
    )


def json(document: object, *, indent: int | None = 2, to: TextIO | None = None) -> None:
    """Write a document as JSON; `indent` None: in one line."""
    text(as_json(document, indent), to)


def piece(shown: str, to: TextIO | None = None) -> None:
    """Write a part of a text, at once."""
    stream = sys.stdout if to is None else to
    stream.write(words(shown))
    stream.flush()


def table(
    rows: Iterable[Sequence[str]],
    head: Sequence[str] = (),
    *,
    right: Collection[int] = (),
    style: str = "",
    to: TextIO | None = None,
) -> None:
    """Write cells in columns. A terminal that is too narrow breaks them between words, but for the
    first column.

    Args:
        rows: The cells of each line.
        head: The names of the columns, if they are shown.
        right: Indexes of the columns that are aligned to the right.
        style: The style of all.
        to: The stream; None: standard output.
    """
    stream = sys.stdout if to is None else to
    cells = [
        [import_module("rich.text").Text(visible(cell)) for cell in row] for row in (head, *rows)
    ]
    made = import_module("rich.table").Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=bool(head)
    )
    for index in range(max(map(len, cells))):
        name = cells[0][index] if head else ""
        made.add_column(
            name, justify="right" if index in right else "left", no_wrap=index == 0, overflow="fold"
        )
    for row in cells[1:]:
        made.add_row(*row)
    if is_screen(stream):
        of(stream).print(made, style=style)
        return
    shown = import_module("rich.console").Console(file=io.StringIO(), width=_UNLIMITED)
    shown.print(made)
    text("\n".join(line.rstrip() for line in shown.file.getvalue().splitlines()), stream)


def ask(question: str, choices: Sequence[str] = ()) -> str:
    """Ask on the terminal, and return the line that is typed.

    Args:
        question: The question.
        choices: Words that the Tab key completes.

    Raises:
        EOFError: The input ends.
    """
    known = import_module("prompt_toolkit.completion").WordCompleter(
        list(choices), ignore_case=True
    )
    above = import_module("prompt_toolkit.shortcuts").CompleteStyle.READLINE_LIKE
    prompt = import_module("prompt_toolkit").prompt
    return str(
        prompt(
            visible(f"{question}: "),
            completer=known,
            complete_style=above,
            complete_while_typing=False,
        )
    )


def confirmed(question: str) -> bool:
    """Ask on standard error for yes or no."""
    return click.confirm(visible(question), err=True)


@contextmanager
def working(status: Callable[[], str]) -> Iterator[Callable[[], None]]:
    """Show on standard error that something is under way: a spinner beside a text that changes.

    Args:
        status: Returns the text as it is now.

    Yields:
        A function that takes both away before the end.
    """
    spinner = import_module("rich.spinner").Spinner("dots")
    styled = import_module("rich.text").Text

    def shown() -> Any:
        spinner.update(text=styled(visible(status()), style=DIM))
        return spinner

    live = import_module("rich.live").Live
    with live(
        get_renderable=shown, console=of(sys.stderr), refresh_per_second=8, transient=True
    ) as made:
        yield made.stop


def is_screen(stream: TextIO) -> bool:
    """Return True for a terminal that can do more than print, and is given more by rich."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and has_rich()


def has_rich() -> bool:
    """Return true if rich is installed; the checker alone comes without it, and prints plainly."""
    return find_spec("rich") is not None


def of(stream: TextIO) -> Any:
    """Return rich's console of a stream, the same one each time: lines stand above what `working`
    shows.
    """
    return _console(getattr(stream, "rich_proxied_file", stream))


@lru_cache(2)
def _console(stream: TextIO) -> Any:
    colours = None if os.environ.get("NO_COLOR") else "auto"
    made = import_module("rich.console").Console
    return made(file=stream, color_system=colours, highlight=False, markup=False, emoji=False)


def plain(line: Line) -> str:
    """Return a line without its styles."""
    return "".join(part for part, _ in _parts(line, ""))


def _parts(line: Line, style: str) -> _Parts:
    return [
        (visible(part), look) for part, look in ([(line, style)] if isinstance(line, str) else line)
    ]


def _write(stream: TextIO, lines: Sequence[_Parts], *, wrapped: bool) -> None:
    """Write lines that are safe to show, at once, with rich only where a terminal shows them in
    another way.
    """
    parts = chain.from_iterable(lines)
    if not is_screen(stream) or not (wrapped or any(look for _, look in parts)):
        stream.write("".join("".join((*(part for part, _ in line), "\n")) for line in lines))
        stream.flush()
        return
    screen, styled = of(stream), import_module("rich.text").Text
    for line in lines:
        made = styled.assemble(*line)
        screen.print(_hanging(made, screen) if wrapped else made, soft_wrap=True)


def _hanging(line: Any, screen: Any) -> Any:
    """Break a line between words; what follows stands below its second column, or is indented."""
    begin = re.match(r"( *)(\S+ {2,})?", line.plain)
    if begin is None or line.cell_len <= screen.width:
        return line
    indent = begin.end() if begin[2] else begin.end() + _HANGING
    if indent >= screen.width // 2:
        return line
    first = line.wrap(screen, screen.width)[0]
    first.rstrip()
    rest = line[len(first.plain) :]
    parts = rest[len(rest.plain) - len(rest.plain.lstrip()) :].wrap(screen, screen.width - indent)
    for part in parts:
        part.rstrip()
    return type(line)("\n" + " " * indent).join([first, *parts])
