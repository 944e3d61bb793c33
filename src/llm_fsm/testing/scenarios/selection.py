"""Which cases are meant: files below a path, and expressions such as `booking and not slow` over names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from llm_fsm.testing.scenarios.loader import ENDING

_WORD = re.compile(r"\s*(\(|\)|[^\s()]+)")
SKIPPED = frozenset({"node_modules", "__pycache__"})
"""Folders in which nobody looks for tests, besides those that begin with a dot."""

Wanted = Callable[[str], bool]


class NoSuchPathError(ValueError):
    """A path that was named does not exist."""


class ExpressionError(ValueError):
    """An expression over names is none."""


def files(paths: Iterable[str]) -> list[str]:
    """The files of tests that these paths stand for, each once: files as named, and all below a folder.

    Raises NoSuchPathError.
    """
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            found.update(dict.fromkeys(_below(path)))
        elif os.path.lexists(path):
            found[path] = None
        else:
            raise NoSuchPathError(f"{path}: there is no such file or folder")
    return list(found)


def _below(folder: str) -> Iterable[str]:
    unread: list[str] = []  # given, too, so that whoever opens them says what is wrong
    for place, folders, names in os.walk(folder, onerror=lambda error: unread.append(str(error.filename))):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED)
        yield from (
            os.path.normpath(os.path.join(place, name)) for name in sorted(names) if name.endswith(ENDING)
        )
    yield from map(os.path.normpath, unread)


def wanted(expression: str) -> Wanted:
    """The test of an expression: parts of names, joined by `and`, `or`, `not` and parentheses; case does not count.

    Raises ExpressionError.
    """
    words = _WORD.findall(expression)
    if "".join(words) != re.sub(r"\s", "", expression) or not words:
        raise ExpressionError(f"{expression!r} is no expression; write for example: booking and not slow")
    parser = _Parser(words, expression)
    found = parser.either()
    if parser.words:
        raise parser.fault()
    return found


class _Parser:
    """Reads words from the left."""

    def __init__(self, words: list[str], whole: str) -> None:
        self.words = words
        self._whole = whole

    def fault(self) -> ExpressionError:
        place = f"at {self.words[0]!r}" if self.words else "at its end"
        return ExpressionError(f"{self._whole!r} is no expression: something else is needed {place}")

    def took(self, word: str) -> bool:
        if self.words and self.words[0].lower() == word:
            self.words.pop(0)
            return True
        return False

    def either(self) -> Wanted:
        parts = [self.both()]
        while self.took("or"):
            parts.append(self.both())
        return lambda name: any(part(name) for part in parts)

    def both(self) -> Wanted:
        parts = [self.one()]
        while self.took("and"):
            parts.append(self.one())
        return lambda name: all(part(name) for part in parts)

    def one(self) -> Wanted:
        if self.took("not"):
            inner = self.one()
            return lambda name: not inner(name)
        if self.took("("):
            inner = self.either()
            if not self.took(")"):
                raise self.fault()
            return inner
        if not self.words or self.words[0].lower() in ("and", "or", ")"):
            raise self.fault()
        word = self.words.pop(0).lower()
        return lambda name: word in name.lower()
