"""Convert JSON values from one kind to another as JsonLogic does, within a meter.

Source: json-logic-js, the reference implementation, whose values behave as JavaScript's do
(ECMA-262: ToNumber, ToString, parseFloat). All work is metered. Error messages name kinds of values
and never values, which may be secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeGuard
from unicodedata import decimal

MAX_DEPTH: Final = 64
MAX_STEPS: Final = 10_000
MAX_OUTPUT: Final = 64 * 1024

Number = int | float

_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WHOLE_NUMBER = re.compile(rf"[+-]?(?:Infinity|{_NUMBER})|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+")
_LEADING_NUMBER = re.compile(rf"[+-]?(?:Infinity|{_NUMBER})")
_FOREIGN_DIGIT = re.compile(r"[^\D0-9]")
_SPACE = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
_SPACE += "".join(map(chr, range(0x2000, 0x200B)))
_RADIX = {"x": 16, "o": 8, "b": 2}
_INTEGER_DIGITS = 300
_INTEGER_BITS = 1023
_SAFE_INTEGER = 2**53


class OperatorFault(Exception):
    """An operator cannot give a value. The compiler adds its place in the rule."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Meter:
    """The remaining budget of one evaluation: steps of work, and bytes of new texts and lists.

    `root` is the data of the whole evaluation, also in the body of a loop.
    """

    __slots__ = ("output", "root", "steps")

    def __init__(self, root: Any, steps: int = MAX_STEPS) -> None:
        self.root = root
        self.steps = steps
        self.output = MAX_OUTPUT

    def spend(self, steps: int) -> None:
        """Count work.

        Raises:
            Fault: No steps are left.
        """
        self.steps -= steps
        if self.steps < 0:
            raise OperatorFault(f"it takes more than {MAX_STEPS:,} steps")

    def build(self, size: int) -> None:
        """Count bytes of output.

        Raises:
            Fault: No bytes are left.
        """
        self.output -= size
        if self.output < 0:
            raise OperatorFault(f"it builds more than {MAX_OUTPUT // 1024} KiB")


def truthy(value: Any) -> bool:
    """Return JsonLogic's truth: null, false, 0, NaN, "" and [] are false; "0" and {} are true."""
    match value:
        case None:
            return False
        case str() | list() | tuple():
            return len(value) > 0
        case int() | float():  # true and false are among them
            return value != 0 and not is_nan(value)
    return True


def is_nan(value: object) -> bool:
    """Return true for the one number that equals nothing, not even itself."""
    return isinstance(value, float) and math.isnan(value)


def is_number(value: object) -> TypeGuard[Number]:
    """Return true for a JSON number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Return true for a whole number without a point; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def kind_of(value: Any) -> str:
    """Return the JSON kind of a value, as messages name it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
    return f"a {type(value).__name__}"


def look_up(data: Any, name: str, default: Any = None) -> Any:
    """Return the value of a dotted name in `data`; "" is the whole.

    Names look into objects by key and into lists by index. At each level, a key that equals the
    whole rest of the name takes precedence, dots included.
    """
    if name == "":
        return data
    rest = name
    while True:
        match data:
            case dict() | Mapping():  # a dict is found faster than a Mapping
                if rest in data:
                    return data[rest]
                head, dot, rest = rest.partition(".")
                if not dot or head not in data:
                    return default
                data = data[head]
            case list() | tuple():
                head, dot, rest = rest.partition(".")
                index = _index(head)
                if index is None or index >= len(data):
                    return default
                data = data[index]
                if not dot:
                    return data
            case _:
                return default


def _index(text: str) -> int | None:
    if len(text) < 10 and text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0"):
        return int(text)
    return None


def number_text(value: Number) -> str:
    """Write a number as JavaScript does (ECMA-262, Number::toString): `1` for 1.0."""
    if isinstance(value, int) and -(10**21) < value < 10**21:
        return str(value)
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        raise OperatorFault("a number is too large")
    value = float(value)
    if not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0:
        return "0"
    if 1e-6 <= size < 1e21:
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = repr(value).partition("e")
    return f"{mantissa}e{int(exponent):+d}"


def text_of(meter: Meter, value: Any, depth: int = 0) -> str:
    """Convert a value to text by JavaScript's String(): lists are joined by commas, and null in
    them is "".
    """
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
        case list() | tuple() if depth <= MAX_DEPTH:
            meter.spend(1 + len(value))
            parts = ["" if item is None else text_of(meter, item, depth + 1) for item in value]
            meter.build(len(parts) + sum(map(byte_length, parts)))
            return ",".join(parts)
        case list() | tuple():
            raise OperatorFault(f"a list nests deeper than {MAX_DEPTH}")
    return "[object Object]"


def byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def number_of(meter: Meter, value: Any) -> Number:
    """Convert a value to a number by JavaScript's Number(); NaN if it is none."""
    match value:
        case None:
            return 0
        case bool():
            return int(value)
        case int() | float():
            return value
        case str() | list() | tuple():
            text = text_of(meter, value).strip(_SPACE)
            meter.spend(len(text) >> 8)
            if not text:
                return 0
            return _parsed(text) if _WHOLE_NUMBER.fullmatch(text) else math.nan
    return math.nan


def _parsed(text: str) -> Number:
    radix = _RADIX.get(text[1:2].lower()) if text.startswith("0") else None
    if radix is not None:
        return int(text[2:], radix) if len(text) <= _INTEGER_DIGITS else math.inf
    if len(text) <= _INTEGER_DIGITS and text.lstrip("+-").isdecimal():
        return int(text)
    return float(text)


def operand(value: Number, given: Any) -> Number:
    """Convert a value to a finite number for arithmetic.

    Raises:
        Fault: It is NaN, infinite, or too large for a float.
    """
    if isinstance(value, int):
        if value.bit_length() > _INTEGER_BITS:
            raise OperatorFault("a number is too large")
    elif not math.isfinite(value):
        raise OperatorFault(f"it calculates with {kind_of(given)}, which is no finite number")
    return value


def result(value: Number) -> Number:
    if isinstance(value, int):
        if value.bit_length() > _INTEGER_BITS:
            raise OperatorFault("the result is too large a number")
        return value
    if not math.isfinite(value):
        raise OperatorFault("the result is not a finite number")
    return int(value) if value.is_integer() and abs(value) <= _SAFE_INTEGER else value


def finite_number(meter: Meter, value: Any) -> Number:
    return operand(number_of(meter, value), value)


def leading_number(meter: Meter, value: Any) -> Number:
    """Read the number at the beginning of a text by JavaScript's parseFloat."""
    if is_number(value):
        return operand(value, value)
    found = _LEADING_NUMBER.match(text_of(meter, value).lstrip(_SPACE))
    return operand(_parsed(found[0]) if found else math.nan, value)


def plain_digits(text: str) -> str:
    """Write the decimal digits of every script as ASCII. The length stays the same."""
    return text if text.isascii() else _FOREIGN_DIGIT.sub(_plain_digit, text)


def _plain_digit(found: re.Match[str]) -> str:
    return str(decimal(found[0]))


def joined(text: str) -> str:
    """Join the halves of surrogate pairs, as a round trip through JSON does."""
    return _rejoined(text, "surrogatepass")


def mended(text: str) -> str:
    """Join the halves of surrogate pairs, and replace single halves by U+FFFD.

    No file, terminal or socket accepts single halves.
    """
    return _rejoined(text, "replace")


def _rejoined(text: str, errors: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", errors)
    return str(text)


def may_be_halved(document: str) -> bool:
    """Return true if JSON text may contain halves of surrogate pairs, as they are or escaped."""
    try:
        document.encode()
    except UnicodeEncodeError:
        return True
    return "\\" in document and ("\\ud" in document or "\\uD" in document)


def all_mended(value: Any) -> Any:
    """Mend all texts and keys of a JSON value."""
    match value:
        case str():
            return mended(value)
        case dict():
            return {mended(key): all_mended(item) for key, item in value.items()}
        case list():
            return [all_mended(item) for item in value]
    return value
