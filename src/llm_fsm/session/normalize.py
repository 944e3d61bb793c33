"""Convert values of replies from a spoken form to the form of their schemas.

An ambiguous value (`2.300`, `03/04/2026`) stays as it is. The schema decides whether the result
fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple
from unicodedata import normalize

from llm_fsm._json import JsonMap, object_at, of_kind
from llm_fsm.conditions.coercion import plain_digits
from llm_fsm.definition.json_schema.validator import (
    CompiledSchema,
    ShapeError,
    compile_shape,
    types_of,
)
from llm_fsm.definition.names import UNSEEN
from llm_fsm.session.reply_schema import MAX_DEPTH, from_strict
from llm_fsm.session.values import ValueFault, joined, to_context_value, to_json_value

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}
_YES = "yes ja sí oui sim ano evet да ναι 네 예 はい 是 是的 نعم כן हाँ हां ใช่ có igen iya"
_NO = (
    "no nein nee nej non não nie hayır нет ні όχι 아니요 아니오 いいえ 否 不 不是 لا לא नहीं ไม่ không nem "
    "tidak"
)
_YES_NO = {**dict.fromkeys(_YES.split(), True), **dict.fromkeys(_NO.split(), False)}
"""A boolean in the user's language. "tak" is missing: it means yes in Polish and no in Malay."""
_BETWEEN = re.compile("[\\s_\u2010-\u2015\u2212-]+")
_QUOTES = str.maketrans("\u2018\u2019\u02bc", "'''")
"""Typographic apostrophes."""
_INSIDE = re.compile(r"(?<=[^\W\d]) (?=\w)|(?<=\w) (?=[^\W\d])")
"""A space between words, which many languages may leave out. A space between digits separates
numbers."""
_GROUPED = re.compile(r"[-+]?[1-9][0-9]{0,2}\.[0-9]{3}")
"""Ambiguous: a thousand times larger if the point separates thousands."""
_DAY = re.compile(
    r"([0-9]{4})\s*[-/.\u5e74\ub144]\s*"
    r"([0-9]{1,2})\s*[-/.\u6708\uc6d4]\s*"
    r"([0-9]{1,2})\s*[.\u65e5\uc77c]?"
    r"(?:[T ]00:00(?::00(?:\.0+)?)?Z?)?"
)
"""A date that begins with its year, which is never ambiguous; a time of midnight may follow."""
_DAY_OR_MONTH = re.compile(r"([0-9]{1,2})\s*([-/.])\s*([0-9]{1,2})\s*\2\s*([0-9]{4})")
"""A date that ends with its year. Its month is certain if the other number exceeds 12."""
_TIME = re.compile(r"([01]?[0-9]|2[0-3])[:.h]([0-5][0-9](?::[0-5][0-9])?)")
"""A time. Accepted are a missing zero, a point (Greek, German) and an h (French, Vietnamese)."""
_HALF_DAY = re.compile(r"(0?[1-9]|1[0-2]):([0-5][0-9])\s*([AaPp])\.?[Mm]\.?")
_ACCENTS = re.compile("[\u0300-\u036f]")
"""Accents of Latin, Greek and Cyrillic letters. In other scripts, such marks change the sound."""
_BARRED = str.maketrans("\u0111\u0142\u00f8\u0131", "dloi")
"""Letters with strokes that Unicode does not decompose: Vietnamese, Polish, Danish and Turkish."""
_GROUP = "[0-9]{1,12}"
_GROUPS = re.compile(
    rf"\+{_GROUP}(?:[\s-]{_GROUP}){{1,8}}"
    rf"|\(?{_GROUP}(?:[\s()-]{{1,3}}{_GROUP}){{1,8}}"
    rf"|{_GROUP}(?:\.{_GROUP}){{2,8}}"
)
"""A long number in groups."""
_CODE = re.compile(r"(?=(?:[^0-9]*[0-9]){3})[A-Z]{1,4}[0-9]{0,12}(?:[\s-][A-Z0-9]{1,12}){1,8}")
"""A number in groups that begins with letters: an account, an order, a passport."""
_PARTS = re.compile("[A-Z0-9]+")
_OF_TEXT = ("pattern", "minLength", "maxLength")
_MONTHS, _DAYS = 12, 31
_LONG = range(9, 17)
"""Digits of a number in groups. Fewer may be a date, more may be two numbers."""
_GROUP_DIGITS = 6
"""Most digits of one group. Two numbers in a row have longer groups."""
_SIGNS = str.maketrans("\uff0e\uff0d\uff0b\u2212", ".-+-")
"""Full-width signs and the typographic minus."""
_PLAIN = re.compile(r"[-+]?[0-9]{1,15}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,2})?")
"""A number, with leading zeros or a plus if it has them; JSON accepts neither."""
_THOUSANDS = re.compile("[-+]?[1-9][0-9]{0,2}(?:\u066c[0-9]{3})+(?:\u066b[0-9]+)?")
"""A number with the Arabic thousands separator."""
_DECIMAL = re.compile("([-+]?[0-9]{1,15})\u066b([0-9]+)|([-+]?0),([0-9]+)")
"""A number with the Arabic decimal separator, or with a comma that cannot separate thousands."""
_LONGEST_WORD = 4
"""A text longer than this many times the longest enum word cannot be one of the words."""
_SEVERAL = re.compile('[,;\n\u060c\u3001\uff0c]|^\\s*[\\[{"]')
"""What a text of several values has: separators, or the beginning of JSON."""
_MOST_CHOICES = 100
_Path = tuple[str | int, ...]
_OF_KIND = ("type", "enum", "const", "anyOf", "oneOf")
"""Schema keys that say which kind of number is taken. The others are about its size."""


class WrittenForm(NamedTuple):
    """A form of a value: as it was written, as it is stored, and why its schema refuses it."""

    written: Any
    value: Any
    fault: str | None


def forms(
    shape: CompiledSchema, value: Any, old: object = None, *, said: bool
) -> Iterator[WrittenForm]:
    """Yield the forms of a value up to the first one that its schema takes, the likeliest first.

    This is the one order in which values are read, whoever wrote them: replies, programs, tools,
    `set`, flows and answers.

    Args:
        shape: The schema.
        value: The value, as JSON.
        old: The value before. Parts of an object are added to its known parts.
        said: True for a reply, in which null means "not mentioned". Elsewhere a null part is left
            out only if the schema refuses it.
    """
    schema, limited = shape.schema, to_context_value if said else to_json_value
    for written in chain([value], normalised(schema, from_strict(schema, value), old)):
        plain = written
        if said or written is not value:
            try:
                plain = limited(from_strict(schema, written))
            except ValueFault as excess:
                yield WrittenForm(written, None, str(excess))
                continue
            if plain is None and said:
                continue
        fault = shape.fault(plain)
        if fault is None:
            plain, fault = as_integers(shape, plain)
        yield WrittenForm(written, plain, fault)
        if fault is None:
            return


def as_schema(shape: CompiledSchema, value: Any) -> tuple[Any, str | None]:
    """Read a value as its schema means it.

    Args:
        shape: The schema.
        value: The value, as JSON.

    Returns:
        The first form that fits, and None. If none fits, the value and the reason.
    """
    found = [*forms(shape, value, said=False)]
    return (value, found[0].fault) if found[-1].fault else (found[-1].value, None)


def as_integers(shape: CompiledSchema, value: Any) -> tuple[Any, str | None]:
    """Write each whole float as an integer where the schema takes no fraction.

    A float is shown with a point or an exponent, which users do not write.

    Args:
        shape: The schema, which takes the value.
        value: The value, as JSON.

    Returns:
        The value and None; or the value as it was and the reason if a number is too large.
    """
    fraction = _with_whole_floats(value, lambda _path, _number: 0.5)
    if fraction == value:
        return value, None
    found = set()
    for error in shape.validator.iter_errors(fraction):
        if error.kind.name in _OF_KIND:
            found.add(tuple(error.instance_path))

    def written(path: _Path, number: float) -> Any:
        is_whole = any(path[:depth] in found for depth in range(len(path) + 1))
        return to_json_value(int(number)) if is_whole else number

    try:
        return _with_whole_floats(value, written), None
    except ValueFault as fault:
        return value, str(fault)


def _with_whole_floats(value: Any, change: Callable[[_Path, float], Any], path: _Path = ()) -> Any:
    """Replace each float without a fraction; `change` gets its path and the float."""
    match value:
        case dict():
            return {
                key: _with_whole_floats(item, change, (*path, key)) for key, item in value.items()
            }
        case list():
            return [
                _with_whole_floats(item, change, (*path, index)) for index, item in enumerate(value)
            ]
        case float() if value.is_integer():
            return change(path, value)
    return value


def normalised(schema: JsonMap, value: object, old: object) -> Iterator[Any]:
    """Yield other forms of a value that its schema refuses, the likeliest first.

    Args:
        schema: The schema that refuses the value.
        value: The value of the reply.
        old: The value before. Parts of an object are added to its known parts.

    Yields:
        Candidates. The schema decides whether one fits.
    """
    # The order is that of certainty: what the schema says, then the words, then the known parts.
    meant = _meant(schema, value)
    yield meant
    if isinstance(value, str):
        yield _said(schema, value)
    if isinstance(meant, dict) and isinstance(old, Mapping):
        yield joined(meant, old)
    if (plain := _in_plain_digits(value)) != value:
        yield from normalised(schema, plain, old)


def branches_of(schema: JsonMap) -> list[JsonMap]:
    """Return the schemas of `anyOf` and `oneOf`, also of nested ones; the schema itself if it has
    none.
    """
    branches: list[JsonMap] = []
    for item in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        branches += branches_of(item) if isinstance(item, Mapping) else []
    return branches or [schema]


def _in_plain_digits(value: Any, depth: int = 0) -> Any:
    """Write digits of every script as ASCII, except in words within a larger value."""
    match value:
        case str() if not depth or not any(map(str.isalpha, value)):
            return plain_digits(value)
        case dict() if depth < MAX_DEPTH:
            return {name: _in_plain_digits(item, depth + 1) for name, item in value.items()}
        case list() if depth < MAX_DEPTH:
            return [_in_plain_digits(item, depth + 1) for item in value]
    return value


def _meant(schema: JsonMap, value: object, depth: int = 0) -> Any:
    """Convert a value to the form that its schema asks for, as far as it is certain."""
    if depth >= MAX_DEPTH:
        return value
    # Null beside one other type is only "or nothing", and no choice between forms.
    branches = [branch for branch in branches_of(schema) if types_of(branch) != {"null"}]
    if len(branches) > 1:
        return next(_of_branches(branches, value, depth + 1), value)
    schema = branches[0] if branches else schema
    # Not `isinstance`: true and false are whole numbers in Python.
    if type(value) is int and _takes_texts(schema):
        return _as_text(schema, value)
    items = object_at(schema, "items")
    if _has_form(schema, value):
        match value:
            case str():
                return _in_format(schema, value)
            case dict():
                return {
                    name: _meant(_part_schema(schema, name), item, depth + 1)
                    for name, item in value.items()
                }
            case list():
                return [_meant(items, item, depth + 1) for item in value]
        return value
    # Only a text can mean something else than it is.
    found = _said(schema, value) if isinstance(value, str) else value
    if isinstance(found, dict) and found is not value and _has_form(schema, found):
        return _meant(schema, found, depth + 1)  # the parts of an object in a text
    if schema.get("type") != "array" or isinstance(found, list | None):
        return found
    if isinstance(found, str) and "enum" in items:
        one = _meant(items, found, depth + 1)
        return [one] if _has_form(items, one) else _choices(items, found, depth + 1)
    # Who lists several things means a list, and where it parts is not certain.
    if isinstance(found, str) and _SEVERAL.search(found):
        return found
    return _meant(schema, [found], depth + 1)


def _of_branches(branches: Iterable[JsonMap], value: object, depth: int) -> Iterator[Any]:
    """Yield the forms of a value that schemas of a union take."""
    for branch in branches:
        found = _meant(branch, value, depth)
        with suppress(ShapeError):
            if compile_shape(branch).fault(found) is None:
                yield found


def _choices(items: JsonMap, text: str, depth: int) -> list[Any]:
    """Split a text into choices. It stays whole if a choice contains a separator, or if there are
    too many."""
    enum, parts = items["enum"], _SEVERAL.split(text, _MOST_CHOICES)
    if len(parts) > _MOST_CHOICES or any(
        isinstance(word, str) and _SEVERAL.search(word) for word in enum
    ):
        return [text]
    return [_meant(items, part.strip(), depth) for part in parts]


def _part_schema(schema: JsonMap, name: str) -> JsonMap:
    """Return the schema of a part of an object; {} if it has none."""
    named = object_at(schema, "properties")
    return object_at(named if name in named else {name: schema.get("additionalProperties")}, name)


def _takes_texts(schema: JsonMap) -> bool:
    """Return true if a schema takes texts and nothing else but null."""
    kinds, enum = types_of(schema), schema.get("enum")
    if not kinds and isinstance(enum, list):
        return all(isinstance(word, str | None) for word in enum)
    return kinds - {"null"} == {"string"}


def _as_text(schema: JsonMap, number: int) -> str | int:
    """Write a whole number as its digits. It stays where the schema also takes them behind a zero,
    which JSON has not.

    A fraction is never written as text, because JSON drops zeros at its end: a version 1.10 is 1.1.
    """
    text, zero = (f"{'-' * (number < 0)}{more}{abs(number)}" for more in ("", "0"))
    known = schema.get("enum")
    if isinstance(known, list):
        return number if zero in known else text
    return number if "pattern" in schema and any(_fitting(schema, [zero])) else text


def _has_form(schema: JsonMap, value: object) -> bool:
    """Return true if a value has the type that a schema names, and is in its enum."""
    kind, enum = schema.get("type"), schema.get("enum")
    if isinstance(enum, list) and value not in enum:
        return False
    if not isinstance(kind, str) or kind not in _TYPES:
        return not isinstance(value, str) or kind is None
    return isinstance(value, _TYPES[kind]) and (isinstance(value, bool) is (kind == "boolean"))


def _said(schema: JsonMap, text: str) -> Any:
    """Read a text as a word of an enum with other letters, as yes or no, or as JSON."""
    text, enum = text.strip(UNSEEN), schema.get("enum")
    words = of_kind(enum, str) if isinstance(enum, list) else []
    same: list[str] = []
    # From strict to loose: the first form in which a word is found decides, so accents count
    # where two words differ by them.
    for form in (
        (letters, _bare, _joined)
        if words and len(text) <= _LONGEST_WORD * max(map(len, words))
        else ()
    ):
        meant = form(text)
        same = same or [word for word in words if form(word) == meant]
    if same:
        return same[0] if len(same) == 1 else text
    if schema.get("type") == "boolean" and text.casefold() in _YES_NO:
        return _YES_NO[text.casefold()]
    if _counts(schema) and (number := _number(plain_digits(text).translate(_SIGNS))) is not None:
        return number
    # JSON would read 2.300 as 2.3, and a thousand times more may be meant.
    if _GROUPED.fullmatch(plain_digits(text)):
        return text
    try:
        plain = text.lower() if text.casefold() in ("true", "false") else plain_digits(text)
        return json.loads(plain)
    except (ValueError, RecursionError):
        return text


def _counts(schema: JsonMap) -> bool:
    """Return true for the schema of a number that cannot be a list: `0,5` may be either."""
    kinds = types_of(schema)
    return "array" not in kinds and not kinds.isdisjoint(("integer", "number"))


def _number(text: str) -> int | float | None:
    """Read a number that JSON would not accept; None if it is ambiguous or no number.

    A comma between single digits may separate two numbers ("2,3 days"). Before three digits, it
    separates thousands.
    """
    plain = text.replace("\u066c", "") if _THOUSANDS.fullmatch(text) else text
    if found := _DECIMAL.fullmatch(plain):
        whole, part = (found[1], found[2]) if found[1] else (found[3], found[4])
        return float(f"{whole}.{part}")
    if plain == text and (_GROUPED.fullmatch(text) or not _PLAIN.fullmatch(text)):
        return None
    return int(plain) if plain.lstrip("+-").isdecimal() else float(plain)


def _in_format(schema: JsonMap, text: str) -> str:
    """Write a date or a time as ISO 8601, and a number without its groups, if the text is
    unambiguous.

    A pattern may ask for a number without spaces. Groups that may be numbers of their own stay:
    "10000-20000" may be two numbers. After letters, "TR33 0006 1005" is one number, but "AB12 34"
    may be a code and a count. If the pattern accepts letters and digits anywhere, a group of
    letters may be a word: "BUY 100 MSFT".
    """
    plain, form, patterned = (plain_digits(text).strip(), schema.get("format"), "pattern" in schema)
    # The text fits, so another part of the value was refused.
    if patterned and any(_fitting(schema, [text])):
        return text
    if (form == "date" or patterned) and (found := _DAY.fullmatch(plain)):
        return f"{found[1]}-{found[2]:0>2}-{found[3]:0>2}"
    if (form == "date" or patterned) and (found := _DAY_OR_MONTH.fullmatch(plain)):
        first, second = int(found[1]), int(found[3])
        if (
            0 < min(first, second) <= _MONTHS < max(first, second) <= _DAYS
            or 0 < first == second <= _MONTHS
        ):
            return f"{found[4]}-{min(first, second):02}-{max(first, second):02}"
    if (form == "time" or patterned) and (found := _HALF_DAY.fullmatch(plain)):
        return f"{int(found[1]) % 12 + 12 * (found[3] in 'Pp'):02}:{found[2]}"
    if (form == "time" or patterned) and (found := _TIME.fullmatch(plain)):
        time = f"{found[1]:0>2}:{found[2]}"
        return time if any(_fitting(schema, [time])) else re.sub(r"(?<=:..):00$", "", time)
    if not patterned:
        return text
    # From here on, the question is whether groups are one number or several.
    groups = _PARTS.findall(plain)
    joined = "".join(groups)
    if _GROUPS.fullmatch(plain) and _is_one(schema, groups, sign := "+" * (plain[0] == "+")):
        return sign + joined
    if not _CODE.fullmatch(plain) or any(_fitting(schema, groups)):
        return text
    # A pattern that takes letters and digits anywhere proves nothing about the groups.
    is_loose = all(_fitting(schema, [letter * len(joined) for letter in "A0"]))
    return text if is_loose and any(map(str.isalpha, groups)) else joined


def _is_one(schema: JsonMap, groups: list[str], sign: str) -> bool:
    """Return true if groups of digits, after a sign, are certainly one number."""
    digits = sum(map(len, groups))
    if digits >= _LONG.stop:
        ends = []
        # Each end that fits by itself may be a number of its own.
        for cut in range(1, len(groups)):
            ends += [sign + "".join(groups[:cut]), "".join(groups[cut:])]
        return not any(_fitting(schema, ends))
    return (
        digits in _LONG
        and max(map(len, groups)) <= _GROUP_DIGITS
        and not all(_fitting(schema, groups))
    )


def _fitting(schema: JsonMap, texts: Iterable[str]) -> Iterator[bool]:
    """Yield for each text whether it fits the schema by itself."""
    shape = compile_shape({name: schema[name] for name in _OF_TEXT if name in schema})
    return (shape.fault(text) is None for text in texts)


def letters(text: str) -> str:
    """Fold case and the separators between words."""
    return _BETWEEN.sub(" ", normalize("NFKC", text).casefold().translate(_QUOTES))


def _bare(text: str) -> str:
    """Remove accents from the letters of a text. Names of choices often lack them."""
    return _ACCENTS.sub("", normalize("NFD", letters(text))).translate(_BARRED)


def _joined(text: str) -> str:
    """Remove the separators between words."""
    return _INSIDE.sub("", _bare(text))
