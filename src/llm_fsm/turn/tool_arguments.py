"""The arguments of a model's tool call, read by the reader of replies.

Strict JSON first, then the one object inside fences or prose. JSON in a text is read once, where the schema wants an
object or a list and takes no text. Half a JSON is not repaired: what a call does may depend on what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from llm_fsm.conditions.coercion import all_mended, may_be_halved
from llm_fsm.definition.json_schema.validator import types_of
from llm_fsm.errors import ReplyError
from llm_fsm.turn.reply.parser import decode, only_object

MAX_ARGUMENTS = 1_000_000
"""Characters of one call's arguments."""
_MAX_DEPTH = 32


class ArgumentsFault(ValueError):
    """The arguments of a call cannot be read or do not fit; the message tells the model why."""


def read_arguments(text: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read the arguments object of a call; no text at all is no arguments.

    Args:
        text: What the model sent.
        schema: JSON Schema of the arguments, without references.

    Raises:
        ArgumentsFault: The text holds no object, several ones, or a key twice with two values.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_ARGUMENTS:
        raise ArgumentsFault(f"the arguments have {len(text)} characters; at most {MAX_ARGUMENTS} are read")
    value = _read(text)
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = _read(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArgumentsFault('the arguments are not a JSON object such as {"name": "value"}')
    return value if schema is None else with_json_read(schema, value)


def with_json_read(schema: Mapping[str, Any], value: Any, depth: int = 0) -> Any:
    """Return a value in which JSON texts are read where a schema wants an object or a list and takes no text.

    Raises:
        ArgumentsFault: Such a text has a key twice with two values.
    """
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, str):
        kinds = _kinds(schema)
        if not kinds or "string" in kinds or value.lstrip()[:1] not in ("{", "["):
            return value
        try:
            found = _decoded(value)
        except ArgumentsFault:
            raise
        except ValueError:
            return value
        if ("object" if isinstance(found, dict) else "array") not in kinds:
            return value
        value = found
    if isinstance(value, dict):
        return {name: with_json_read(_part(schema, "object", name), item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        items = _part(schema, "array", "")
        return [with_json_read(items, item, depth + 1) for item in value]
    return value


def _branches(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner = [item for word in ("anyOf", "oneOf") for item in schema.get(word, ()) if isinstance(item, Mapping)]
    return [branch for item in inner for branch in _branches(item)] or [schema]


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema takes; none if it says nothing of them in one of its branches."""
    kinds = [types_of(branch) for branch in _branches(schema)]
    return set().union(*kinds) if all(kinds) else set()


def _part(schema: Mapping[str, Any], kind: str, name: str) -> Mapping[str, Any]:
    """Return the schema of a property or of the items, if only one branch can be meant; else one that takes all."""
    found = [branch for branch in _branches(schema) if kind in types_of(branch)]
    if len(found) != 1:
        return {}
    part = found[0].get("items") if kind == "array" else found[0].get("properties", {}).get(name)
    if part is None and kind == "object":
        part = found[0].get("additionalProperties")
    return part if isinstance(part, Mapping) else {}


def _read(text: str) -> Any:
    try:
        value = _decoded(text)
    except ArgumentsFault:
        raise
    except ValueError as error:
        value = only_object(text)
        if value is None:
            raise ArgumentsFault(f"the arguments are not JSON: {error}") from error
    if not _is_finite(value):
        raise ArgumentsFault("the arguments are not JSON: a number is not finite, or too large")
    return all_mended(value) if may_be_halved(text) else value


def _decoded(text: str) -> Any:
    """Decode strict JSON. Raises ValueError where it is none, ArgumentsFault where it cannot count."""
    try:
        return decode(text.strip())
    except ReplyError as error:
        raise ArgumentsFault(str(error).replace("the reply is", "the arguments are")) from error


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_is_finite, parts))
