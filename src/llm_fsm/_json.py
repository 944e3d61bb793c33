"""Small helpers for JSON: compact text, frozen values, and pointers (RFC 6901)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard, TypeVar

import msgspec

from llm_fsm.errors import UnreadableError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
JsonMap = Mapping[str, Any]
"""A JSON object that is only read."""
JsonDict = dict[str, Any]
"""A JSON object that its owner may change."""
TextMap = Mapping[str, str]
"""Texts by their names, which are only read."""
KeyTest = Callable[[str], bool]
"""Tells whether a key is of one kind, such as a secret key."""
Schemas = Mapping[str, JsonMap]
"""The JSON Schema of each key."""


def escape(key: str) -> str:
    """Write a key as a segment of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def unescape(segment: str) -> str:
    """Return the key of a segment of a JSON pointer."""
    return segment.replace("~1", "/").replace("~0", "~")


def step(key: str | int) -> str:
    """Write one step of a JSON pointer, with its slash."""
    return "/" + escape(str(key))


def pointer_of(path: Iterable[str | int]) -> str:
    """Return the JSON pointer of a path of keys and places."""
    return "".join(map(step, path))


def steps(pointer: str) -> list[str]:
    """Split a JSON pointer into its keys."""
    return [unescape(part) for part in pointer.split("/")[1:]]


def places_of(pointer: str) -> Iterator[str]:
    """Yield a JSON pointer and the pointers of all values around it, the whole document last."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""


def object_at(value: object, key: str) -> JsonMap:
    """Return the object that a member of a JSON value holds; an empty one if there is none."""
    found = member(value, key)
    return found if isinstance(found, Mapping) else {}


def member(value: object, key: str) -> Any:
    """Return a member of a JSON object; None if there is none, and for any other value."""
    return value.get(key) if isinstance(value, Mapping) else None


def list_at(value: object, key: str) -> list[Any]:
    """Return the list that a member of a JSON value holds; an empty one if there is none."""
    found = member(value, key)
    return found if isinstance(found, list) else []


def texts_at(value: object, key: str) -> list[str]:
    """Return the texts in the list that a member of a JSON value holds."""
    return of_kind(list_at(value, key), str)


def joined(value: object) -> str | None:
    """Return a text, which may be written as a list of lines; None for any other value."""
    lines = as_list(value)
    return "\n".join(lines) if is_list_of(lines, str) else None


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, and any other value as the only item of one."""
    return value if isinstance(value, list) else [value]


def is_list_of(value: object, kind: type[T]) -> TypeGuard[list[T]]:
    """Return true if a value is a list, and all its items are of this type."""
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def grouped(pairs: Iterable[tuple[K, T]], keys: Iterable[K] = ()) -> dict[K, list[T]]:
    """Return each key of the pairs with its values, in their order. `keys` come first, also those
    without a value.
    """
    found: dict[K, list[T]] = {key: [] for key in keys}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def without(values: Mapping[str, T], names: Container[object]) -> dict[str, T]:
    """Copy an object without these members."""
    return {name: value for name, value in values.items() if name not in names}


def only(values: Mapping[K, T], names: Container[object]) -> dict[K, T]:
    """Copy an object with these members alone."""
    return {name: value for name, value in values.items() if name in names}


def filled(values: Mapping[K, T]) -> dict[K, T]:
    """Copy an object without the members that are empty, 0, false or None."""
    return {name: value for name, value in values.items() if value}


def frozen(values: Mapping[K, Iterable[T]]) -> dict[K, frozenset[T]]:
    """Copy an object of sets into one of frozen sets."""
    return {name: frozenset(items) for name, items in values.items()}


def of_kind(values: Iterable[object], kind: type[T]) -> list[T]:
    """Return the values of one type, in order."""
    return [value for value in values if isinstance(value, kind)]


def without_none(values: Mapping[str, T | None]) -> dict[str, T]:
    """Copy an object without the members that are None."""
    return {name: value for name, value in values.items() if value is not None}


def is_same(one: object, other: object) -> bool:
    """Return true for equal values of one type: 1 and true are equal, and differ in JSON."""
    return type(one) is type(other) and bool(one == other)


def has_all(document: JsonMap, wanted: JsonMap) -> bool:
    """Return true if an object has all these members, with these values."""
    return all(document.get(name) == value for name, value in wanted.items())


def is_position(value: Any, part: str) -> bool:
    """Return true if a step of a path is the place of an item of a list."""
    return isinstance(value, list) and part.isdecimal() and int(part) < len(value)


def value_at(value: Any, pointer: str) -> Any:
    """Return the value at a JSON pointer in a document; None if there is none."""
    for part in steps(pointer):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif is_position(value, part):
            value = value[int(part)]
        else:
            return None
    return value


_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""Types of msgspec in words for people."""
SCALARS = frozenset((str, int, float, bool, type(None)))


def _as_object(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def json_text(value: object) -> str:
    """Write a JSON value as text for people to read, with spaces. Characters are unchanged."""
    return json.dumps(value, ensure_ascii=False)


def as_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json_text(value)


_UNICODE = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False, default=_as_object
)


def in_unicode(value: object) -> str:
    """Write a JSON value as compact text that is valid in UTF-8.

    Characters are unchanged. Halves of surrogate pairs are escaped.

    Raises:
        TypeError: The value has no JSON form.
        RecursionError: The value contains itself.
    """
    text = _UNICODE.encode(value)  # msgspec would write NaN as null
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def in_bytes(value: object) -> bytes:
    """Write a JSON value of finite numbers as `in_unicode` does, as UTF-8 and in a tenth of the
    time.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_as_object)
    except (UnicodeEncodeError, msgspec.MsgspecError):
        # half of a surrogate pair, or a key that is no text
        return in_unicode(value).encode()


def value_of(text: str | bytes) -> Any:
    """Read JSON as `json.loads` does, with the same errors, but faster if the text is correct."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return json.loads(text)


def copied(value: Any) -> Any:
    """Copy a JSON value, so that a host may change the copy."""
    if isinstance(value, dict | Mapping):
        return {
            key: item if type(item) in SCALARS else value_of(in_unicode(item))
            for key, item in value.items()
        }
    return value if type(value) in SCALARS else value_of(in_unicode(value))


def plain(value: Any) -> Any:
    """Convert a frozen value to JSON data: dicts, lists or tuples, text, numbers, booleans and
    None.
    """
    return msgspec.to_builtins(value, enc_hook=_without_subclass)


def text_of(value: Any) -> str:
    """Write a frozen value, or data made of such, as compact JSON text that is valid in UTF-8.
    Numbers are finite.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_without_subclass).decode()
    except UnicodeEncodeError:
        return in_unicode(plain(value))  # which writes halves of surrogate pairs


def _without_subclass(value: object) -> object:
    """Convert a value of a class that msgspec does not know, as a host may give one."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    return _as_object(value)


def read(document: Any, kind: type[T], name: str, *, strict: bool = True) -> T:
    """Convert JSON data to a frozen value.

    Args:
        document: The data as `plain` gave it, or the same data read from JSON text.
        kind: The class of the value.
        name: The name of the data, with which an error message begins.
        strict: False also accepts a number that is written as text, and a whole number that is a
            float.

    Raises:
        UnreadableError: The data does not have this shape. The message says where, and what would
            be right.
    """
    try:
        return msgspec.convert(document, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise UnreadableError(_explained(str(error), name)) from error


def _explained(message: str, name: str) -> str:
    """Write a message of msgspec ("Expected `str | null`, got `int` - at `$.state`") as a sentence
    for people.
    """
    what, _, place = message.partition(" - at `$")
    what = re.sub(r"`([^`]+)`", _in_words, what)
    return f"{name}{place.rstrip('`')}: {what[:1].lower()}{what[1:]}"


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_TYPES.get(kind, kind) for kind in types[1].split(" | "))
