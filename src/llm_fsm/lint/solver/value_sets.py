"""Sets of JSON values, for the possible values of a context key and for those that pass a
condition.

A set is a union of ranges of numbers, ranges of texts and kinds. Texts are in the order of code
points, as conditions compare them. The kinds are null, true, false, the empty list, other lists,
and objects. A key that is not set is null.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, reduce
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap, as_list, list_at
from llm_fsm.conditions.coercion import is_number

KINDS = frozenset({"null", "true", "false", "empty", "list", "object"})
_SINGLE: JsonMap = {"true": True, "false": False, "null": None, "empty": []}

Position = tuple[Any, int]
"""A value and -1, 0 or 1: just below it, at it, just above it. Ranges include both their end
positions.
"""
Range = tuple[Position | None, Position | None]
"""Lowest and highest position; None if there is no end."""
Ranges = tuple[Range, ...]

_EVERY: Ranges = ((None, None),)
_MANY = 32
_EVERY_TEXT: Ranges = ((("", 0), None),)


def _kind_name(value: Any) -> str | None:
    """Return the kind of a value that counts only by its kind; None for a number or a text."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "object"
        case list():
            return "list" if value else "empty"
    return None


def _meets(low: Position | None, high: Position | None) -> bool:
    return low is None or high is None or low <= high


def _closest(
    which: Callable[[Position, Position], Position], a: Position | None, b: Position | None
) -> Position | None:
    if a is None or b is None:
        return a or b
    return which(a, b)


def _common(first: Ranges, second: Ranges) -> Ranges:
    if not first or not second:
        return ()
    if first is second or (len(second) == 1 and _covers(second, first)):
        return first
    if len(first) == 1 and _covers(first, second):
        return second
    if (
        len(first) + len(second) > _MANY
        and isinstance(first, _Points)
        and isinstance(second, _Points)
    ):
        kept = second.members
        return _Points([part for part in first if part in kept])
    found = []
    here = there = 0
    while here < len(first) and there < len(second):
        a = first[here]
        b = second[there]
        low = b[0] if a[0] is None or (b[0] is not None and a[0] < b[0]) else a[0]
        high = b[1] if a[1] is None or (b[1] is not None and a[1] > b[1]) else a[1]
        if low is None or high is None or low <= high:
            found.append((low, high))
        if a[1] is not None and (b[1] is None or a[1] <= b[1]):
            here += 1
        else:
            there += 1
    return tuple(found)


def _covers(wide: Ranges, ranges: Ranges) -> bool:
    """Return true if non-empty ranges are within the single one of `wide`."""
    [(low, high)] = wide
    first = ranges[0][0]
    last = ranges[-1][1]
    return (low is None or (first is not None and low <= first)) and (
        high is None or (last is not None and last <= high)
    )


class _Points(tuple[Range, ...]):
    """Ranges of one value each."""

    @cached_property
    def members(self) -> frozenset[Range]:
        return frozenset(self)


def _holds(ranges: Ranges, position: Position) -> bool:
    """Return true if a position is in one of the ranges, which are in order."""
    at = bisect_right(ranges, position, key=_lowest) - 1
    return at >= 0 and _meets(position, ranges[at][1])


def _lowest(part: Range) -> Position:
    if part[0] is None:
        return (-math.inf, -1)
    return part[0]


def _by_low(part: Range) -> tuple[bool, Any]:
    return (part[0] is not None, part[0])


def _either(first: Ranges, second: Ranges) -> Ranges:
    if first and second:
        return _united((*first, *second))
    return first or second


def _united(ranges: Iterable[Range]) -> Ranges:
    joined: list[Range] = []
    for low, high in sorted(ranges, key=_by_low):
        if joined and _meets(low, _after(joined[-1][1])):
            last = joined[-1]
            ends = None if last[1] is None or high is None else max(last[1], high)
            joined[-1] = (last[0], ends)
        else:
            joined.append((low, high))
    return tuple(joined)


def _after(position: Position | None) -> Position | None:
    if position is None:
        return None
    return (position[0], position[1] + 1)


def _without(every: Range, ranges: Ranges) -> Ranges:
    gaps: list[Range] = []
    low = every[0]
    for start, end in ranges:
        before = None if start is None else (start[0], start[1] - 1)
        if before is not None and _meets(low, before):
            gaps.append((low, before))
        if end is None:
            return tuple(gaps)
        low = (end[0], end[1] + 1)
    gaps.append((low, every[1]))
    return tuple(gaps)


def _whole_ends(part: Range) -> tuple[int | None, int | None]:
    """Return the least and greatest whole number of a range."""
    low, high = part
    least = most = None
    if low is not None and low[0] != float("-inf"):
        least = -int(-low[0] // 1)
        least += 1 if (least, 0) < low else 0
    if high is not None and high[0] != float("inf"):
        most = int(high[0] // 1)
        most -= 1 if (most, 0) > high else 0
    return least, most


def _whole(ranges: Ranges) -> Ranges:
    """Return ranges of whole numbers with whole ends, without empty ones."""
    if len(ranges) == 1 and all(
        not shut and isinstance(value, int) for value, shut in filter(None, ranges[0])
    ):
        if _meets(*ranges[0]):
            return ranges
        return ()
    found = []
    for part in ranges:
        least, most = _whole_ends(part)
        if least is None or most is None or least <= most:
            found.append(
                (None if least is None else (least, 0), None if most is None else (most, 0))
            )
    if len(found) > 1:
        return _united(found)
    return tuple(found)


class ValueSet(NamedTuple):
    """A set of JSON values. `whole`: only whole numbers of the ranges are in it."""

    kinds: frozenset[str] = frozenset()
    numbers: Ranges = ()
    texts: Ranges = ()
    whole: bool = False

    @property
    def empty(self) -> bool:
        """True if no value is in it."""
        return not (self.kinds or self.numbers or self.texts)

    @property
    def has_null(self) -> bool:
        """True if the key may be unset."""
        return "null" in self.kinds

    def has(self, value: Any) -> bool:
        """Return true if a value is in it. Lists with elements are all in it or none, and so are
        objects.
        """
        kind = _kind_name(value)
        if kind is not None:
            return kind in self.kinds
        if isinstance(value, str):
            return _holds(self.texts, (value, 0))
        return (not self.whole or value == value // 1) and _holds(self.numbers, (value, 0))

    def __and__(self, other: ValueSet) -> ValueSet:
        if self is other or other is EVERYTHING:
            return self
        whole = self.whole or other.whole
        numbers = _common(self.numbers, other.numbers)
        kinds = self.kinds & other.kinds
        texts = _common(self.texts, other.texts)
        return ValueSet(kinds, _whole(numbers) if whole else numbers, texts, whole)

    def __or__(self, other: ValueSet) -> ValueSet:
        whole = (self.whole or not self.numbers) and (other.whole or not other.numbers)
        return ValueSet(
            kinds=self.kinds | other.kinds,
            numbers=_either(self.numbers, other.numbers),
            texts=_either(self.texts, other.texts),
            whole=whole,
        )

    def __invert__(self) -> ValueSet:
        """Return all other values. For numbers, this is only right without `whole`."""
        return ValueSet(
            kinds=KINDS - self.kinds,
            numbers=_without((None, None), self.numbers),
            texts=_without(_EVERY_TEXT[0], self.texts),
        )

    def minus(self, other: ValueSet) -> ValueSet:
        """Return the values that are not in `other`, which must not be `whole`."""
        texts = other.texts
        if (
            len(texts) < _MANY
            or not isinstance(self.texts, _Points)
            or not isinstance(texts, _Points)
        ):
            return self & ~other
        gone = texts.members
        left = self & (~other._replace(texts=()))
        return left._replace(texts=_Points([part for part in self.texts if part not in gone]))

    def within(self, other: ValueSet) -> bool:
        """Return true if all its values are in `other`, which must not be `whole`."""
        return (self & ~other).empty

    def finite(self, limit: int) -> list[Any] | None:
        """Return all its values, if there are at most `limit` and all of them are known exactly."""
        if self.kinds & {"list", "object"}:
            return None
        values = [value for kind, value in _SINGLE.items() if kind in self.kinds]
        for low, high in self.texts:
            if low is None or low != high:
                return None
            values.append(low[0])
        for low, high in self.numbers:
            if low is None or high is None:
                return None
            if low == high:
                values.append(low[0])
            elif not self.whole or high[0] - low[0] >= limit:
                return None
            else:
                values.extend(range(low[0], high[0] + 1))
        return values if len(values) <= limit else None

    def samples(self) -> list[Any]:
        """Return a few of its values, the simplest first, empty lists and objects late, null
        last.
        """
        found: list[Any] = []
        for part in self.texts[:8]:
            found.extend(_sample_texts(part))
        for part in self.numbers[:8]:
            found.extend(_sample_numbers(part, whole=self.whole))
        found.extend(
            value for kind, value in _SINGLE.items() if kind in self.kinds and kind != "null"
        )
        found.extend(
            [value for kind, value in (("list", ["a"]), ("object", {})) if kind in self.kinds]
        )
        return [*found, None] if self.has_null else found


def _sample_numbers(part: Range, *, whole: bool) -> Iterator[Any]:
    least, most = _whole_ends(part)
    if (least is None or least <= 0) and (most is None or most >= 0):
        yield 0
    if least is not None and (most is None or least <= most):
        yield least
    if most is not None and (least is None or least <= most):
        yield most
    if whole:
        return
    low, high = part
    if low is not None and high is not None and low[0] < high[0]:
        yield (low[0] + high[0]) / 2
    elif low is not None and low == high:
        yield low[0]


def _sample_texts(part: Range) -> Iterator[str]:
    low, high = part
    if low is not None and low[1] == 0:
        yield low[0]
    if high is not None and high[1] == 0 and high != low:
        yield high[0]
    start = "" if low is None else low[0]
    for tail in ("other", "!"):
        if high is None or (start + tail, 0) <= high:
            yield start + tail


EVERYTHING = ValueSet(kinds=KINDS, numbers=_EVERY, texts=_EVERY_TEXT)
NOTHING = ValueSet()
NUMBERS = ValueSet(numbers=_EVERY)
TEXTS = ValueSet(texts=_EVERY_TEXT)
UNSET = ValueSet(kinds=frozenset({"null"}))
SET = ~UNSET


def kinds(*names: str) -> ValueSet:
    """Return the set of values of these kinds."""
    return ValueSet(kinds=frozenset(names))


def points(values: Iterable[Any]) -> ValueSet:
    """Return the set of these values. A list with elements, or an object, adds all such lists or
    objects.
    """
    names = set()
    numbers = set()
    texts = set()
    for value in values:
        if value.__class__ is str:
            texts.add(value)
        elif (kind := _kind_name(value)) is not None:
            names.add(kind)
        elif isinstance(value, str):
            texts.add(value)
        elif isinstance(value, int | float):
            numbers.add(value)
        else:
            names.add("object")
    return ValueSet(kinds=frozenset(names), numbers=_each(numbers), texts=_each(texts))


def _each(values: Iterable[Any]) -> Ranges:
    return _Points([(place, place) for place in [(value, 0) for value in sorted(values)]])


def ordered(low: Position | None, high: Position | None) -> Ranges:
    """Return the range between two positions, none if they cross."""
    if _meets(low, high):
        return ((low, high),)
    return ()


_TYPES: Mapping[str, ValueSet] = {
    "null": UNSET,
    "boolean": kinds("true", "false"),
    "integer": ValueSet(numbers=_EVERY, whole=True),
    "number": NUMBERS,
    "string": TEXTS,
    "array": kinds("empty", "list"),
    "object": kinds("object"),
}


def domain(schema: object, definitions: JsonMap) -> ValueSet:
    """Return all values that a JSON Schema accepts, and perhaps more; `definitions` are the targets
    of `#/$defs/…`.

    It reads type, enum, const, the bounds of numbers, minLength and minItems from 1 on, anyOf,
    oneOf, allOf and $ref. Other keywords can only narrow, and are ignored.
    """
    return _domain(schema, definitions, 0, {})


def _domain(
    schema: object, definitions: JsonMap, depth: int, known: dict[Any, ValueSet]
) -> ValueSet:
    if schema is False:
        return NOTHING
    if not isinstance(schema, dict) or depth > 8:
        return EVERYTHING
    found = EVERYTHING
    listed = as_list(schema.get("type"))
    if listed and all(isinstance(name, str) and name in _TYPES for name in listed):
        found = reduce(ValueSet.__or__, (_TYPES[name] for name in listed))
    if isinstance(schema.get("enum"), list):
        found &= points(schema["enum"])
    if "const" in schema:
        found &= points([schema["const"]])
    found &= _bounds(schema)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        mark = (reference[8:], depth)
        if mark not in known:
            known[mark] = _domain(definitions.get(mark[0]), definitions, depth + 1, known)
        found &= known[mark]
    for choice in ("anyOf", "oneOf"):
        choices = list_at(schema, choice)
        if 0 < len(choices) <= 16:
            parts = [_domain(part, definitions, depth + 1, known) for part in choices]
            found &= reduce(ValueSet.__or__, parts)
    for part in list_at(schema, "allOf")[:16]:
        found &= _domain(part, definitions, depth + 1, known)
    return found


def _bounds(schema: JsonMap) -> ValueSet:
    low = high = None
    for key, shift in (("minimum", 0), ("exclusiveMinimum", 1)):
        if is_number(schema.get(key)):
            low = _closest(max, low, (schema[key], shift))
    for key, shift in (("maximum", 0), ("exclusiveMaximum", -1)):
        if is_number(schema.get(key)):
            high = _closest(min, high, (schema[key], shift))
    texts = _EVERY_TEXT
    names = KINDS
    if is_number(schema.get("minLength")) and schema["minLength"] > 0:
        texts = ordered(("", 1), None)
    if is_number(schema.get("minItems")) and schema["minItems"] > 0:
        names = KINDS - {"empty"}
    if low is None and high is None and texts is _EVERY_TEXT and names is KINDS:
        return EVERYTHING
    return ValueSet(kinds=names, numbers=ordered(low, high), texts=texts)
