"""Where things stand in a text: lines and columns of values and keys, by JSON pointer (RFC 6901)."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, NamedTuple

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
        return "".join(f"/{escape(step)}" for step in self.path)


class Lines(NamedTuple):
    """The offsets at which a text's lines begin."""

    starts: list[int]

    def position(self, offset: int) -> Position:
        """The place of the character at an offset."""
        line = bisect_right(self.starts, offset)
        return Position(line, offset - self.starts[line - 1] + 1)


def lines_of(text: str) -> Lines:
    """The lines of a text; they end with LF, CR LF or CR."""
    return Lines([0, *(end.end() for end in _LINE_END.finditer(text))])


class Container:
    """A list or an object: its value, and the places of its members.

    `places` are offsets, or containers; `keys` are the offsets of the keys that count, `firsts`
    those of the first ones where there are several. `key` is the member being read.
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

    def position(self, pointer: str) -> Position:
        """Where the value at a JSON pointer begins; of one that is not there, its nearest ancestor."""
        return self.lines.position(self._find(pointer)[0])

    def key_position(self, pointer: str) -> Position:
        """Where the key of the member at a JSON pointer begins; where there is none, as `position`."""
        offset, key_offset = self._find(pointer)
        return self.lines.position(offset if key_offset is None else key_offset)

    def _find(self, pointer: str) -> tuple[int, int | None]:
        """The offsets of value and key; no key for elements, the root, and what is not there."""
        place, key_offset = self.root, None
        for step in pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(place, int) or key not in place.places:
                key_offset = None
                break
            key_offset = place.keys.get(key)
            place = place.places[key]
        return (place if isinstance(place, int) else place.offset), key_offset


def escape(key: str) -> str:
    """A key as a segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key
