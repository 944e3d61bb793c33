"""The arguments of a model's tool call, read by the reader of replies.

Strict JSON first, then the one object inside fences or prose. JSON in a text is read once, if the
schema needs an object or a list and takes no text. Half a JSON is not repaired: the effect of a
call may depend on the missing part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, object_at
from llm_fsm.conditions.coercion import all_mended, may_be_halved
from llm_fsm.definition.json_schema.validator import (
    CompiledSchema,
    ShapeError,
    compile_shape,
    types_of,
)
from llm_fsm.errors import ReplyError
from llm_fsm.session.context import Keys
from llm_fsm.session.normalize import as_schema, branches_of
from llm_fsm.session.proof import prove
from llm_fsm.session.quotes import UserWords
from llm_fsm.turn.reply.parser import decode, only_object

MAX_ARGUMENTS = 1_000_000
"""Characters of one call's arguments."""
_MAX_DEPTH = 32
"""No tool needs deeper arguments. The limit bounds the recursion on what a model wrote."""


class ArgumentsFault(ValueError):
    """The arguments of a call cannot be read or do not fit; the message is for the model."""


def read_arguments(text: str, schema: JsonMap | None = None) -> JsonDict:
    """Read the arguments object of a call. An empty text has no arguments.

    Args:
        text: The text that the model sent.
        schema: JSON Schema of the arguments, without references.

    Raises:
        ArgumentsFault: The text holds no object, several ones, or a key twice with two values.
    """
    if not text.strip():
        return {}
    if len(text) > MAX_ARGUMENTS:
        size = len(text)
        raise ArgumentsFault(
            f"the arguments have {size} characters; at most {MAX_ARGUMENTS} are read"
        )
    value = _read(text)
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = _read(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ArgumentsFault('the arguments are not a JSON object such as {"name": "value"}')
    return value if schema is None else fitted(schema, value)


def unsaid_argument(
    keys: Keys, known: JsonMap, words: UserWords, names: Iterable[str], arguments: JsonMap
) -> str | None:
    """Return why a call is refused whose argument needs the user's words; None if it may be made.

    Args:
        keys: The keys of the definition.
        known: The context. A value that it has was said before.
        words: The words of the user.
        names: The arguments that the tool writes to keys of the same names.
        arguments: The arguments of the call.
    """
    for name in names:
        proved = prove(keys.claim(name, arguments[name], old=known.get(name)), words)
        if isinstance(proved, str):
            return f"{name}: {proved}"
    return None


def fitted(schema: JsonMap, value: Any, depth: int = 0) -> Any:
    """Return a value in the form that its schema takes, as values of replies are read.

    A null for a property that may be left out and takes no null is left out. One item where only
    a list is taken is a list of one. A text is read as a number, yes or no, or a word of an enum,
    if its schema takes no other text. JSON in a text is read where only an object or a list is
    taken. Whatever else does not fit stays as it is.

    Args:
        schema: JSON Schema of the value, without references.
        value: The value.
        depth: The number of values around this one.

    Raises:
        ArgumentsFault: JSON in a text has a key twice with two values.
    """
    if depth >= _MAX_DEPTH:
        return value
    kinds = _kinds(schema)
    if isinstance(value, str):
        value = _json_in(kinds, value)
    if isinstance(value, dict) and kinds - {"null"} == {"array"}:
        value = [value]
    match value:
        case dict():
            required = _only_branch(schema, "object").get("required", ())
            parts: JsonDict = {}
            for name, item in value.items():
                part = _property(schema, name)
                if item is not None or name in required or _shape(part).fault(None) is None:
                    parts[name] = fitted(part, item, depth + 1)
            return parts
        case list():
            inner = object_at(_only_branch(schema, "array"), "items")
            return [fitted(inner, item, depth + 1) for item in value]
    return as_schema(_shape(schema), value)[0]


def _shape(schema: JsonMap) -> CompiledSchema:
    """Return a compiled schema; one that takes everything if it cannot be checked alone."""
    try:
        return compile_shape(schema)
    except ShapeError:
        return compile_shape({})


def _json_in(kinds: set[str], text: str) -> Any:
    """Return the object or list in a text if only such kinds are taken; else the text. Raises
    ArgumentsFault.
    """
    if not kinds or "string" in kinds:
        return text
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value = _decoded(text)
    except ArgumentsFault:
        raise
    except ValueError:
        return text
    kind = "object" if isinstance(value, dict) else "array"
    return value if kind in kinds else text


def _kinds(schema: JsonMap) -> set[str]:
    """Return the types that a schema takes; none if one of its branches names no type."""
    kinds = [types_of(branch) for branch in branches_of(schema)]
    return set().union(*kinds) if all(kinds) else set()


def _only_branch(schema: JsonMap, kind: str) -> JsonMap:
    """Return the only branch that takes this type; a schema that takes everything if there are
    several.
    """
    branches = [branch for branch in branches_of(schema) if kind in types_of(branch)]
    return branches[0] if len(branches) == 1 else {}


def _property(schema: JsonMap, name: str) -> JsonMap:
    branch = _only_branch(schema, "object")
    part = branch.get("properties", {}).get(name)
    if part is None:
        part = branch.get("additionalProperties")
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
    """Decode strict JSON. Raises ValueError, and ArgumentsFault if a key has two values."""
    try:
        return decode(text.strip())
    except ReplyError as error:
        raise ArgumentsFault(str(error).replace("the reply is", "the arguments are")) from error


def _is_finite(value: Any) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(_is_finite, value.values()))
        case list():
            return all(map(_is_finite, value))
    return True
