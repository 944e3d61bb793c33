"""The places of values and keys in a text, as lines and columns, by JSON pointer (RFC 6901)."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, NamedTuple

from llm_fsm._json import step, steps

_LINE_END = re.compile(r"\r\n|\n|\r")


class Position(NamedTuple):
    """A place in a text, counted from 1; the column in characters."""

    line: int
    column: int


class Duplicate(NamedTuple):
    """A key that an object has already: `position` is the later one's, `first` the first one's.

    `path` are the keys and indices that lead to the member. Of several the last one's value counts.
    """

    path: tuple[str, ...]
    position: Position
    first: Position

    @property
    def key(self) -> str:
        """The key that is there twice."""
        return self.path[-1]

    @property
    def pointer(self) -> str:
        """The JSON pointer of the member."""
        return "".join(map(step, self.path))


class Lines(NamedTuple):
    """The offsets at which a text's lines begin."""

    starts: list[int]

    def position(self, offset: int) -> Position:
        """Return the place of the character at an offset."""
        line = bisect_right(self.starts, offset)
        return Position(line, offset - self.starts[line - 1] + 1)


def lines_of(text: str) -> Lines:
    """Return the lines of a text; they end with LF, CR LF or CR."""
    return Lines([0, *(end.end() for end in _LINE_END.finditer(text))])


class Container:
    """A list or an object: its value, and the places of its members.

    `places` are offsets, or containers. `keys` are the offsets of the keys that count. `firsts` are those of
    the first ones where there are several. `key` is the member being read.
    """

    __slots__ = ("closer", "firsts", "key", "keys", "offset", "places", "value")

    def __init__(self, offset: int, *, is_object: bool) -> None:
        self.value: Any = {} if is_object else []
        self.places: dict[str, int | Container] = {}
        self.keys: dict[str, int] = {}
        self.firsts: dict[str, int] = {}
        self.offset = offset
        self.closer = "}" if is_object else "]"
        self.key = ""


class Scan(NamedTuple):
    """A text's value, and where its parts stand. `duplicates` are in the order of the text."""

    value: Any
    duplicates: tuple[Duplicate, ...]
    lines: Lines
    root: int | Container

    def position(self, pointer: str, *, at_key: bool = False) -> Position:
        """Return the place where the value at a JSON pointer begins, or its key if `at_key` is true.

        For a value that is not there, it is the place of its nearest ancestor.
        """
        return self.key_position(pointer) if at_key else self.lines.position(self._find(pointer)[0])

    def key_position(self, pointer: str) -> Position:
        """Return the place where the key of the member at a JSON pointer begins; without a key, as `position`."""
        offset, key_offset = self._find(pointer)
        return self.lines.position(offset if key_offset is None else key_offset)

    def _find(self, pointer: str) -> tuple[int, int | None]:
        """Return the offsets of value and key; no key for elements, the root, and what is not there."""
        place, key_offset = self.root, None
        for key in steps(pointer):
            if isinstance(place, int) or key not in place.places:
                key_offset = None
                break
            key_offset = place.keys.get(key)
            place = place.places[key]
        return (place if isinstance(place, int) else place.offset), key_offset
