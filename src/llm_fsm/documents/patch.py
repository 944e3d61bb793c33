"""Change values in a JSON text by pointers, and keep all other bytes.

Comments, order, unknown keys, indentation, line ends and a byte order mark stay as they are. New
parts are written as their neighbours are: on lines of their own, or in one line. Each function
takes a text and returns the new text; the texts are such as `json_source` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llm_fsm._json import JsonDict, grouped, places_of, pointer_of, step, steps, value_at
from llm_fsm.definition.json_source import Container, Member, Scan, SourceError, scan
from llm_fsm.lint.fix.edits import Edit, is_first_on_line, line_start, removal

WIDTH = 100
"""The longest line in which a new list or object is written as a whole, in characters."""
_MARK = "\ufeff"
_INDENT = re.compile(r"[\r\n]([ \t]+)\S")
_LINE_REST = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/[ \t]*)?(?=\r\n|\n|\r)")
_COLON = re.compile(r"(?:\s|//[^\r\n]*|/\*(?s:.*?)\*/)*:([ \t]*)")
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(//|/\*)')
_HALF = re.compile("[\ud800-\udfff]")


class PatchError(ValueError):
    """A change that the text does not allow. The message says why."""


@dataclass(frozen=True)
class JsonText:
    """A JSON text with its places. `mark`: its byte order mark, which `text` does not have."""

    text: str
    scan: Scan
    mark: str = ""

    @cached_property
    def line_end(self) -> str:
        """The characters that end a line."""
        return "\r\n" if "\r\n" in self.text else "\n"

    @cached_property
    def unit(self) -> str:
        """The indentation of one level."""
        found = _INDENT.search(self.text)
        return "  " if found is None else found[1]

    @cached_property
    def colon(self) -> str:
        """The characters between a key and its value."""
        root = self.scan.root.inner
        first = None if root is None else next(iter(root.members.values()), None)
        if first is None or first.start == first.offset:
            return ": "
        found = _COLON.match(self.text, first.key_end)
        return ": " if found is None or found[1] else ":"

    @property
    def comma(self) -> str:
        """The characters between two members in one line."""
        return "," if self.colon == ":" else ", "

    @cached_property
    def is_one_line(self) -> bool:
        """True for a text without line breaks between its parts."""
        return "\n" not in self.text.strip() and "\r" not in self.text.strip()

    def find(self, pointer: str) -> Member | None:
        """Return the value at a pointer; None if there is none."""
        way = self.scan.way(pointer)
        return way[-1] if len(way) > pointer.count("/") else None

    def held(self, pointer: str) -> tuple[Container, Member] | None:
        """Return the value at a pointer, behind the list or object that holds it; None if there is
        none.
        """
        found = self.find(pointer)
        holder = self.find(pointer.rpartition("/")[0]) if pointer else None
        inner = None if holder is None else holder.inner
        return None if found is None or inner is None else (inner, found)

    def container(self, pointer: str) -> Container:
        """Return the list or object at a pointer. Raises PatchError."""
        found = self.find(pointer)
        if found is None or found.inner is None:
            raise PatchError(f"there is no list or object at {pointer or 'the top'!r}")
        return found.inner

    def indent_of(self, offset: int) -> str:
        """Return the blanks at the beginning of the line of an offset."""
        line = self.text[line_start(self.text, offset) :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def is_spread(self, member: Member) -> bool:
        """Return true if a value is written in several lines."""
        written = self.text[member.offset : member.end]
        return "\n" in written or "\r" in written

    def applied(self, edits: Iterable[Edit]) -> str:
        """Return the whole text after edits that do not overlap."""
        text = self.text
        for edit in sorted(edits, key=lambda one: (one.start, one.end), reverse=True):
            text = edit.apply(text)
        return self.mark + text

    def written(self, value: Any, indent: str, *, spread: bool | None = None) -> str:
        """Write a value, whose line has an indentation.

        Args:
            value: The value.
            indent: The indentation of the line in which it begins.
            spread: True: members of the value have lines of their own; False: all is in one line;
                None: as it fits.

        Returns:
            The text of the value.
        """
        line = self.inline(value)
        if not value or not isinstance(value, dict | list) or spread is False or self.is_one_line:
            return line
        if spread is None and len(line) + len(indent) <= WIDTH:
            return line
        deeper = indent + self.unit
        if isinstance(value, dict):
            keyed = [(self.inline(key) + self.colon, item) for key, item in value.items()]
        else:
            keyed = [("", item) for item in value]
        rows = [deeper + key + self.written(item, deeper + " " * len(key)) for key, item in keyed]
        return self.line_end.join([line[0], f",{self.line_end}".join(rows), indent + line[-1]])

    def inline(self, value: Any) -> str:
        """Write a value in one line. Half characters are escaped, because UTF-8 has none."""
        made = json.dumps(value, ensure_ascii=False, separators=(self.comma, self.colon))
        return _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", made)


def read(text: str) -> JsonText:
    """Read a text. Raises PatchError if it is no JSON."""
    mark = _MARK if text.startswith(_MARK) else ""
    try:
        return JsonText(text.removeprefix(_MARK), scan(text), mark)
    except SourceError as error:
        raise PatchError(f"the text is no JSON: {error}") from error


def set_value(text: str, pointer: str, value: Any) -> str:
    """Set the value at a pointer. Parts of a list or object that are equal stay as written.

    Args:
        text: The JSON text.
        pointer: The JSON pointer. A missing member is added, with the objects around it; `/-` at
            the end appends to a list.
        value: The value, as JSON data.

    Returns:
        The new text.

    Raises:
        PatchError: There is no place for the value.
    """
    whole = read(text)
    way = whole.scan.way(pointer)
    kept = len(way) - 1
    names = steps(pointer)
    above = pointer_of(names[:kept])
    if kept == len(names):
        return _changed(text, pointer, value_at(whole.scan.value, pointer), value)
    parent = way[-1].inner
    if parent is None:
        raise PatchError(f"the value at {above!r} is no list or object")
    for name in reversed(names[kept + 1 :]):
        value = {name: value}
    if parent.closer == "}":
        return add_member(text, above, names[kept], value)
    if names[kept] not in ("-", str(len(parent.value))):
        raise PatchError(f"the list at {above!r} has no place {names[kept]!r}")
    return insert_items(text, above, len(parent.value), [value])


def _changed(text: str, pointer: str, old: Any, new: Any) -> str:
    """Return the text with a value changed into another one, by the smallest parts that differ."""
    if _is_same(old, new):
        return text
    match old, new:
        case dict(), dict() if old.keys() & new.keys():
            return _changed_object(text, pointer, old, new)
        case list(), list() if old and new:
            return _changed_list(text, pointer, old, new)
    whole = read(text)
    found = whole.scan.way(pointer)[-1]
    spread = True if whole.is_spread(found) else None
    made = whole.written(new, whole.indent_of(found.start), spread=spread)
    return whole.applied([Edit(found.offset, found.end, made)])


def _is_same(one: Any, other: Any) -> bool:
    """Return true for equal JSON: 1, 1.0 and true differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _changed_object(text: str, pointer: str, old: JsonDict, new: JsonDict) -> str:
    text = delete_values(text, [pointer + step(key) for key in old if key not in new])
    for key, value in new.items():
        if key in old:
            text = _changed(text, pointer + step(key), old[key], value)
        else:
            text = add_member(text, pointer, key, value)
    return text


def _changed_list(text: str, pointer: str, old: list[Any], new: list[Any]) -> str:
    head = _same_items(old, new)
    tail = _same_items(old[head:][::-1], new[head:][::-1])
    at = min(len(old), len(new)) - tail
    for index in range(head, at):
        text = _changed(text, f"{pointer}/{index}", old[index], new[index])
    if len(old) > len(new):
        return delete_values(text, [f"{pointer}/{at + n}" for n in range(len(old) - len(new))])
    return insert_items(text, pointer, at, new[at : len(new) - tail])


def _same_items(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return the number of items at the beginning of two lists that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    most = min(len(one), len(other))
    return next((place for place, pair in pairs if not _is_same(*pair)), most)


def add_member(text: str, pointer: str, key: str, value: Any, *, after: str | None = None) -> str:
    """Add a member to an object.

    Args:
        text: The JSON text.
        pointer: The JSON pointer of the object.
        key: The key.
        value: The value, as JSON data.
        after: The key of the member behind which it is written; None: at the end.

    Returns:
        The new text.

    Raises:
        PatchError: There is no such object, or it has the key.
    """
    whole = read(text)
    parent = whole.container(pointer)
    if parent.closer != "}":
        raise PatchError(f"the value at {pointer!r} is a list, not an object")
    if key in parent.members:
        raise PatchError(f"there is a {key!r} at {pointer or 'the top'!r} already")
    names = list(parent.members)
    index = names.index(after) + 1 if after in parent.members else len(names)
    name = whole.inline(key) + whole.colon
    return _inserted(whole, parent, index, [name + _as_neighbour(whole, parent, index, value)])


def insert_items(text: str, pointer: str, index: int, values: Sequence[Any]) -> str:
    """Insert elements into a list before the one at an index. Raises PatchError."""
    if not values:
        return text
    whole = read(text)
    parent = whole.container(pointer)
    if parent.closer != "]" or not 0 <= index <= len(parent.members):
        raise PatchError(f"the value at {pointer!r} is no list with a place {index}")
    raws = [_as_neighbour(whole, parent, index, value) for value in values]
    return _inserted(whole, parent, index, raws)


def _as_neighbour(whole: JsonText, parent: Container, index: int, value: Any) -> str:
    """Write a value for a place in a container, in lines of its own or not, as its neighbour is."""
    if not parent.members:
        return whole.written(value, whole.indent_of(parent.offset) + whole.unit)
    beside = list(parent.members.values())[max(0, index - 1)]
    is_spread = whole.is_spread(beside)
    spread = None
    if beside.inner is not None and is_first_on_line(whole.text, beside.start) is is_spread:
        spread = is_spread
    return whole.written(value, whole.indent_of(beside.start), spread=spread)


def _inserted(whole: JsonText, parent: Container, index: int, raws: Sequence[str]) -> str:
    """Return the text with members, as they are to be written, before the one at an index."""
    if not parent.members:
        return whole.applied([_first(whole, parent, raws)])
    beside = list(parent.members.values())[max(0, index - 1)]
    line = None
    if is_first_on_line(whole.text, beside.start):
        line = whole.line_end + whole.indent_of(beside.start)
    if index == 0:
        between = whole.comma if line is None else "," + line
        return whole.applied([Edit(beside.start, beside.start, between.join([*raws, ""]))])
    at = beside.end if beside.comma is None else beside.comma + 1
    gap = whole.comma[1:]
    rest = None if line is None else _LINE_REST.match(whole.text, at)
    if line is not None and (rest is not None or beside.comma is None):
        gap = line
        at = at if rest is None else rest.end()
    joined = gap + ("," + gap).join(raws)
    if beside.comma is not None:
        return whole.applied([Edit(at, at, joined + ",")])
    return whole.applied([Edit(at, at, joined), Edit(beside.end, beside.end, ",")])


def _first(whole: JsonText, parent: Container, raws: Sequence[str]) -> Edit:
    """Return the edit that puts the first members into an empty container, behind its comments."""
    begin = parent.offset + 1
    closer = parent.end - 1
    inner = whole.text[begin:closer]
    if whole.is_one_line:
        return Edit(closer if inner.strip() else begin, closer, whole.comma.join(raws))
    outer = whole.line_end + whole.indent_of(parent.offset)
    line = outer + whole.unit
    return Edit(begin + len(inner.rstrip()), closer, f"{line}{f',{line}'.join(raws)}{outer}")


def delete_values(text: str, pointers: Sequence[str]) -> str:
    """Delete the members and elements at some pointers. Raises PatchError for a missing one."""
    whole = read(text)
    gone = []
    for pointer in pointers:
        found = whole.held(pointer)
        if found is None:
            raise PatchError(f"there is no value at {pointer!r} that could be deleted")
        if frozenset(pointers).isdisjoint(places_of(pointer.rpartition("/")[0])):
            gone.append(found)
    edits: list[Edit] = []
    for parent, members in grouped(gone).items():
        edits += _removal(whole, parent, members)
    return whole.applied(edits) if edits else text


def _removal(whole: JsonText, parent: Container, members: Sequence[Member]) -> Iterator[Edit]:
    """Yield the edits that remove members of a container. The last ones take the comma before them
    along.
    """
    kept = [one for one in parent.members.values() if one not in members]
    gone = [one for one in parent.members.values() if one in members]
    tail = [one for one in gone if not kept or one.start > kept[-1].start]
    span = None
    if not kept:
        span = Edit(parent.offset + 1, parent.end - 1, "")
    elif tail and kept[-1].comma is not None and tail[-1].comma is None:
        span = Edit(kept[-1].comma, tail[-1].end, "")
    if span is not None:
        inside = sum(_comments(whole.text[one.start : one.end]) for one in tail)
        if _comments(whole.text[span.start : span.end]) == inside:
            yield span
            gone = gone[: -len(tail)]
        elif kept:
            yield Edit(span.start, span.start + 1, "")
    for member in gone:
        if member.comma is not None and _comments(whole.text[member.end : member.comma]):
            yield Edit(member.start, member.end, "")
            yield Edit(member.comma, member.comma + 1, "")
        else:
            yield removal(whole.text, member)


def _comments(text: str) -> int:
    return sum(1 for found in _COMMENT.finditer(text) if found[1])


def move(text: str, pointer: str, to: int) -> str:
    """Move a member or an element to another place in its container, as it is written.

    Args:
        text: The JSON text.
        pointer: The JSON pointer of the value.
        to: Its index afterwards, from 0.

    Returns:
        The new text.

    Raises:
        PatchError: There is no such value, or no such place.
    """
    whole = read(text)
    found = whole.held(pointer)
    if found is None:
        raise PatchError(f"there is no value at {pointer!r} that could be moved")
    parent, member = found
    names = list(parent.members)
    if not 0 <= to < len(names):
        raise PatchError(f"there is no place {to} beside {pointer!r}")
    if names[to] == member.key:
        return text
    rest = read(delete_values(text, [pointer]))
    holder = rest.container(pointer.rpartition("/")[0])
    return _inserted(rest, holder, to, [whole.text[member.start : member.end]])


def rename_keys(text: str, names: Sequence[tuple[str, str]]) -> str:
    """Rename the keys of members.

    Args:
        text: The JSON text.
        names: Pairs of the pointer of a member, and its new key.

    Returns:
        The new text.

    Raises:
        PatchError: There is no such member, or its object has the new key.
    """
    whole = read(text)
    edits = []
    for pointer, name in names:
        found = whole.held(pointer)
        if found is None or found[1].start == found[1].offset:
            raise PatchError(f"there is no key at {pointer!r}")
        parent, member = found
        if name == member.key:
            continue
        if name in parent.members:
            raise PatchError(f"there is a {name!r} beside {member.key!r} already")
        edits.append(Edit(member.start, member.key_end, whole.inline(name)))
    return whole.applied(edits)


def replace_scalars(text: str, values: Sequence[tuple[str, Any]]) -> str:
    """Replace texts, numbers and names, all at once. Raises PatchError for a missing one."""
    whole = read(text)
    edits = []
    for pointer, value in values:
        found = whole.find(pointer)
        if found is None or found.inner is not None:
            raise PatchError(f"there is no text or number at {pointer!r}")
        edits.append(Edit(found.offset, found.end, whole.inline(value)))
    return whole.applied(edits)
