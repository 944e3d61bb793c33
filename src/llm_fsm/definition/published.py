"""The published JSON Schema, and its description of each object.

The file beside this module is generated from the models of `definition` (see `schema`). Reading it
is much cheaper than building the models, so that a check needs no models. It only understands the
keywords that the models produce.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from llm_fsm._json import JsonDict, JsonMap
from llm_fsm.definition.names import ALIASES

ROOT = "Definition"
"""The name of the outermost object."""


class ValueForm(NamedTuple):
    """A description of the values allowed at a place.

    `kind`: any, text, string, integer, number, boolean, choice, list, map or object. `inner`: a
    list's items or a map's members; `shape`: the name of an object's shape; `choices`: of a choice.
    A number is at least `least`, more than `above`, and at most `most`. A map has at least `size`
    members. The names of its members, or a string, match `pattern`. `examples` are values that a
    string may have.
    `or_text`: a text is a short form of the object.
    """

    kind: str
    inner: ValueForm | None = None
    shape: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    above: float | None = None
    size: int = 0
    pattern: str | None = None
    examples: tuple[str, ...] = ()
    or_text: bool = False

    @property
    def model(self) -> str:
        """The name of the shape of its objects; empty if it has none."""
        return self.shape or (self.inner.model if self.inner is not None else "")


class ObjectForm(NamedTuple):
    """A description of an object: its keys in order, without second names, and its required
    keys.
    """

    keys: Mapping[str, ValueForm]
    required: frozenset[str]


@cache
def published_schema() -> JsonMap:
    """Return the JSON Schema of a definition file."""
    text = Path(__file__).with_name("definition.schema.json").read_text(encoding="utf-8")
    schema: JsonDict = json.loads(text)
    return schema


@cache
def shape_of(name: str) -> ObjectForm:
    """Return the shape of this name: `Definition` for the whole, else a name of the schema's
    definitions.
    """
    schema = published_schema()
    written = schema if name == ROOT else schema["$defs"][name]
    left_out = {"$schema", *ALIASES.get(name, ())}
    keys = {
        key: _part(value) for key, value in written["properties"].items() if key not in left_out
    }
    return ObjectForm(keys, frozenset(written.get("required", ())))


def _part(schema: JsonMap) -> ValueForm:
    """Return a schema as a part, without null, because optional keys that are null are removed
    before.
    """
    choices = [choice for choice in schema.get("anyOf", (schema,)) if choice.get("type") != "null"]
    if [choice.get("type") for choice in choices] == ["string", "array"]:
        return ValueForm("text")
    or_text = len(choices) == 2 and choices[0].get("type") == "string"
    [only] = choices[1:] if or_text else choices
    if "enum" in only:
        return ValueForm("choice", choices=tuple(only["enum"]))
    if "$ref" in only:
        name = only["$ref"].rpartition("/")[2]
        if published_schema()["$defs"][name]:
            return ValueForm("object", shape=name, or_text=or_text)
        return ValueForm("any")
    kind = only.get("type", "any")
    if kind == "array":
        return ValueForm("list", _part(only["items"]))
    if kind == "object":
        return _map(only)
    if "pattern" in only:
        return ValueForm(kind, pattern=only["pattern"], examples=tuple(schema["examples"]))
    return ValueForm(
        kind,
        least=only.get("minimum"),
        above=only.get("exclusiveMinimum"),
        most=only.get("maximum"),
    )


def _map(schema: JsonMap) -> ValueForm:
    size = schema.get("minProperties", 0)
    for pattern, inner in schema.get("patternProperties", {}).items():
        return ValueForm("map", _part(inner), size=size, pattern=pattern)
    return ValueForm("map", _part(schema["additionalProperties"]), size=size)
