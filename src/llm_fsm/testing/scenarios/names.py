"""Names of a definition in a file of its tests: their places, and tests that follow a renaming.

The places come from the models of the file: a field that is marked with `Naming` holds names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from llm_fsm._json import escape, step, steps, unescape, value_at
from llm_fsm.conditions.operators import EQUALITIES
from llm_fsm.documents import patch
from llm_fsm.testing.scenarios.models import Case, Naming, Suite, Written, WrittenAs

_COLUMN = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_STATES = frozenset({"_current_state", "_previous_state"})
"""Names in rules whose values are ids of states."""
_COMPARISONS = EQUALITIES | {"in"}
_READ = frozenset({"var", "missing", "missing_some"})
"""Operations of rules whose arguments are context keys."""


class Renaming(NamedTuple):
    """A state or a context key that has another name from now on."""

    kind: Literal["state", "key"]
    name: str
    to: str


class NamePlace(NamedTuple):
    """A text, or with `at_key` a key, that names something of the definition."""

    pointer: str
    naming: Naming
    at_key: bool = False


def renamed(text: str, renamings: Sequence[Renaming]) -> str:
    """Let a file of tests follow renamings of its definition. All other bytes stay.

    Args:
        text: The text of the file.
        renamings: The renamings. All are made at once, so two names can be swapped.

    Returns:
        The new text.

    Raises:
        PatchError: The text is no JSON, or an object has the old and the new key.

    Example:
        renamed(text, [Renaming("state", "pay", "till")])
    """
    maps: dict[Naming, dict[str, str]] = {Naming.STATE: {}, Naming.KEY: {}}
    for one in renamings:
        maps[Naming(one.kind)][one.name] = one.to
    document = patch.read(text).scan.value
    values: dict[str, str] = {}
    keys: dict[str, str] = {}
    for place in places(document):
        if place.at_key:
            old = steps(place.pointer)[-1]
            changed = keys
        else:
            old = value_at(document, place.pointer)
            changed = values
        new = _new(old, place.naming, maps)
        if new != old:
            changed[place.pointer] = new
    if values:
        text = patch.replace_scalars(text, list(values.items()))
    if keys:
        text = patch.rename_keys(text, list(keys.items()))
    return text


def composed(renamings: Sequence[Renaming]) -> list[Renaming]:
    """Return renamings that do at once what some do one after the other.

    Args:
        renamings: The renamings, in the order in which they were made.

    Returns:
        One renaming for each name that has another one in the end.

    Example:
        composed([Renaming("state", "a", "b"), Renaming("state", "b", "c")])  # a to c
    """
    last: dict[tuple[Literal["state", "key"], str], str] = {}
    for one in renamings:
        first = one.name
        for (kind, old), new in last.items():
            if kind == one.kind and new == one.name:
                first = old
        last[one.kind, first] = one.to
    return [Renaming(kind, old, new) for (kind, old), new in last.items() if old != new]


def _new(old: str, naming: Naming, maps: Mapping[Naming, Mapping[str, str]]) -> str:
    if naming is Naming.POINTER:
        parts = old.split("/")
        if len(parts) > 2 and parts[1] == "states":
            state = unescape(parts[2])
            parts[2] = escape(maps[Naming.STATE].get(state, state))
        return "/".join(parts)
    names = maps[naming]
    if old in names or naming is Naming.STATE:
        return names.get(old, old)
    head, dot, rest = old.partition(".")  # a path into the value of a key
    return names.get(head, head) + dot + rest


def places(document: Any) -> Iterator[NamePlace]:
    """Yield the places of all names in a file of tests, also in one with faults."""
    yield from _with_rows(document, _in_model(Suite, document, ""))
    yield from _with_rows(document, _in_model(Case, document, ""))


def _with_rows(document: Any, found: Iterator[NamePlace]) -> Iterator[NamePlace]:
    """Yield the places. A place that holds a column of a table is that column of each row."""
    for place in found:
        yield place
        if place.at_key:
            continue
        column = _COLUMN.fullmatch(value_at(document, place.pointer))
        if column is None:
            continue
        case = ""
        parts = place.pointer.split("/")
        if parts[1] == "cases":
            case = "/".join(parts[:3])
        rows = value_at(document, f"{case}/table")
        if not isinstance(rows, list):
            continue
        for number in range(len(rows)):
            cell = f"{case}/table/{number}/{column[1]}"
            yield from _named(value_at(document, cell), cell, place.naming)


def _in_model(model: type[Written], value: Any, pointer: str) -> Iterator[NamePlace]:
    """Yield the places in an object of the file, or in its short form."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if not isinstance(value, dict):
        short = model.short or model.exact
        if short:
            field = fields[short]
            yield from _in_field(field.annotation, field.metadata, value, pointer)
        return
    if model.exact and not value.keys() <= fields.keys():
        field = fields[model.exact]
        yield from _in_field(field.annotation, field.metadata, value, pointer)
    for key, item in value.items():
        place = pointer + step(key)
        if key in fields:
            field = fields[key]
            yield from _in_field(field.annotation, field.metadata, item, place)
        elif key in model.others:
            yield from _named(item, place, model.others[key])


def _in_field(
    annotation: Any, marks: Sequence[Any], value: Any, pointer: str
) -> Iterator[NamePlace]:
    """Yield the places in the value of a field, by the type and the marks of the field."""
    if value is None:
        return
    for mark in marks:
        if isinstance(mark, Naming):
            yield from _named(value, pointer, mark)
            return
        if isinstance(mark, WrittenAs):
            yield from _in_model(mark.shape, value, pointer)
            return
    yield from _in_type(annotation, value, pointer)


def _in_type(annotation: Any, value: Any, pointer: str) -> Iterator[NamePlace]:
    origin = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        yield from _in_field(parts[0], parts[1:], value, pointer)
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _in_type(part, value, pointer)
    elif origin is list and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _in_type(parts[0], item, f"{pointer}/{number}")
    elif origin is list:  # a single item may be written without its list
        yield from _in_type(parts[0], value, pointer)
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _in_type(parts[1], item, pointer + step(key))
    elif isinstance(annotation, type) and issubclass(annotation, Written):
        yield from _in_model(annotation, value, pointer)


def _named(value: Any, pointer: str, naming: Naming) -> Iterator[NamePlace]:
    """Yield the places in a value that holds names: a text, a list of texts, or keys."""
    if naming is Naming.RULE:
        yield from _in_rule(value, pointer)
    elif isinstance(value, str):
        yield NamePlace(pointer, naming)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _named(item, f"{pointer}/{number}", naming)
    elif isinstance(value, dict):
        for key in value:
            yield NamePlace(pointer + step(key), naming, at_key=True)


def _in_rule(value: Any, pointer: str) -> Iterator[NamePlace]:
    """Yield the keys that a rule reads, and the states that it compares with the current one."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _in_rule(item, f"{pointer}/{number}")
    if not isinstance(value, dict):
        return
    for operation, given in value.items():
        place = pointer + step(operation)
        if operation in _READ:
            yield from _read_keys(operation, given, place)
        elif operation in _COMPARISONS and isinstance(given, list) and any(map(_is_state, given)):
            for number, part in enumerate(given):
                if isinstance(part, str | list):
                    yield from _named(part, f"{place}/{number}", Naming.STATE)
        yield from _in_rule(given, place)


def _read_keys(operation: str, given: Any, pointer: str) -> Iterator[NamePlace]:
    if operation == "var" and isinstance(given, list):
        given = given[:1]  # a default value follows
    if operation == "missing_some" and isinstance(given, list) and len(given) > 1:
        given, pointer = given[1], f"{pointer}/1"
    if isinstance(given, str | list):
        yield from _named(given, pointer, Naming.KEY)


def _is_state(part: Any) -> bool:
    name = part.get("var") if isinstance(part, dict) else None
    if isinstance(name, list) and name:
        name = name[0]
    return isinstance(name, str) and name in _STATES
