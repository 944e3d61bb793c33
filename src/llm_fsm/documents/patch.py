"""Change values in a JSON text by pointers, and keep all other bytes.

Comments, order, unknown keys, indentation, line ends and a byte order mark stay as they are. New
parts are written as their neighbours are: on lines of their own, or in one line. Each function
takes a text and returns the new text; the texts are such as `json_source` reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from llm_fsm._json import JsonDict, step, steps
from llm_fsm.definition.json_source import Container, Scan, SourceError, scan
from llm_fsm.lint.fix.edits import Draft, Edit

WIDTH = 100
"""The longest line in which a new list or object is written as a whole, in characters."""
_MARK = "\ufeff"
_INDENT = re.compile(r"[\r\n]([ \t]+)\S")
_LINE_REST = re.compile(r"[ \t]*(?://[^\r\n]*|/\*(?:(?!\*/)[^\r\n])*\*/[ \t]*)?(?=\r\n|\n|\r)")
_BLANK_REST = re.compile(r"[ \t]*(?:\r\n|\n|\r)")
_BLANKS = re.compile(r"[ \t]*")
_COLON = re.compile(r":([ \t]*)")
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|(//|/\*)')
_HALF = re.compile("[\ud800-\udfff]")


class PatchError(ValueError):
    """A change that the text does not allow. The message says why."""


class WrittenValue(NamedTuple):
    """A value in a text: where it begins, its key, and the container that holds it."""

    place: int | Container
    offset: int
    key_offset: int | None
    parent: Container | None
    key: str

    @property
    def start(self) -> int:
        """The offset of the member: that of its key, if it has one."""
        return self.offset if self.key_offset is None else self.key_offset


@dataclass(frozen=True)
class JsonText:
    """A JSON text with its places. `mark`: its byte order mark, which `text` does not have."""

    text: str
    scan: Scan
    mark: str = ""

    @cached_property
    def draft(self) -> Draft:
        """The text for edits."""
        return Draft(self.text, self.scan)

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
        root = self.scan.root
        if isinstance(root, int) or not root.keys:
            return ": "
        first = min(root.keys.values())
        at = self.draft.skip(self.draft.value_end(first))
        found = _COLON.match(self.text, at)
        return ": " if found is None or found[1] else ":"

    @property
    def comma(self) -> str:
        """The characters between two members in one line."""
        return "," if self.colon == ":" else ", "

    @cached_property
    def is_one_line(self) -> bool:
        """True for a text without line breaks between its parts."""
        return "\n" not in self.text.strip() and "\r" not in self.text.strip()

    def find(self, pointer: str) -> WrittenValue | None:
        """Return the value at a pointer; None if there is none."""
        place = self.scan.root
        key_offset: int | None = None
        parent: Container | None = None
        name = ""
        for name in steps(pointer):
            if isinstance(place, int) or name not in place.places:
                return None
            parent = place
            key_offset = place.keys.get(name)
            place = place.places[name]
        offset = place if isinstance(place, int) else place.offset
        return WrittenValue(place, offset, key_offset, parent, name)

    def container(self, pointer: str) -> Container:
        """Return the list or object at a pointer. Raises PatchError."""
        found = self.find(pointer)
        if found is None or isinstance(found.place, int):
            raise PatchError(f"there is no list or object at {pointer or 'the top'!r}")
        return found.place

    def members(self, parent: Container) -> list[WrittenValue]:
        """Return the members of a container, in the order of the text."""
        found = []
        for key, place in parent.places.items():
            offset = place if isinstance(place, int) else place.offset
            found.append(WrittenValue(place, offset, parent.keys.get(key), parent, key))
        return sorted(found, key=lambda one: one.offset)

    def end(self, member: WrittenValue) -> int:
        """Return the offset after a value."""
        return self.draft.value_end(member.offset)

    def raw(self, member: WrittenValue) -> str:
        """Return a member as it is written, with its key."""
        return self.text[member.start : self.end(member)]

    def comma_after(self, member: WrittenValue) -> int | None:
        """Return the offset of the comma after a member; None if there is none."""
        at = self.draft.skip(self.end(member))
        return at if self.text[at : at + 1] == "," else None

    def indent_of(self, offset: int) -> str:
        """Return the blanks at the beginning of the line of an offset."""
        begin = self._line_start(offset)
        found = _BLANKS.match(self.text, begin)
        return "" if found is None else found[0]

    def is_first_on_line(self, offset: int) -> bool:
        """Return true if only blanks precede an offset on its line, and it is not the first line."""
        begin = self._line_start(offset)
        return begin > 0 and not self.text[begin:offset].strip(" \t")

    def _line_start(self, offset: int) -> int:
        return max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1

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
        opener, closer = ("{", "}") if isinstance(value, dict) else ("[", "]")
        return self.line_end.join([opener, f",{self.line_end}".join(rows), indent + closer])

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
    found = whole.find(pointer)
    if found is not None:
        return _changed(text, pointer, _value(whole, pointer), value)
    parts = steps(pointer)
    for kept in range(len(parts) - 1, -1, -1):
        above = "".join(map(step, parts[:kept]))
        holder = whole.find(above)
        if holder is None:
            continue
        if isinstance(holder.place, int):
            raise PatchError(f"the value at {above!r} is no list or object")
        for name in reversed(parts[kept + 1 :]):
            value = {name: value}
        return _added(text, above, parts[kept], value)
    raise PatchError(f"there is no place for {pointer!r}")


def _added(text: str, above: str, name: str, value: Any) -> str:
    parent = read(text).container(above)
    if parent.closer == "}":
        return add_member(text, above, name, value)
    if name not in ("-", str(len(parent.value))):
        raise PatchError(f"the list at {above!r} has no place {name!r}")
    return insert_items(text, above, len(parent.value), [value])


def _value(whole: JsonText, pointer: str) -> Any:
    value = whole.scan.value
    for name in steps(pointer):
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def _changed(text: str, pointer: str, old: Any, new: Any) -> str:
    """Return the text with a value changed into another one, by the smallest parts that differ."""
    if _is_same(old, new):
        return text
    match old, new:
        case dict(), dict() if old and new:
            return _changed_object(text, pointer, old, new)
        case list(), list() if old and new:
            return _changed_list(text, pointer, old, new)
    return _replaced(text, pointer, new)


def _is_same(one: Any, other: Any) -> bool:
    """Return true for equal JSON: 1, 1.0 and true differ."""
    if type(one) is not type(other):
        return False
    match one:
        case dict():
            return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
        case list():
            return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _changed_object(text: str, pointer: str, old: JsonDict, new: JsonDict) -> str:
    gone = [key for key in old if key not in new]
    if len(gone) == len(old):
        return _replaced(text, pointer, new)
    text = delete_values(text, [pointer + step(key) for key in gone])
    for key, value in new.items():
        if key in old:
            text = _changed(text, pointer + step(key), old[key], value)
        else:
            text = add_member(text, pointer, key, value)
    return text


def _changed_list(text: str, pointer: str, old: list[Any], new: list[Any]) -> str:
    head = 0
    while head < min(len(old), len(new)) and _is_same(old[head], new[head]):
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and _is_same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    middle = min(len(old), len(new)) - head - tail
    for index in range(head, head + middle):
        text = _changed(text, f"{pointer}/{index}", old[index], new[index])
    at = head + middle
    if len(old) > len(new):
        return delete_values(text, [f"{pointer}/{at + n}" for n in range(len(old) - len(new))])
    return insert_items(text, pointer, at, new[at : len(new) - tail])


def _replaced(text: str, pointer: str, value: Any) -> str:
    whole = read(text)
    found = whole.find(pointer)
    assert found is not None, "the caller has looked it up"
    end = whole.end(found)
    was_spread = _has_line_end(whole.text[found.offset : end])
    spread = True if was_spread else None
    made = whole.written(value, whole.indent_of(found.start), spread=spread)
    return whole.applied([Edit(found.offset, end, made)])


def _has_line_end(text: str) -> bool:
    return "\n" in text or "\r" in text


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
    if key in parent.places:
        raise PatchError(f"there is a {key!r} at {pointer or 'the top'!r} already")
    members = whole.members(parent)
    index = len(members)
    for number, member in enumerate(members):
        if member.key == after:
            index = number + 1
    indent, spread = _style(whole, parent, members, index)
    name = whole.inline(key) + whole.colon
    return _inserted(whole, parent, index, [name + whole.written(value, indent, spread=spread)])


def insert_items(text: str, pointer: str, index: int, values: Sequence[Any]) -> str:
    """Insert elements into a list before the one at an index. Raises PatchError."""
    if not values:
        return text
    whole = read(text)
    parent = whole.container(pointer)
    members = whole.members(parent)
    if parent.closer != "]" or not 0 <= index <= len(members):
        raise PatchError(f"the value at {pointer!r} is no list with a place {index}")
    indent, spread = _style(whole, parent, members, index)
    raws = [whole.written(value, indent, spread=spread) for value in values]
    return _inserted(whole, parent, index, raws)


def _style(
    whole: JsonText, parent: Container, members: Sequence[WrittenValue], index: int
) -> tuple[str, bool | None]:
    """Return the indentation of a new member, and whether it spreads, as its neighbour does."""
    if not members:
        return whole.indent_of(parent.offset) + whole.unit, None
    beside = members[max(0, min(index, len(members)) - 1)]
    indent = whole.indent_of(beside.start)
    if isinstance(beside.place, int):
        return indent, None
    is_spread = _has_line_end(whole.text[beside.offset : whole.end(beside)])
    if not whole.is_first_on_line(beside.start):
        return indent, False if not is_spread else None
    return indent, True if is_spread else None


def _inserted(whole: JsonText, parent: Container, index: int, raws: Sequence[str]) -> str:
    """Return the text with members, as they are to be written, before the one at an index."""
    members = whole.members(parent)
    if not members:
        return whole.applied([_first(whole, parent, raws)])
    if index == 0:
        beside = members[0]
        between = whole.comma
        if whole.is_first_on_line(beside.start):
            between = "," + whole.line_end + whole.indent_of(beside.start)
        return whole.applied([Edit(beside.start, beside.start, between.join([*raws, ""]))])
    beside = members[index - 1]
    end = whole.end(beside)
    comma = whole.comma_after(beside)
    gap = " " if whole.comma == ", " else ""
    at = end if comma is None else comma + 1
    if whole.is_first_on_line(beside.start):
        rest = _LINE_REST.match(whole.text, at)
        if rest is not None or comma is None:
            gap = whole.line_end + whole.indent_of(beside.start)
            at = at if rest is None else rest.end()
    joined = ("," + gap).join(raws)
    if comma is not None:
        return whole.applied([Edit(at, at, f"{gap}{joined},")])
    if at == end:
        return whole.applied([Edit(at, at, f",{gap}{joined}")])
    return whole.applied([Edit(end, end, ","), Edit(at, at, f"{gap}{joined}")])


def _first(whole: JsonText, parent: Container, raws: Sequence[str]) -> Edit:
    """Return the edit that puts the first members into an empty container, behind its comments."""
    closer = whole.draft.value_end(parent.offset) - 1
    inner = whole.text[parent.offset + 1 : closer]
    if whole.is_one_line:
        at = closer if inner.strip() else parent.offset + 1
        return Edit(at, closer, whole.comma.join(raws))
    outer = whole.indent_of(parent.offset)
    line = whole.line_end + outer + whole.unit
    at = parent.offset + 1 + len(inner.rstrip())
    return Edit(at, closer, f"{line}{f',{line}'.join(raws)}{whole.line_end}{outer}")


def delete_values(text: str, pointers: Sequence[str]) -> str:
    """Delete the members and elements at some pointers. Raises PatchError for a missing one."""
    whole = read(text)
    groups: dict[int, tuple[Container, set[str]]] = {}
    for pointer in pointers:
        found = whole.find(pointer)
        if found is None or found.parent is None:
            raise PatchError(f"there is no value at {pointer!r} that could be deleted")
        groups.setdefault(found.parent.offset, (found.parent, set()))[1].add(found.key)
    edits = []
    for parent, keys in groups.values():
        edits += _removal(whole, parent, keys)
    return whole.applied(_outermost(edits)) if edits else text


def _outermost(edits: Sequence[Edit]) -> list[Edit]:
    """Return the edits that lie in no other one."""
    kept: list[Edit] = []
    for edit in sorted(edits, key=lambda one: (one.start, -one.end)):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


def _removal(whole: JsonText, parent: Container, keys: set[str]) -> list[Edit]:
    members = whole.members(parent)
    last_kept = max((n for n, one in enumerate(members) if one.key not in keys), default=-1)
    if last_kept < 0:
        closer = whole.draft.value_end(parent.offset) - 1
        if not _has_comment(whole.text[parent.offset + 1 : closer], members, whole):
            return [Edit(parent.offset + 1, closer, "")]
    tail = members[last_kept + 1 :]
    edits = []
    for member in members[: last_kept + 1]:
        if member.key in keys:
            edits += _with_comma(whole, member)
    if not tail:
        return edits
    if last_kept >= 0 and whole.comma_after(tail[-1]) is None:
        comma = whole.comma_after(members[last_kept])
        assert comma is not None, "a member follows"
        end = whole.end(tail[-1])
        if not _has_comment(whole.text[comma:end], tail, whole):
            return [*edits, Edit(comma, end, "")]
        edits.append(Edit(comma, comma + 1, ""))
    for member in tail:
        edits += _with_comma(whole, member)
    return edits


def _has_comment(text: str, members: Sequence[WrittenValue], whole: JsonText) -> bool:
    """Return true if a text has comments between members, and not only inside of them."""
    inside = sum(_comments(whole.raw(member)) for member in members)
    return _comments(text) > inside


def _comments(text: str) -> int:
    return sum(1 for found in _COMMENT.finditer(text) if found[1])


def _with_comma(whole: JsonText, member: WrittenValue) -> list[Edit]:
    """Return the edits that remove a member with its comma, and its line if nothing else is on it."""
    comma = whole.comma_after(member)
    end = whole.end(member)
    if comma is not None and _comments(whole.text[end:comma]):
        return [Edit(member.start, end, ""), Edit(comma, comma + 1, "")]
    if comma is not None:
        end = comma + 1
    rest = _BLANK_REST.match(whole.text, end)
    if whole.is_first_on_line(member.start) and rest is not None:
        return [Edit(member.start - len(whole.indent_of(member.start)), rest.end(), "")]
    blanks = _BLANKS.match(whole.text, end)
    return [Edit(member.start, end if blanks is None else blanks.end(), "")]


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
    found = whole.find(pointer)
    if found is None or found.parent is None:
        raise PatchError(f"there is no value at {pointer!r} that could be moved")
    members = whole.members(found.parent)
    if not 0 <= to < len(members):
        raise PatchError(f"there is no place {to} beside {pointer!r}")
    if members[to].key == found.key:
        return text
    raw = whole.raw(found)
    above = pointer.rpartition("/")[0]
    rest = read(delete_values(text, [pointer]))
    return _inserted(rest, rest.container(above), to, [raw])


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
        found = whole.find(pointer)
        if found is None or found.key_offset is None or found.parent is None:
            raise PatchError(f"there is no key at {pointer!r}")
        if name == found.key:
            continue
        if name in found.parent.places:
            raise PatchError(f"there is a {name!r} beside {found.key!r} already")
        end = whole.draft.value_end(found.key_offset)
        edits.append(Edit(found.key_offset, end, whole.inline(name)))
    return whole.applied(edits)


def replace_scalars(text: str, values: Sequence[tuple[str, Any]]) -> str:
    """Replace texts, numbers and names, all at once. Raises PatchError for a missing one."""
    whole = read(text)
    edits = []
    for pointer, value in values:
        found = whole.find(pointer)
        if found is None or not isinstance(found.place, int):
            raise PatchError(f"there is no text or number at {pointer!r}")
        edits.append(Edit(found.offset, whole.end(found), whole.inline(value)))
    return whole.applied(edits)
