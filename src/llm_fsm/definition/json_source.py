"""Read JSON text: its values, and their places in the text.

It reads JSON (RFC 8259), and allows comments and trailing commas. Lines and columns count from 1,
columns in characters. A byte order mark does not count. Places are named by JSON pointers (RFC
6901). Nothing here recurses, so the depth of a text has its own limit.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from typing import Any, Final, NamedTuple

from llm_fsm._json import pointer_of, steps
from llm_fsm._text import nearest
from llm_fsm.errors import hinted

MAX_DEPTH: Final = 200
MAX_DIGITS: Final = 1000

# Possessive quantifiers are broken in CPython 3.11.2. These patterns need none, because their tails
# never fail.
_SKIPPED = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*(?s:.*?)\*/)*")
_TEXT = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<float>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_WORD = re.compile(r"[^\s,:\[\]{}\"/]{1,40}")
_NAMES: Final = {"true": True, "false": False, "null": None}
_OTHER_NAMES: Final = {
    "True": "true",
    "TRUE": "true",
    "False": "false",
    "FALSE": "false",
    "None": "null",
    "NULL": "null",
    "nil": "null",
    "undefined": "null",
    "NaN": "null",
    "Infinity": "null",
    "-Infinity": "null",
}
_OPENERS: Final = frozenset("{[")
_MAY_BE_SKIPPED: Final = frozenset(" \t\r\n/")
_LINE_END = re.compile(r"\r\n|\n|\r")


class Position(NamedTuple):
    """A place in a text, counted from 1. The column counts characters."""

    line: int
    column: int


class Duplicate(NamedTuple):
    """A key that an object already has. `position` is the later one's place, `first` the first
    one's.

    `path` has the keys and indices that lead to the member. The last value counts. `again` and
    `before` are the two members.
    """

    path: tuple[str, ...]
    position: Position
    first: Position
    again: Member
    before: Member

    @property
    def key(self) -> str:
        """The duplicate key."""
        return self.path[-1]

    @property
    def pointer(self) -> str:
        """The JSON pointer of the member."""
        return pointer_of(self.path)


class LineStarts(NamedTuple):
    """The offsets at which a text's lines begin."""

    starts: list[int]

    def position(self, offset: int) -> Position:
        """Return the place of the character at an offset."""
        line = bisect_right(self.starts, offset)
        return Position(line, offset - self.starts[line - 1] + 1)


def lines_of(text: str) -> LineStarts:
    """Return the lines of a text, which end with LF, CR LF or CR."""
    return LineStarts([0, *(end.end() for end in _LINE_END.finditer(text))])


class Member(NamedTuple):
    """A value in a text, and the offsets of its parts. Elements and the root have no key.

    `start` and `key_end`: those of its key; both are the value's own `offset` if it has none.
    `comma`: the one behind it. `inner`: its members, if it is a list or an object.
    """

    key: str
    start: int
    key_end: int
    offset: int
    end: int
    comma: int | None
    inner: Container | None


class Container:
    """A list or an object: its value, and its members that count, in the order of the text.

    `firsts` are the first ones of duplicates. `key`, `start` and `key_end` are those of the current
    member.
    """

    __slots__ = ("closer", "end", "firsts", "key", "key_end", "members", "offset", "start", "value")

    def __init__(self, offset: int, *, is_object: bool) -> None:
        self.value: Any = {} if is_object else []
        self.members: dict[str, Member] = {}
        self.firsts: dict[str, Member] = {}
        self.offset = self.end = offset
        self.closer = "}" if is_object else "]"
        self.key = ""
        self.start = self.key_end = offset


class Scan(NamedTuple):
    """A text's value, and the places of its parts. `duplicates` are in the order of the text."""

    value: Any
    duplicates: tuple[Duplicate, ...]
    lines: LineStarts
    root: Member

    def position(self, pointer: str, *, at_key: bool = False) -> Position:
        """Return the place where the value at a JSON pointer begins, or its key if `at_key` is
        true.

        A value without a key has only the first. For a missing value, it is the place of its
        nearest ancestor.
        """
        way = self.way(pointer)
        exists = len(way) > pointer.count("/")
        return self.lines.position(way[-1].start if at_key and exists else way[-1].offset)

    def way(self, pointer: str) -> list[Member]:
        """Return the values from the root to a pointer, as far as there are any."""
        way = [self.root]
        for key in steps(pointer):
            inner = way[-1].inner
            if inner is None or key not in inner.members:
                break
            way.append(inner.members[key])
        return way


class SourceError(ValueError):
    """The text is no JSON. `message` describes the fault, and `hint` a fix, if there is one.

    `line` and `column` count from 1. The column counts characters.
    """

    def __init__(self, message: str, line: int, column: int, hint: str | None = None) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.hint = hint
        super().__init__(hinted(f"line {line}, column {column}: {message}", hint))


def parse(text: str, *, limit: int | None = None) -> Any:
    """Return the value of a JSON text. Raises SourceError if it is none. `limit`: the most
    characters of the text.
    """
    if limit is not None and len(text) > limit:
        raise SourceError(
            f"the text is too large: {len(text):,} characters, at most {limit:,} are read", 1, 1
        )
    return scan(text).value


def scan(text: str) -> Scan:
    """Return the value of a JSON text with all places. Raises SourceError if it is none."""
    return _Scanner(text.removeprefix("\ufeff")).scan()


class _Scanner:
    """Reads one text. `at` is the offset of the next character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.open: list[Container] = []
        self.duplicates: list[tuple[tuple[str, ...], Member, Member]] = []

    def scan(self) -> Scan:
        value, root = self._document()
        lines = lines_of(self.text)
        duplicates = tuple(
            Duplicate(path, lines.position(again.start), lines.position(first.start), again, first)
            for path, again, first in sorted(self.duplicates, key=lambda found: found[1].start)
        )
        return Scan(value=value, duplicates=duplicates, lines=lines, root=root)

    def _document(self) -> tuple[Any, Member]:
        """Return the text's value and its place. Each complete value goes into the container around
        it.
        """
        while True:
            first = self._next()
            offset = self.at
            inner = None
            if first in _OPENERS:
                complete = not self._member(self._opened(first))
            else:
                value = self._scalar(first)
                complete = not self.open or not self._attach(value, offset, None)
            while complete:
                if self.open:
                    inner = self.open.pop()
                    inner.end = self.at
                    value = inner.value
                    offset = inner.offset
                if not self.open:
                    end = self.at
                    if self._next():
                        raise self._error(
                            "expected the end of the text", hint="a text has one value"
                        )
                    return value, Member("", offset, offset, offset, end, None, inner)
                complete = not self._attach(value, offset, inner)

    def _next(self) -> str:
        """Return the next character that is neither space nor comment; "" at the end."""
        first = self.text[self.at : self.at + 1]
        if first not in _MAY_BE_SKIPPED:
            return first
        found = _SKIPPED.match(self.text, self.at)
        self.at = found.end() if found else self.at
        first = self.text[self.at : self.at + 1]
        if first == "/" and self.text.startswith("/*", self.at):
            raise self._error("the comment has no end", hint='a comment ends with "*/"')
        return first

    def _opened(self, opener: str) -> Container:
        if len(self.open) == MAX_DEPTH:
            raise self._error(f"lists and objects nest deeper than {MAX_DEPTH}")
        container = Container(self.at, is_object=opener == "{")
        self.open.append(container)
        self.at += 1
        return container

    def _scalar(self, first: str) -> Any:
        if first == '"':
            return self._string("a text")
        number = _NUMBER.match(self.text, self.at)
        if number is None:
            return self._name()
        return self._number(number)

    def _member(self, parent: Container) -> bool:
        """Read the key of the next value; return false if the container is closed."""
        first = self._next()
        if first == parent.closer:
            self.at += 1
            return False
        parent.start = parent.key_end = self.at
        if parent.closer == "]":
            parent.key = str(len(parent.value))
            return True
        if first != '"':
            raise self._no_key(parent, first)
        parent.key = self._string("a key")
        parent.key_end = self.at
        if self._next() != ":":
            raise self._error("expected ':' after the key")
        self.at += 1
        return True

    def _attach(self, value: Any, offset: int, inner: Container | None) -> bool:
        """Put a value into the innermost open container, then continue as `_member`."""
        parent = self.open[-1]
        key = parent.key
        if parent.closer == "}":
            parent.value[key] = value
        else:
            parent.value.append(value)
        end = self.at
        following = self._next()
        comma = self.at if following == "," else None
        member = Member(key, parent.start, parent.key_end, offset, end, comma, inner)
        if key in parent.members:
            first = parent.firsts.setdefault(key, parent.members.pop(key))
            path = tuple(container.key for container in self.open)
            self.duplicates.append((path, member, first))
        parent.members[key] = member
        if following == ",":
            self.at += 1
            return self._member(parent)
        if following == parent.closer:
            self.at += 1
            return False
        if not following:
            raise self._cut_off(parent)
        raise self._error(f"expected ',' or '{parent.closer}'")

    def _string(self, what: str) -> str:
        start = self.at
        found = _TEXT.match(self.text, start)
        end = found.end() if found else start
        if self.text[end : end + 1] != '"':
            raise self._bad_string(what, start, end)
        self.at = end + 1
        raw = self.text[start + 1 : end]
        if "\\" not in raw:
            return raw
        return str(json.loads(self.text[start : end + 1]))

    def _bad_string(self, what: str, start: int, end: int) -> SourceError:
        bad = self.text[end : end + 1]
        if not bad:
            return self._error(f"{what} has no end", start, "it ends with a double quote")
        if bad in "\r\n":
            return self._error(
                f"{what} is not closed on its line",
                start,
                'it ends with a double quote; a line break is "\\n"',
            )
        if bad == "\\":
            hint = 'a backslash itself is "\\\\"'
            return self._error(f"unknown escape in {what}", end, hint)
        return self._error(
            f"{what} has the control character U+{ord(bad):04X}", end, f"write \\u{ord(bad):04x}"
        )

    def _number(self, found: re.Match[str]) -> int | float:
        digits = found[0]
        rest = _WORD.match(self.text, found.end())
        if rest is not None:
            raise self._error(f"{digits[:20]}{rest[0][:20]} is not a number as JSON writes it")
        self.at = found.end()
        if len(digits) > MAX_DIGITS:
            size = f"the number has {len(digits):,} characters, at most {MAX_DIGITS:,} are read"
            raise self._error(size, found.start())
        if not found["float"]:
            return int(digits)
        number = float(digits)
        if not math.isfinite(number):
            raise self._error("the number is too large", found.start(), "numbers go up to 1.7e308")
        return number

    def _name(self) -> Any:
        found = _WORD.match(self.text, self.at)
        if found is not None and found[0] in _NAMES:
            self.at = found.end()
            return _NAMES[found[0]]
        if not self.text[self.at : self.at + 1]:
            raise (
                self._cut_off(self.open[-1])
                if self.open
                else self._error("the text is empty, expected a value")
            )
        if found is None:
            raise self._error(f"expected a value, here is '{self.text[self.at]}'")
        word = found[0]
        known = _OTHER_NAMES.get(word) or (nearest(word, _NAMES) if word.isalpha() else None)
        as_is = "texts need double quotes"
        if word[0] in "+-.0123456789":
            as_is = "numbers look like 12, -0.5 or 1e6"
        hint = as_is if known is None else f"did you mean {known}?"
        raise self._error(f"expected a value, here is {_shown(word)}", hint=hint)

    def _no_key(self, parent: Container, first: str) -> SourceError:
        if not first:
            return self._cut_off(parent)
        found = _WORD.match(self.text, self.at)
        here = _shown(found[0]) if found else f"'{first}'"
        return self._error(
            f"expected a key or '}}', here is {here}", hint="keys need double quotes"
        )

    def _cut_off(self, parent: Container) -> SourceError:
        what = "object" if parent.closer == "}" else "list"
        begin = lines_of(self.text).position(parent.offset)
        return self._error(
            f"the text ends inside the {what} that begins in line {begin.line}, column"
            f" {begin.column}",
            hint=f"expected ',' or '{parent.closer}'",
        )

    def _error(
        self, message: str, offset: int | None = None, hint: str | None = None
    ) -> SourceError:
        place = lines_of(self.text).position(self.at if offset is None else offset)
        return SourceError(message, place.line, place.column, hint)


def _shown(word: str) -> str:
    if word.isprintable():
        return word
    return ascii(word)
