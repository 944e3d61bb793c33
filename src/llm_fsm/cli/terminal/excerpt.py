"""Findings with the source line that they are about and a caret below it, in colours on a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from llm_fsm._json import TextMap
from llm_fsm._text import visible
from llm_fsm.cli.terminal.console import Line, has_rich, is_screen, of
from llm_fsm.errors import Finding
from llm_fsm.lint.facts.suggestions import route

_LEVELS: TextMap = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[\w.+-]+|\S')
_WIDEST = 100
"""Characters of a source line that are shown at most."""
_NARROWEST = 30
_MARGIN = 10
"""Characters beside a source line."""


def report(findings: Sequence[Finding], source: Callable[[str], str | None]) -> Iterator[Line]:
    """Yield the lines of a report. `source` returns the text of a file, or None if there is none to
    show.
    """
    texts = {}
    width = _width()
    for finding in findings:
        file = finding.file or ""
        if file not in texts:
            texts[file] = (source(file) or "").split("\n")
        yield _head(finding)
        if finding.path:
            yield [(f"    path: {route(finding.path)}", "")]
        if (
            finding.line is not None
            and finding.column is not None
            and finding.line <= len(texts[file])
        ):
            yield from _excerpt(texts[file][finding.line - 1], finding.line, finding.column, width)


def _width() -> int:
    """Return the characters of a source line that are shown; elsewhere than on a terminal always
    the same.
    """
    return (
        min(_WIDEST, max(_NARROWEST, of(sys.stdout).width - _MARGIN))
        if is_screen(sys.stdout)
        else _WIDEST
    )


def _head(finding: Finding) -> Line:
    """Divide the line that `str(finding)` is into pieces."""
    line = str(finding)
    place, mark, rest = line.partition(f": {finding.level}: ")
    tail = f" ({finding.name} {finding.code})"
    words = rest.removesuffix(tail)
    return [
        (place, "bold"),
        (": ", ""),
        (mark[2:-2], _LEVELS[finding.level]),
        (": ", ""),
        (words, ""),
        (tail, "dim"),
    ]


def _excerpt(line: str, number: int, column: int, width: int) -> Iterator[Line]:
    indent = len(line) - len(line.lstrip())
    start = (
        max(indent, column - 1 - width // 2)
        if len(line) - indent > width
        else min(indent, column - 1)
    )
    shown = line[start : start + width].rstrip()
    at = column - 1 - start
    found = _TOKEN.match(shown, at)
    marked = max(1, found.end() - at if found else 1)
    left, right = "…" if start > indent else "", "…" if start + width < len(line.rstrip()) else ""
    before, token = (
        visible(part.replace("\t", " ")) for part in (shown[:at], shown[at : at + marked])
    )
    before = left + before
    text = left + shown.replace("\t", " ") + right
    margin = f"{number:>5} "
    yield [(f"{margin}| ", "blue"), (text, "")]
    yield [
        (f"{' ' * len(margin)}| ", "blue"),
        (" " * _cells(before), ""),
        ("^" * max(1, _cells(token)), "bold red"),
    ]


def _cells(text: str) -> int:
    """Return the width of a text in cells of a terminal, or its characters if rich is missing."""
    if not has_rich():
        return len(text)
    cells: int = import_module("rich.cells").cell_len(text)
    return cells
