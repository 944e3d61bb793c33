"""The JSON Schema of a state's reply, within the limits of every provider's strict mode.

Every object is closed, and every property is required; optional ones take null or an empty list. There are no bounds,
patterns, descriptions or references: the prompt's key list states them, and values are checked locally. A state's
schema never changes by a byte, because providers use it as a cache key. All states of a region share one schema
(see `llm_fsm.turn.prompt.regions`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from llm_fsm._json import in_unicode
from llm_fsm.session.messages import ReplySchema

_SCALARS = ("string", "integer", "number", "boolean")
_PAIRS = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
    "required": ["key", "value"],
    "additionalProperties": False,
}
_ANY = {"type": ["string", "number", "boolean", "null"]}
MAX_DEPTH = 5
"""Levels of a value that the strict form shows."""


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if isinstance(kind, str):
        schema["type"] = [kind, "null"]
    if "enum" in schema and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema


def strict(schema: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Convert one key's schema to the strict subset. Parts outside the subset become any scalar."""
    kind = schema.get("type")
    kinds = [item for item in kind if item != "null"] if isinstance(kind, list) else [kind]
    enum = schema.get("enum")
    if isinstance(enum, list) and enum and all(isinstance(item, str | int | float | bool) for item in enum):
        types = sorted({_type_of(item) for item in enum})
        return _nullable({"type": types[0], "enum": list(enum)}) if len(types) == 1 else dict(_ANY)
    if len(kinds) != 1 or depth >= MAX_DEPTH:
        scalars = [item for item in kinds if item in _SCALARS]
        return {"type": [*scalars, "null"]} if scalars and len(scalars) == len(kinds) else dict(_ANY)
    if kinds[0] in _SCALARS:
        return {"type": [kinds[0], "null"]}
    if kinds[0] == "array":
        items = schema.get("items")
        inner = strict(items if isinstance(items, Mapping) else {}, depth + 1)
        return {"type": ["array", "null"], "items": inner}
    if kinds[0] == "object":
        return _strict_object(schema, depth)
    return dict(_ANY)


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def _strict_object(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return {"type": ["array", "null"], "items": _PAIRS}
    return {
        "type": ["object", "null"],
        "properties": {
            name: strict(item if isinstance(item, Mapping) else {}, depth + 1)
            for name, item in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def reply_schema(
    *, targets: Iterable[str], keys: Mapping[str, Mapping[str, Any]], reasoning: str, name: str
) -> ReplySchema:
    """Make the schema of a reply.

    Args:
        targets: Every state that the reply may name.
        keys: Keys that it may write, with their schemas.
        reasoning: Where it puts its reasoning: none, first or last.
        name: Part of the schema's own name.
    """
    update = {key: strict(schema) for key, schema in keys.items()}
    update["_extra"] = {"type": "array", "items": _PAIRS}
    update["_clear"] = {"type": "array", "items": {"type": "string"}}
    transition = {
        "type": "object",
        "properties": {
            "target_state": {"type": "string", "enum": list(dict.fromkeys(targets))},
            "context_update": {
                "type": "object",
                "properties": update,
                "required": list(update),
                "additionalProperties": False,
            },
        },
        "required": ["target_state", "context_update"],
        "additionalProperties": False,
    }
    properties: dict[str, Any] = {"transition": transition, "message": {"type": "string"}}
    if reasoning == "first":
        properties = {"reasoning": {"type": "string"}, **properties}
    elif reasoning == "last":
        properties["reasoning"] = {"type": "string"}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    own = re.sub(r"[^A-Za-z0-9_-]", "_", f"reply_{name}" if name else "reply")[:64]
    return ReplySchema(name=own, schema=schema, text=in_unicode(schema))


def with_targets(schema: ReplySchema, names: Iterable[str]) -> ReplySchema:
    """Return the schema of a reply that may name further states."""
    further = tuple(names)
    return _with_targets(schema.name, schema.text, further) if further else schema


@lru_cache(maxsize=64)
def _with_targets(name: str, text: str, names: tuple[str, ...]) -> ReplySchema:
    """Cached, because each turn of a flow or digression asks for it, and it takes half of the turn's own time."""
    whole = json.loads(text)
    target = whole["properties"]["transition"]["properties"]["target_state"]
    target["enum"] += [name for name in names if name not in target["enum"]]
    return ReplySchema(name=name, schema=whole, text=in_unicode(whole))
