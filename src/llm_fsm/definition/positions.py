"""The places of values and keys in a text, as lines and columns, by JSON pointer (RFC 6901)."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from llm_fsm._json import step, steps, unescape

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()
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


class Finder:
    """The places of values and keys in a strict JSON text, found when they are asked for.

    No key stands twice in the text. The standard library's decoder skips what is not asked for.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = lines_of(text)
        self.known: dict[int, dict[str, tuple[int, int | None]]] = {}
        self.places: dict[str, tuple[int, int | None]] = {"": (self._skip(0), None)}
        self.missing: set[str] = set()

    def position(self, pointer: str, *, at_key: bool = False) -> Position:
        """Return the place where the value at a JSON pointer begins, or its key if `at_key` is true.

        For a value that is not there, it is the place of its nearest ancestor.
        """
        at, key = self._place(pointer)
        return self.lines.position(at if key is None or not at_key else key)

    def _place(self, pointer: str) -> tuple[int, int | None]:
        found = self.places.get(pointer)
        if found is None:
            parent, _, last = pointer.rpartition("/")
            at, _ = self._place(parent)
            known = None if parent in self.missing else self._members(at).get(unescape(last))
            if known is None:
                self.missing.add(pointer)
            found = self.places[pointer] = (at, None) if known is None else known
        return found

    def _members(self, at: int) -> Mapping[str, tuple[int, int | None]]:
        """Return keys or indices of what stands at an offset, to the offsets of value and key."""
        if at not in self.known:
            self.known[at] = dict(self._read(at)) if self.text[at] in "{[" else {}
        return self.known[at]

    def _read(self, at: int) -> Iterator[tuple[str, tuple[int, int | None]]]:
        closer = "}" if self.text[at] == "{" else "]"
        index, at = 0, self._skip(at + 1)
        while self.text[at] != closer:
            name, key = str(index), None
            if closer == "}":
                key = at
                name, at = _DECODER.raw_decode(self.text, at)
                at = self._skip(self._skip(at) + 1)
            yield name, (at, key)
            at = self._skip(_DECODER.raw_decode(self.text, at)[1])
            index += 1
            if self.text[at] == ",":
                at = self._skip(at + 1)

    def _skip(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return at if found is None else found.end()
