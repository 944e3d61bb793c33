"""JSON values of contexts, inputs, outputs and answers, and the parts of objects among them.

Values of hosts, tools and people are converted to JSON. Parts of objects have dotted names, such as
`address.city`, in states, conditions and replies. A reply that changes one part often sends only
that part. The other parts that the definition declares or names stay, at each level. A null part
counts as not mentioned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Integral, Real
from typing import Any, TypeGuard
from uuid import UUID

from msgspec import Struct, structs

from llm_fsm._json import JsonDict, JsonMap, Schemas, TextMap, frozen, without
from llm_fsm.conditions.coercion import look_up, mended

MAX_DEPTH = 32
MAX_VALUE_CHARS = 16_384
_MAX_INT = 2**63


class ValueFault(ValueError):
    """A value has no JSON form. The message says why."""


def to_json_value(value: object, depth: int = 0) -> Any:
    """Convert a Python value to JSON: dates as ISO 8601, sets as lists, decimals as numbers, and so
    on.

    Raises:
        ValueFault: The value has no JSON form, is not finite, too large or too deep.
    """
    match value:
        case None | bool():
            return value
        case Enum():
            return to_json_value(value.value, depth)
        case str():
            return mended(value)
        case int():
            if abs(value) > _MAX_INT:
                raise ValueFault("whole numbers must fit in 64 bits")
            return int(value)
        case Integral():
            return to_json_value(int(value), depth)
        case float() | Decimal() | Real():
            # A signaling NaN of Decimal raises when it is converted.
            number = math.nan if isinstance(value, Decimal) and value.is_snan() else float(value)
            if not math.isfinite(number):
                raise ValueFault("numbers must be finite, and whole ones fit in 64 bits")
            return number
    if depth >= MAX_DEPTH:
        raise ValueFault(f"it is nested deeper than {MAX_DEPTH} levels")
    return _to_json_structure(value, depth)


def to_context_value(value: object) -> Any:
    """Convert a value to JSON within the limits of a context.

    Raises:
        ValueFault: The value has no JSON form, is not finite, too deep or too long.
    """
    plain = to_json_value(value)
    # A text is measured as it is: its JSON form is longer in some scripts than in others.
    size = len(plain) if isinstance(plain, str) else len(json.dumps(plain))
    if size > MAX_VALUE_CHARS:
        raise ValueFault(f"it is {size} characters long; at most {MAX_VALUE_CHARS} are kept")
    return plain


def to_json_or_text(value: object) -> Any:
    """Convert a Python value to JSON; one without a JSON form to its text."""
    try:
        return to_json_value(value)
    except ValueFault:
        return str(value)


def to_json_key(key: object) -> str:
    """Convert a key of an object to text, as its value would be: numbers, dates, enums and paths
    have an evident form.

    Raises:
        ValueFault: The key has none.
    """
    # An Enum of texts is a text as well, but its value is what names it.
    if isinstance(key, str) and not isinstance(key, Enum):
        return mended(key)
    # One level is left, so a tuple or a set as a key is found out and refused.
    plain = to_json_value(key, MAX_DEPTH - 1)
    if isinstance(plain, dict | list):
        raise ValueFault(f"a {type(key).__name__} cannot be the key of an object; keys are text")
    return plain if isinstance(plain, str) else json.dumps(plain)


def _to_json_structure(value: object, depth: int) -> Any:
    match value:
        case Mapping():
            return {to_json_key(key): to_json_value(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [to_json_value(item, depth + 1) for item in value]
        case set() | frozenset():
            return sorted((to_json_value(item, depth + 1) for item in value), key=repr)
        case datetime() | date() | time() | timedelta():
            return _time(value)
        case UUID():
            return str(value)
        case Struct():
            return to_json_value(structs.asdict(value), depth)
    # `is_dataclass` is true for the class itself, too.
    if is_dataclass(value) and not isinstance(value, type):
        return to_json_value(asdict(value), depth)
    # Asked by name: the package works without pydantic.
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return to_json_value(dump(mode="json"), depth)
    to_path = getattr(value, "__fspath__", None)
    # A path of bytes has no evident text.
    path = to_path() if callable(to_path) else None
    if isinstance(path, str):
        return mended(path)
    content = content_of(value)
    if content is not value:
        return to_json_value(content, depth)
    if isinstance(value, Collection) and not isinstance(value, _WITHOUT_PARTS):
        return [to_json_value(item, depth + 1) for item in value]
    raise ValueFault(
        f"a {type(value).__name__} has no JSON form; give text, a number, a list or an object"
    )


def _time(value: datetime | date | time | timedelta) -> str | float:
    """Return a point in time as ISO 8601, and a span in seconds."""
    if value != value:  # noqa: PLR0124 - NaT of pandas is a datetime
        raise ValueFault("it is no time")
    return value.total_seconds() if isinstance(value, timedelta) else value.isoformat()


def content_of(value: object) -> object:
    """Return the content of an array, a table or a number of another library as Python's own types.

    The libraries have no common class, but methods of the same names.

    Args:
        value: Any value.

    Returns:
        A list, a number and so on; the value itself if it has no such method, or the method fails.
    """
    if isinstance(value, _WITHOUT_PARTS):
        return value
    for name, arguments in _CONTENT.items():
        method = getattr(value, name, None)
        # Many classes have a `to_dict`. Only that of tables takes "records".
        if not callable(method) or (name == "to_dict" and not hasattr(value, "columns")):
            continue
        try:
            content: object = method(*arguments)
        except Exception:  # a method of this name may be anything
            continue
        # A method that gives the same kind again would be asked for ever.
        return value if type(content) is type(value) else content
    return value


_WITHOUT_PARTS = (str, bytes, bytearray, memoryview, type)

_CONTENT: Mapping[str, tuple[object, ...]] = {
    "to_dicts": (),
    "to_pylist": (),
    "to_dict": ("records",),
    "tolist": (),
    "to_list": (),
    "item": (),
}
"""Methods that give the content: of tables of polars, pyarrow and pandas, of arrays and of numbers.
"""

Path = tuple[str, ...]


def paths(names: Iterable[str]) -> dict[str, frozenset[Path]]:
    """Map each key to the parts that dotted names refer to."""
    found: dict[str, set[Path]] = {}
    for name in names:
        key, *path = name.split(".")
        if path:
            found.setdefault(key, set()).add(tuple(path))
    return frozen(found)


def declared(schemas: JsonMap) -> Iterator[str]:
    """Yield the dotted names of all parts that schemas declare."""
    for key, schema in schemas.items():
        properties = schema.get("properties") if _is_object(schema) else None
        if _is_object(properties):
            for name in (*properties, *declared(properties)):
                yield f"{key}.{name}"


def reserved(sources: TextMap) -> dict[str, list[str]]:
    """Map keys that a model may write to declared dotted names that it may not.

    `sources` maps each declared key to its source. While such a dotted key is not set, its name
    refers to the part.
    """
    found: dict[str, list[str]] = {}
    for name, source in sources.items():
        key, dot, _ = name.partition(".")
        # A key that no reply may write needs no guard for its parts.
        if dot and source != "model" and sources.get(key) == "model":
            found.setdefault(key, []).append(name)
    return found


def reserved_fault(reserved: Mapping[str, Iterable[str]], key: str, value: object) -> str | None:
    """Return why a model may not write this value: a part of it belongs to the program. None: it
    may."""
    name = next(
        (name for name in reserved.get(key, ()) if look_up({key: value}, name) is not None), None
    )
    return None if name is None else f"{name} is for the program to write"


def completed(value: Any, old: object, wanted: Iterable[Path]) -> Any:
    """Add known parts to a value, at each level at which it lacks a wanted part."""
    if not (_is_object(value) and _is_object(old)):
        return value
    deeper: dict[str, set[Path]] = {}
    for name, *rest in wanted:
        deeper.setdefault(name, set()).update([tuple(rest)] if rest else ())
    said = _mentioned(value, old)
    # One wanted part that is missing shows that the reply sent only what changes.
    whole = {**old, **said} if deeper.keys() & old.keys() - said.keys() else value
    changed = {}
    for name, inner in deeper.items():
        if inner and name in said and name in old:
            changed[name] = completed(value[name], old[name], inner)
    return {**whole, **changed} if changed else whole


def _mentioned(value: JsonMap, old: JsonMap) -> JsonDict:
    """Return the parts that a value mentions.

    A null in the place of a known part does not count.
    """
    mentioned = {}
    for name, item in value.items():
        if item is None and name in old:
            continue
        mentioned[name] = item
    return mentioned


def joined(value: Any, old: object) -> Any:
    """Add known parts to an object, at each level. A null part counts as not mentioned."""
    if not (_is_object(value) and _is_object(old)):
        return value
    said = _mentioned(value, old)
    return {**old, **{name: joined(item, old.get(name)) for name, item in said.items()}}


def nulls(value: object) -> Iterator[Path]:
    """Yield the paths of all null parts of an object."""
    for name, item in value.items() if _is_object(value) else ():
        yield from (((name,),) if item is None else ((name, *path) for path in nulls(item)))


def only_nulls(value: object) -> bool:
    """Return true if null is all that an object says, at any depth: nothing in it was mentioned."""
    return value is None or (
        _is_object(value) and bool(value) and all(map(only_nulls, value.values()))
    )


def with_part(schema: JsonMap, whole: object, path: str, part: Any) -> Any:
    """Set a part of an object by its dotted name; None if the schema has no such part."""
    properties = schema.get("properties")
    if not (whole is None or _is_object(whole)) or not _is_object(properties):
        return None
    known: JsonMap = whole or {}
    # The whole rest first: a property may have a dot in its name.
    if path in properties:
        return {**known, path: part}
    name, dot, rest = path.partition(".")
    inner = properties.get(name)
    if not dot or not _is_object(inner):
        return None
    found = with_part(inner, known.get(name), rest, part)
    return None if found is None else {**known, name: found}


def without_part(whole: object, path: str) -> JsonDict | None:
    """Remove a part of an object by its dotted name; None if there is no such part."""
    if not path or not _is_object(whole):
        return None
    # As in `with_part`, a name with a dot takes precedence.
    if path in whole:
        return without(whole, (path,))
    name, _, rest = path.partition(".")
    inner = without_part(whole.get(name), rest)
    return None if inner is None else {**whole, name: inner}


def part_schema(schemas: Schemas, name: str) -> JsonMap:
    """Return the schema of a key or of a part with a dotted name; {} if it has none."""
    if name in schemas:
        return schemas[name]
    key, *path = name.split(".")
    found: object = schemas.get(key)
    for step in path:
        properties = found.get("properties") if _is_object(found) else None
        found = properties.get(step) if _is_object(properties) else None
    return found if _is_object(found) else {}


def _is_object(value: object) -> TypeGuard[JsonMap]:
    return isinstance(value, Mapping)
