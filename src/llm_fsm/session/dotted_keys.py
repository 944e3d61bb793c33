"""Parts of objects with dotted names, such as `address.city`, in states, conditions and replies.

A reply that changes one part often sends only that part. The other parts that the definition declares or names stay, at
each level. A null part counts as not mentioned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from llm_fsm.conditions.coercion import look_up

Path = tuple[str, ...]


def paths(names: Iterable[str]) -> dict[str, frozenset[Path]]:
    """Map each key to the parts that dotted names refer to."""
    found: dict[str, set[Path]] = {}
    for name in names:
        key, *path = name.split(".")
        if path:
            found.setdefault(key, set()).add(tuple(path))
    return {key: frozenset(parts) for key, parts in found.items()}


def declared(schemas: Mapping[str, object]) -> Iterator[str]:
    """Yield the dotted names of all parts that schemas declare."""
    for key, schema in schemas.items():
        properties = schema.get("properties") if _is_object(schema) else None
        if _is_object(properties):
            for name in (*properties, *declared(properties)):
                yield f"{key}.{name}"


def reserved(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Map keys that a model may write to declared dotted names that it may not.

    `sources` maps each declared key to its source. While such a dotted key is not set, its name refers to the part.
    """
    found: dict[str, list[str]] = {}
    for name, source in sources.items():
        key, dot, _ = name.partition(".")
        if dot and source != "model" and sources.get(key) == "model":
            found.setdefault(key, []).append(name)
    return found


def reserved_fault(reserved: Mapping[str, Iterable[str]], key: str, value: object) -> str | None:
    """Return why a model may not write this value: a part of it belongs to the program. None: it may."""
    name = next((name for name in reserved.get(key, ()) if look_up({key: value}, name) is not None), None)
    return None if name is None else f"{name} is for the program to write"


def completed(value: Any, old: object, wanted: Iterable[Path]) -> Any:
    """Add known parts to a value, at each level at which it lacks a wanted part."""
    if not (_is_object(value) and _is_object(old)):
        return value
    deeper: dict[str, set[Path]] = {}
    for name, *rest in wanted:
        deeper.setdefault(name, set()).update([tuple(rest)] if rest else ())
    said = {name: item for name, item in value.items() if item is not None or name not in old}
    whole = {**old, **said} if deeper.keys() & old.keys() - said.keys() else value
    changed = {
        name: completed(value[name], old[name], inner)
        for name, inner in deeper.items()
        if inner and name in said and name in old
    }
    return {**whole, **changed} if changed else whole


def joined(value: Any, old: object) -> Any:
    """Add known parts to an object, at each level. A null part counts as not mentioned."""
    if not (_is_object(value) and _is_object(old)):
        return value
    said = {name: item for name, item in value.items() if item is not None or name not in old}
    return {**old, **{name: joined(item, old.get(name)) for name, item in said.items()}}


def nulls(value: object) -> Iterator[Path]:
    """Yield the paths of all null parts of an object."""
    for name, item in value.items() if _is_object(value) else ():
        yield from ((name,),) if item is None else ((name, *path) for path in nulls(item))


def only_nulls(value: object) -> bool:
    """Return true if null is all that an object says, at any depth: nothing in it was mentioned."""
    return value is None or (_is_object(value) and bool(value) and all(map(only_nulls, value.values())))


def with_part(schema: Mapping[str, Any], whole: object, path: str, part: Any) -> Any:
    """Set a part of an object by its dotted name; None if the schema has no such part."""
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
    """Remove a part of an object by its dotted name; None if there is no such part."""
    if not path or not _is_object(whole):
        return None
    if path in whole:
        return {name: item for name, item in whole.items() if name != path}
    name, _, rest = path.partition(".")
    inner = without_part(whole.get(name), rest)
    return None if inner is None else {**whole, name: inner}


def part_schema(schemas: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    """Return the schema of a key or of a part with a dotted name; {} if it has none."""
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
