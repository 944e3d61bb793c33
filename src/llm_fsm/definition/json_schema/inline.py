"""Simplify JSON Schemas: replace references, and reduce unions to one type or a list of values.

Programs that make schemas write an enum as a reference, and an optional value as a union with null.
A model reads the simple form better, and strict modes take it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, TextMap, is_list_of, member, object_at, without

MAX_NODES = 10_000
"""The most parts of a schema whose references are replaced."""
_DEEPEST = 100
_MAPS = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains"})
_INSIDE = re.compile("#/(definitions|properties)/([^/]+)((?:/.*)?)")
_NULL = {"type": "null"}
_NOTES = frozenset({"title", "description", "default", "examples", "deprecated"})
"""Keywords that restrict no value."""
_IMPLIED = {"object": ("properties",), "array": ("items",), "string": ("format",)}
"""Types that other keywords imply. A pattern does not, because one of digits would look like a
number's.
"""


def simplified(schema: JsonMap, defs: object) -> JsonDict:
    """Simplify the schema of a key; `defs` is the target of `#/$defs/…`.

    It accepts the same values, except null, which is no value of a key. A schema that is too large
    or too deep is unchanged.
    """
    try:
        flat = flattened({"$defs": defs, **schema})
        if flat.get("$defs") is defs:
            del flat["$defs"]
        found: JsonDict = _plain(flat)
    except RecursionError:
        return dict(schema)
    kinds = found.get("type")
    if isinstance(kinds, list) and len(rest := [kind for kind in kinds if kind != "null"]) == 1:
        found["type"] = rest[0]
        if isinstance(found.get("enum"), list):
            found["enum"] = [value for value in found["enum"] if value is not None]
    return found


def lean(schema: Any) -> Any:
    """Return a schema without the types that its values, parts or format imply."""
    if not isinstance(schema, dict):
        return schema
    found = mapped(schema, lean)
    kind = schema.get("type")
    told = _IMPLIED.get(kind, ()) if isinstance(kind, str) else ()
    if any(word in found for word in ("enum", "const", *told)):
        return without(found, {"type"})
    return found


def _plain(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    made = mapped(node, _plain)
    for word in ("allOf", "anyOf", "oneOf"):
        made = _straight(made, word)
    members = made.get("properties")
    if isinstance(members, dict):
        made["properties"] = {name: _untitled(item, name) for name, item in members.items()}
    return made


def _untitled(schema: Any, name: str) -> Any:
    """Return the schema of a member, without a title that only repeats its name."""
    title = member(schema, "title")
    if (
        not isinstance(title, str)
        or "".join(title.split()).casefold() != name.replace("_", "").casefold()
    ):
        return schema
    return without(schema, {"title"})


def _straight(node: JsonDict, word: str) -> JsonDict:
    """Return a union without its list, if it has one schema beside null, or only single values."""
    options = node.get(word)
    if not is_list_of(options, dict):
        return node
    rest = without(node, {word})
    some = options if word == "allOf" else [option for option in options if option != _NULL]
    if len(some) == 1 and not (some[0].keys() & rest.keys()) - _NOTES:
        one = {**some[0], **rest}
        if len(options) == 1:
            return one
        return _or_null(one, node)
    if (
        word != "allOf"
        and len(some) > 1
        and "enum" not in rest
        and all(_is_value(option) for option in some)
    ):
        values = [option["const"] for option in some]
        if len(options) == len(some) and all(
            value not in values[:place] for place, value in enumerate(values)
        ):
            return {**rest, **_told(rest, some), "enum": values}
    return node


def _told(rest: JsonMap, options: list[JsonDict]) -> dict[str, str]:
    """Return the description of a list of values that have titles."""
    named = "; ".join(
        f"{option['const']}: {option['title']}" for option in options if option.get("title")
    )
    if not named:
        return {}
    words = rest.get("description")
    return {"description": f"{words} ({named})" if words else named}


def _is_value(option: JsonMap) -> bool:
    return "const" in option and option.keys() <= _NOTES | {"const", "type"}


def _or_null(one: JsonDict, node: JsonDict) -> JsonDict:
    """Return a schema that also accepts null; `node` if its type cannot express that."""
    if not isinstance(one.get("type"), str) or "const" in one:
        return node
    enum = {"enum": [*one["enum"], None]} if isinstance(one.get("enum"), list) else {}
    return {**one, "type": [one["type"], "null"], **enum}


def mapped(schema: JsonMap, change: Callable[[Any], Any]) -> JsonDict:
    """Return a schema with its direct subschemas changed; values such as defaults and enums
    stay.
    """
    made: JsonDict = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            made[key] = {name: change(item) for name, item in value.items()}
        elif key in _LISTS and isinstance(value, list):
            made[key] = [change(item) for item in value]
        elif key in _SINGLE:
            made[key] = change(value)
        else:
            made[key] = value
    return made


def flattened(schema: JsonMap) -> JsonDict:
    """Return a schema with its `#/$defs/…` references replaced by their targets.

    Recursive definitions stay under `$defs`. A schema that would grow too large or too deep is
    unchanged.
    """
    defs = schema.get("$defs")
    if not isinstance(defs, dict):
        return dict(schema)
    kept = set()
    left = MAX_NODES

    def inline(node: Any, inside: frozenset[str]) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or len(inside) > _DEEPEST:
            raise _TooLarge
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if "$ref" not in node or name not in defs:
            return mapped(node, lambda part: inline(part, inside))
        if name in inside:
            kept.add(name)
            return dict(node)
        beside = without(node, {"$ref"})
        target = inline(defs[name], inside | {name})
        if isinstance(target, dict):
            return {**target, **beside}
        return target

    try:
        made: JsonDict = inline(without(schema, {"$defs"}), frozenset())
        done: JsonDict = {}
        while kept - done.keys():
            for name in sorted(kept - done.keys()):
                done[name] = inline(defs[name], frozenset({name}))
    except _TooLarge:
        return dict(schema)
    return {**made, "$defs": done} if done else made


def with_defs(schema: JsonDict) -> tuple[JsonDict, TextMap]:
    """Return a `context_schema` in which references between keys, and to `definitions`, lead to
    `$defs`.

    Values are checked by the schema of a key alone, with `$defs` beside it. The second result maps
    each new name in `$defs` to its old place. Without new names, the schema is returned unchanged.
    """
    older, members, defs = (
        object_at(schema, word) for word in ("definitions", "properties", "$defs")
    )
    added: JsonDict = {}
    origins = {}

    def change(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        made = mapped(node, change)
        reference = node.get("$ref")
        found = None
        if isinstance(reference, str):
            found = _INSIDE.fullmatch(reference)
        if found is None:
            return made
        word, name, rest = found.groups()
        source = older if word == "definitions" else members
        if name not in source:
            return made
        called = name
        if name in defs or (word == "properties" and name in older):
            called = f"{name}_of_{word}"
        if called not in added:
            added[called] = None  # a recursive key is visited again
            added[called] = change(_unsettled(source[name]))
            origins[called] = f"/{word}/{name}"
        return {**made, "$ref": f"#/$defs/{called}{rest}"}

    try:
        made = without(mapped(schema, change), {"definitions"})
    except RecursionError:
        return schema, {}
    return ({**made, "$defs": {**made.get("$defs", {}), **added}} if added else schema), origins


def _unsettled(schema: Any) -> Any:
    """Return the schema of a key without the key's own settings, which referring keys do not
    share.
    """
    if not isinstance(schema, dict):
        return schema
    return {word: value for word, value in schema.items() if not word.startswith("x-")}


class _TooLarge(Exception):
    """Inlining would make a schema that no model reads."""
