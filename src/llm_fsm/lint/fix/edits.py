"""Changes to a JSON text that keep comments, order and white space."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from llm_fsm.definition.json_source import Position, Scan, lines_of, parse

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*(?s:.*?)\*/|[\[{]|[\]}]|,|:|[^\s"/\[\]{},:]+|\s+|/'
)
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\[\]{}":]+')
_OWN_LINE = re.compile(r"(?:\A|\n)[ \t]*\Z")
_BLANKS = re.compile(r"[ \t]*")
_REST_OF_LINE = re.compile(r"[ \t]*(?:\r\n|\n|\r)")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters from `start` to `end` of a text by `text`."""

    start: int
    end: int
    text: str

    def apply(self, whole: str) -> str:
        """Return the text after the change."""
        return whole[: self.start] + self.text + whole[self.end :]


@dataclass(frozen=True, slots=True)
class Draft:
    """A text without byte order mark and its scan, in which edits are looked up by JSON pointer."""

    text: str
    scan: Scan

    def rename(self, pointer: str, name: str) -> Edit:
        """Return the edit that renames the key at a pointer."""
        return self._replace(self.scan.position(pointer, at_key=True), name)

    def put(self, pointer: str, value: Any) -> Edit | None:
        """Return the edit that replaces a text, number or name; None for lists and objects."""
        start = self.offset(self.scan.position(pointer))
        if self.text[start] in "[{":
            return None
        return self._replace(self.scan.position(pointer), value)

    def wrap(self, pointer: str) -> Edit:
        """Return the edit that puts the value at a pointer into a list."""
        start = self.offset(self.scan.position(pointer))
        end = self.value_end(start)
        return Edit(start, end, f"[{self.text[start:end]}]")

    def offset(self, place: Position) -> int:
        """Return the offset of a position in the text."""
        return lines_of(self.text).starts[place.line - 1] + place.column - 1

    def value_end(self, start: int) -> int:
        """Return the end of the value that begins at an offset."""
        depth = 0
        at = start
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            assert found is not None, "the text was scanned before"
            token = found[0]
            at = found.end()
            if token in ("[", "{"):
                depth += 1
            elif token in ("]", "}"):
                depth -= 1
            if depth == 0 and not token.isspace() and not token.startswith(("//", "/*")):
                return at
        return at

    def member(self, key_start: int) -> tuple[int, Any]:
        """Return the end of the member whose key begins at an offset, and its value."""
        at = self.skip(self.value_end(key_start))
        at = self.skip(at + 1)
        end = self.value_end(at)
        return end, parse(self.text[at:end])

    def remove_member(self, key_start: int) -> Edit:
        """Return the edit that removes the member whose key begins at an offset, with its comma."""
        end, _ = self.member(key_start)
        after = self.skip(end)
        own_line = _OWN_LINE.search(self.text[:key_start])
        if after < len(self.text) and self.text[after] == ",":
            rest = _REST_OF_LINE.match(self.text, after + 1)
            if own_line is not None and rest is not None:
                return Edit(
                    own_line.start() + (self.text[own_line.start()] == "\n"), rest.end(), ""
                )
            blanks = _BLANKS.match(self.text, after + 1)
            return Edit(key_start, after + 1 if blanks is None else blanks.end(), "")
        comma = self._comma_before(key_start)
        return Edit(key_start if comma is None else comma, end, "")

    def _comma_before(self, start: int) -> int | None:
        """Return the comma before a member; None if anything but white space is between."""
        before = self.text[:start].rstrip()
        if before.endswith(","):
            return len(before) - 1
        return None

    def skip(self, at: int) -> int:
        """Return the offset after white space and comments."""
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None or not (found[0].isspace() or found[0].startswith(("//", "/*"))):
                return at
            at = found.end()
        return at

    def _replace(self, place: Position, value: Any) -> Edit:
        start = self.offset(place)
        found = _WORD.match(self.text, start)
        assert found is not None, "a key or scalar stands here"
        return Edit(start, found.end(), json.dumps(value, ensure_ascii=False))
