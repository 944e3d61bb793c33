"""The schemas in a definition, part by part, and the values that they accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from llm_fsm._json import JsonMap, list_at, object_at, step
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape
from llm_fsm.lint.document import Document, Placed, once_each
from llm_fsm.lint.solver.value_sets import SET, ValueSet, domain, points

_ONE = ("items", "contains", "additionalProperties", "not", "propertyNames")
_MOST_PARTS = 100_000
_DEEPEST = 300
_SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "patternProperties")
_DEPTH = 8
_EXACT = frozenset(
    {
        "type",
        "enum",
        "const",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "deprecated",
        "readOnly",
    }
)
"""Keywords for which `domain` is exact."""


class SchemaPart(NamedTuple):
    """A schema, its place, its name in messages, and the definitions that it may refer to."""

    pointer: str
    schema: JsonMap
    name: str
    definitions: JsonMap


@once_each
def schema_parts(document: Document) -> Iterator[SchemaPart]:
    """Yield every schema of `context_schema` and of answers, each whole schema before its parts."""
    wholes = [(document.root, "context_schema")]
    wholes += [(state, "answer_schema") for state in document.states.values()]
    for owner, key in wholes:
        whole = owner.get(key)
        yield from _parts(whole, f"{owner.pointer}/{key}", f'"{key}"', object_at(whole, "$defs"), 0)


def _parts(
    schema: object, pointer: str, name: str, definitions: JsonMap, depth: int
) -> Iterator[SchemaPart]:
    if not isinstance(schema, dict) or depth > _DEPTH:
        return
    yield SchemaPart(pointer, schema, name, definitions)
    for key in _ONE:
        yield from _parts(schema.get(key), f"{pointer}/{key}", name, definitions, depth + 1)
    for key in _SEVERAL:
        for index, item in enumerate(list_at(schema, key)):
            yield from _parts(item, f"{pointer}/{key}/{index}", name, definitions, depth + 1)
    for key in _NAMED:
        for member, item in object_at(schema, key).items():
            place = f"{pointer}/{key}{step(member)}"
            yield from _parts(item, place, f'"{member[:64]}"', definitions, depth + 1)


def answers(state: Placed) -> Mapping[str, ValueSet]:
    """Return key to the values that the schema of an answer allows for it."""
    schema = state.get("answer_schema")
    if not isinstance(schema, dict):
        return {}
    members = {key: _answered(schema, path) for _, key, path in state.mapping("output")}
    return {
        key: domain(found, object_at(schema, "$defs")) & SET
        for key, found in members.items()
        if found is not None
    }


def _answered(schema: JsonMap, path: str) -> JsonMap | None:
    """Return the schema at a path into an answer; None if the answer's schema does not describe
    it.
    """
    return member_schema(schema, filter(None, path.removeprefix("$").removeprefix(".").split(".")))


def member_schema(schema: object, names: Iterable[str]) -> JsonMap | None:
    """Return the schema of a member of a member …; None if the schema does not describe it."""
    for name in names:
        schema = object_at(schema, "properties").get(name)
    return schema if isinstance(schema, dict) else None


def unfolds(definitions: JsonMap) -> bool:
    """Return true if definitions stay small when each `$ref` is replaced by its target."""
    sizes = {}

    def size(value: object, depth: int) -> int:
        if not isinstance(value, list | dict):
            return 0
        if depth > _DEEPEST:
            return _MOST_PARTS + 1
        if isinstance(value, list):
            return sum(size(item, depth + 1) for item in value)
        found = 1 + sum(size(item, depth + 1) for item in value.values())
        name = value.get("$ref")
        if isinstance(name, str) and name.startswith("#/$defs/"):
            name = name.removeprefix("#/$defs/")
            if name not in sizes:
                sizes[name] = 0  # a recursive definition counts once
                sizes[name] = min(size(definitions.get(name), depth + 1), _MOST_PARTS + 1)
            found += sizes[name]
        return found

    return size(definitions, 0) <= _MOST_PARTS


def refusal(part: SchemaPart, value: object) -> str | None:
    """Return the reason why a schema refuses a value; None if it accepts it, or is itself
    faulty.
    """
    if (points([value]) & domain(part.schema, part.definitions)).empty or not exact(part.schema):
        try:
            return compile_shape(part.schema, part.definitions).fault(value)
        except ShapeError:
            return None
    return None


def exact(schema: JsonMap) -> bool:
    """Return true if `domain` is exact for a schema."""
    return all(key in _EXACT or key.startswith("x-") for key in schema)
