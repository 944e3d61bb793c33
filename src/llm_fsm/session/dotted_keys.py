"""Parts of objects that states and conditions ask for by name (`address.city`), and that a reply may send so.

A reply that changes one part often sends that part alone; the others that are asked for stay beside it, at each level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from llm_fsm.conditions.coercion import look_up

Path = tuple[str, ...]


def paths(names: Iterable[str]) -> dict[str, frozenset[Path]]:
    """The parts that dotted names ask for, by the key that they are parts of."""
    found: dict[str, set[Path]] = {}
    for name in names:
        key, *path = name.split(".")
        if path:
            found.setdefault(key, set()).add(tuple(path))
    return {key: frozenset(parts) for key, parts in found.items()}


def reserved(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Keys that a model may write, with those declared by the names of their parts that it may not.

    `sources`: who writes each declared key. As long as such a key is not set, its name means the part.
    """
    found: dict[str, list[str]] = {}
    for name, source in sources.items():
        key, dot, _ = name.partition(".")
        if dot and source != "model" and sources.get(key) == "model":
            found.setdefault(key, []).append(name)
    return found


def trespass(reserved: Mapping[str, Iterable[str]], key: str, value: object) -> str | None:
    """Why a model may not write this value: it has a part that is a key of the program. None: it may."""
    name = next((name for name in reserved.get(key, ()) if look_up({key: value}, name) is not None), None)
    return None if name is None else f"{name} is for the program to write"


def completed(value: Any, old: object, wanted: Iterable[Path]) -> Any:
    """A value beside the parts that it had, at each level where it lacks one of the wanted ones that is known."""
    if not (_is_object(value) and _is_object(old)):
        return value
    deeper: dict[str, set[Path]] = {}
    for name, *rest in wanted:
        deeper.setdefault(name, set()).update([tuple(rest)] if rest else ())
    whole = {**old, **value} if deeper.keys() & old.keys() - value.keys() else value
    changed = {
        name: completed(value[name], old[name], inner)
        for name, inner in deeper.items()
        if inner and name in value and name in old
    }
    return {**whole, **changed} if changed else whole


def joined(value: Any, old: object) -> Any:
    """An object beside the parts that it had, at each level; null says of a part that it is not mentioned."""
    if not (_is_object(value) and _is_object(old)):
        return value
    said = {name: item for name, item in value.items() if item is not None or name not in old}
    return {**old, **{name: joined(item, old.get(name)) for name, item in said.items()}}


def with_part(schema: Mapping[str, Any], whole: object, path: str, part: Any) -> Any:
    """An object with a part of it set by its dotted name; None where its schema has no such part."""
    properties = schema.get("properties")
    if not (whole is None or _is_object(whole)) or not _is_object(properties):
        return None
    known: Mapping[str, Any] = whole or {}
    if path in properties:
        return {**known, path: part}
    name, dot, rest = path.partition(".")
    inner = properties.get(name)
    if not dot or not _is_object(inner):
        return None
    found = with_part(inner, known.get(name), rest, part)
    return None if found is None else {**known, name: found}


def without_part(whole: object, path: str) -> dict[str, Any] | None:
    """An object without the part of a dotted name; None where it has no such part."""
    if not path or not _is_object(whole):
        return None
    if path in whole:
        return {name: item for name, item in whole.items() if name != path}
    name, _, rest = path.partition(".")
    inner = without_part(whole.get(name), rest)
    return None if inner is None else {**whole, name: inner}


def part_schema(schemas: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """The schema of a key, or of the part of one that a dotted name asks for; {} where it has none."""
    if name in schemas:
        return schemas[name]
    key, *path = name.split(".")
    found: object = schemas.get(key)
    for step in path:
        properties = found.get("properties") if _is_object(found) else None
        found = properties.get(step) if _is_object(properties) else None
    return found if _is_object(found) else {}


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)
