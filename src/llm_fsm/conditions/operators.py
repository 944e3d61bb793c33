"""The operators of JsonLogic as pure functions over JSON values, and their table.

Source: jsonlogic.com and its reference implementation json-logic-js. Three things differ on
purpose: a number that is not finite is a fault, lists and objects are compared by content, and
characters are code points. Every function takes the meter first, and raises only Fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from llm_fsm._json import is_same, member
from llm_fsm._zones import zone_of
from llm_fsm.conditions.coercion import (
    MAX_DEPTH,
    Meter,
    Number,
    OperatorFault,
    byte_length,
    finite_number,
    is_nan,
    is_number,
    kind_of,
    leading_number,
    mended,
    number_of,
    result,
    text_of,
    truthy,
)
from llm_fsm.errors import ConfigurationError

_NO_DATE: Final = "the text is no ISO 8601 date, such as 2025-01-31 or 2025-01-31T09:30:00Z"
ABSENT: Final = object()
"""Marks an argument that was not given. Null is a value."""

SLOT: Final = 8
"""Bytes of output that one element of a built list counts."""

EQUALITIES: Final = frozenset({"==", "===", "!=", "!=="})
ORDERINGS: Final = frozenset({"<", "<=", ">", ">="})
COMPARISONS: Final = EQUALITIES | ORDERINGS
CLOCKS: Final = frozenset({"now", "today"})
"""Operators that read the time of the turn."""
OF_KEYS: Final = frozenset({"var", "missing", "missing_some", "has_context", "context_length"})
"""Operators whose arguments are names of context keys."""
PRESENCE: Final = frozenset({"has_context", "exists", "missing", "missing_some"})
"""Operators that ask if keys are known, and a second name of one."""

_PATTERN_MEMORY = 1 << 20
"""Bytes that RE2 may use for one pattern. Small programs run fast on long texts."""


def add(meter: Meter, *values: Any) -> Number:
    """Add. A single value is converted to a number."""
    total: Number = 0
    for value in values:
        total = result(total + leading_number(meter, value))
    return total


def multiply(meter: Meter, *values: Any) -> Number:
    """Multiply."""
    total: Number = 1
    for value in values:
        total = result(total * leading_number(meter, value))
    return total


def subtract(meter: Meter, first: Any, second: Any = ABSENT) -> Number:
    """Subtract. A single value is negated."""
    number = finite_number(meter, first)
    return result(-number if second is ABSENT else number - finite_number(meter, second))


def _fraction(meter: Meter, first: Any, second: Any) -> tuple[Number, Number]:
    number, divisor = finite_number(meter, first), finite_number(meter, second)
    if divisor == 0:
        raise OperatorFault("it divides by zero")
    return number, divisor


def divide(meter: Meter, first: Any, second: Any) -> Number:
    """Divide. An exact quotient is an integer."""
    number, divisor = _fraction(meter, first, second)
    if isinstance(number, int) and isinstance(divisor, int) and number % divisor == 0:
        return result(number // divisor)
    return result(number / divisor)


def remainder(meter: Meter, first: Any, second: Any) -> Number:
    """Return the remainder with the sign of the first value."""
    number, divisor = _fraction(meter, first, second)
    if isinstance(number, int) and isinstance(divisor, int):
        rest = abs(number) % abs(divisor)
        return -rest if number < 0 else rest
    return result(math.fmod(number, divisor))


def greatest(meter: Meter, *values: Any) -> Number:
    """Return the largest of the values as numbers."""
    return result(max(finite_number(meter, value) for value in values))


def smallest(meter: Meter, *values: Any) -> Number:
    """Return the smallest of the values as numbers."""
    return result(min(finite_number(meter, value) for value in values))


def same(meter: Meter, x: Any, y: Any, depth: int = 0) -> bool:
    """Strict equality (===): the same kind, and equal. Lists and objects are compared by content."""
    if x is y:
        return not is_nan(x)
    match x, y:
        case (bool() | None, _) | (_, bool() | None):
            return False
        case (str(), _) | (_, str()):
            return is_same(x, y)
        case int() | float(), int() | float():
            return x == y
        case int() | float(), _:
            return False
    if depth > MAX_DEPTH:
        raise OperatorFault(f"it compares values that nest deeper than {MAX_DEPTH}")
    match x, y:
        case list() | tuple(), list() | tuple() if len(x) == len(y):
            meter.spend(1 + (len(x) >> 3))
            return all(same(meter, a, b, depth + 1) for a, b in zip(x, y, strict=True))
        case Mapping(), Mapping() if x.keys() == y.keys():
            meter.spend(1 + (len(x) >> 3))
            return all(same(meter, value, y[key], depth + 1) for key, value in x.items())
    return False


def alike(meter: Meter, x: Any, y: Any) -> bool:
    """Loose equality (==) with JavaScript's conversions. Null only equals null."""
    if type(x) is type(y) and isinstance(x, (str, int, float)):
        return bool(x == y)
    if x is None or y is None:
        return x is y
    x_whole = not isinstance(x, (str, int, float))
    y_whole = not isinstance(y, (str, int, float))
    if x_whole and y_whole:
        return same(meter, x, y)
    if x_whole:
        x = text_of(meter, x)
    if y_whole:
        y = text_of(meter, y)
    if isinstance(x, str) and isinstance(y, str):
        return x == y
    return number_of(meter, x) == number_of(meter, y)


def _ordered(meter: Meter, x: Any, y: Any) -> tuple[Any, Any]:
    """Prepare two values for < and <=: two texts, or two numbers (NaN compares false)."""
    x = text_of(meter, x) if isinstance(x, (list, tuple, Mapping)) else x
    y = text_of(meter, y) if isinstance(y, (list, tuple, Mapping)) else y
    if isinstance(x, str) and isinstance(y, str):
        return x, y
    return number_of(meter, x), number_of(meter, y)


def less(meter: Meter, x: Any, y: Any, z: Any = ABSENT) -> bool:
    """Return x < y, and y < z if there is a z."""
    a, b = _ordered(meter, x, y)
    return bool(a < b) and (z is ABSENT or less(meter, y, z))


def at_most(meter: Meter, x: Any, y: Any, z: Any = ABSENT) -> bool:
    """Return x <= y, and y <= z if there is a z."""
    a, b = _ordered(meter, x, y)
    return bool(a <= b) and (z is ABSENT or at_most(meter, y, z))


def contained(meter: Meter, part: Any, whole: Any) -> bool:
    """Implement `in`: an element of a list, or a part of a text.

    It is false for other values, and for null in a text.
    """
    match whole:
        case str():
            meter.spend(len(whole) >> 10)
            return part is not None and text_of(meter, part) in whole
        case list() | tuple():
            meter.spend(len(whole) >> 3)
            return any(same(meter, part, item) for item in whole)
    return False


def count(meter: Meter, whole: Any, part: Any) -> int:
    """Count a part in a text (without overlap) or an element in a list; 0 for null."""
    match whole:
        case None:
            return 0
        case str():
            meter.spend(len(whole) >> 10)
            searched = "" if part is None else text_of(meter, part)
            return whole.count(searched) if searched else 0
        case list() | tuple():
            meter.spend(len(whole) >> 3)
            return sum(same(meter, part, item) for item in whole)
    raise OperatorFault(f"it counts in {kind_of(whole)}, which is neither text nor list")


def length(_meter: Meter, value: Any) -> int:
    """Count the characters of a text, the elements of a list or the keys of an object; 0 for null."""
    if value is None:
        return 0
    if isinstance(value, (str, list, tuple, Mapping)):
        return len(value)
    raise OperatorFault(f"it asks for the length of {kind_of(value)}")


def lower(meter: Meter, value: Any) -> str:
    """Return a text in lower case; "" for null."""
    text = "" if value is None else text_of(meter, value).lower()
    meter.build(byte_length(text))
    return text


def date(meter: Meter, value: Any) -> Number:
    """Return the seconds since the epoch of an ISO 8601 text.

    A text without an offset is in the time zone `_timezone` of the whole data, else in UTC.
    """
    try:
        return result(_moment(meter, value).timestamp())
    except OverflowError as error:
        raise OperatorFault(_NO_DATE) from error


def _moment(meter: Meter, value: Any) -> datetime:
    """Read an ISO 8601 text. Without an offset it is in the time zone of the whole data."""
    if not isinstance(value, str):
        raise OperatorFault(f"it reads {kind_of(value)} as a date; dates are ISO 8601 texts")
    try:
        moment = datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise OperatorFault(_NO_DATE) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=_zone(meter))


def _day(meter: Meter, value: Any) -> datetime:
    """Read the day of an ISO 8601 text, in the time zone of the whole data."""
    try:
        return _moment(meter, value).astimezone(_zone(meter))
    except OverflowError as error:
        raise OperatorFault(_NO_DATE) from error


def weekday(meter: Meter, value: Any) -> int:
    """Return the number of a day in its week; Monday is 1."""
    return _day(meter, value).isoweekday()


def days(meter: Meter, first: Any, last: Any) -> int:
    """Count the days from one day to another one; negative if the second is the earlier one."""
    start = _day(meter, first)
    end = _day(meter, last)
    return end.toordinal() - start.toordinal()


def today(meter: Meter) -> str:
    """Return the day of the turn, as an ISO 8601 text."""
    try:
        return datetime.fromtimestamp(now(meter), _zone(meter)).date().isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise OperatorFault(
            "the time of the turn (_timestamp) is in no year of a calendar"
        ) from error


def now(meter: Meter) -> Number:
    """Return the time of the turn in seconds since the epoch: `_timestamp` of the whole data."""
    moment = member(meter.root, "_timestamp")
    if not is_number(moment):
        raise OperatorFault("the time of the turn (_timestamp) is not known")
    return result(moment)


def _zone(meter: Meter) -> tzinfo:
    """Return the time zone of the whole data."""
    name = member(meter.root, "_timezone")
    try:
        return zone_of(name if isinstance(name, str) else "")
    except ConfigurationError as error:
        raise OperatorFault(str(error)) from error


@cache
def _re2() -> Any:
    """Return the library RE2. It is loaded on first use, because few rules have regular
    expressions.
    """
    return import_module("re2")


def pattern_of(source: Any) -> Any:
    """Compile an RE2 pattern.

    Raises:
        Fault: RE2 does not accept it.
    """
    if not isinstance(source, str):
        raise OperatorFault(f"the regular expression is {kind_of(source)}, it must be a text")
    re2 = _re2()
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    try:
        return re2.compile(source.encode(), options)
    except UnicodeEncodeError as error:
        raise OperatorFault("the regular expression has half a surrogate pair in it") from error
    except re2.error as error:
        detail = error.args[0] if error.args else b""
        reason = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise OperatorFault(
            f"RE2 does not accept the regular expression: {reason.partition(':')[0]}"
        ) from error


def found(meter: Meter, value: Any, pattern: Any) -> bool:
    """Return true if the compiled pattern occurs anywhere in the text; false for null."""
    if value is None:
        return False
    if isinstance(value, (list, tuple, Mapping)):
        raise OperatorFault(
            f"it matches {kind_of(value)} against a regular expression; only texts match"
        )
    text = text_of(meter, value)
    meter.spend(len(text) * pattern.programsize >> 14)
    return pattern.search(mended(text).encode()) is not None


def matches(meter: Meter, value: Any, source: Any) -> bool:
    """Match a pattern that is only known at evaluation."""
    pattern = pattern_of(source)
    meter.spend(20 + len(source) + (pattern.programsize >> 4))
    return found(meter, value, pattern)


def concatenate(meter: Meter, *values: Any) -> str:
    """Implement `cat`: join the texts of all values; null is ""."""
    parts = []
    for value in values:
        if value is not None:
            text = text_of(meter, value)
            meter.build(byte_length(text))
            parts.append(text)
    return "".join(parts)


def merge(meter: Meter, *values: Any) -> list[Any]:
    """Join all elements into one list. A value that is no list counts as one element."""
    merged: list[Any] = []
    for value in values:
        items = value if isinstance(value, (list, tuple)) else (value,)
        meter.spend(len(items) >> 3)
        meter.build(SLOT * len(items))
        merged.extend(items)
    return merged


def substring(meter: Meter, value: Any, start: Any = ABSENT, end: Any = ABSENT) -> str:
    """Implement `substr`: `end` characters from `start`. A negative `start` counts from the end of
    the text, and a negative `end` leaves out characters at the end.
    """
    text = text_of(meter, value)
    first = 0 if start is ABSENT else _offset(meter, start)
    tail = text[first:] if first >= 0 else text[max(0, len(text) + first) :]
    if end is not ABSENT:
        size = _offset(meter, end)
        tail = tail[:size] if size >= 0 else tail[: max(0, len(tail) + size)]
    meter.build(byte_length(tail))
    return tail


def _offset(meter: Meter, value: Any) -> int:
    number = number_of(meter, value)
    return 0 if is_nan(number) else int(max(-(2**53), min(2**53, number)))


class Operation(NamedTuple):
    """An operator that only needs the values of its arguments. Arguments beyond `most` are ignored."""

    call: Callable[..., Any]
    least: int
    most: int | None


OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "!!": Operation(lambda _, value=None: truthy(value), 0, 1),
        "!": Operation(lambda _, value=None: not truthy(value), 0, 1),
        "==": Operation(alike, 2, 2),
        "!=": Operation(lambda meter, x, y: not alike(meter, x, y), 2, 2),
        "===": Operation(same, 2, 2),
        "!==": Operation(lambda meter, x, y: not same(meter, x, y), 2, 2),
        "<": Operation(less, 2, 3),
        "<=": Operation(at_most, 2, 3),
        ">": Operation(lambda meter, x, y: less(meter, y, x), 2, 2),
        ">=": Operation(lambda meter, x, y: at_most(meter, y, x), 2, 2),
        "+": Operation(add, 0, None),
        "*": Operation(multiply, 1, None),
        "-": Operation(subtract, 1, 2),
        "/": Operation(divide, 2, 2),
        "%": Operation(remainder, 2, 2),
        "max": Operation(greatest, 1, None),
        "min": Operation(smallest, 1, None),
        "in": Operation(contained, 2, 2),
        "cat": Operation(concatenate, 0, None),
        "substr": Operation(substring, 1, 3),
        "merge": Operation(merge, 0, None),
        "log": Operation(lambda _, value=None: value, 0, 1),
        "contains": Operation(lambda meter, whole, part: contained(meter, part, whole), 2, 2),
        "count": Operation(count, 2, 2),
        "len": Operation(length, 1, 1),
        "lower": Operation(lower, 1, 1),
        "date": Operation(date, 1, 1),
        "now": Operation(now, 0, 0),
        "today": Operation(today, 0, 0),
        "weekday": Operation(weekday, 1, 1),
        "days": Operation(days, 2, 2),
        "matches": Operation(matches, 2, 2),
    }
)
