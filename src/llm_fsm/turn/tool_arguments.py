"""The arguments of a model's tool call, read by the reader of replies.

Strict JSON first, then the one object inside fences or prose. JSON in a text is read once, if the
schema needs an object or a list and takes no text. Half a JSON is not repaired: the effect of a
call may depend on the missing part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from llm_fsm.conditions.coercion import all_mended, may_be_halved
from llm_fsm.definition.json_schema.validator import ShapeError, compile_shape, types_of
from llm_fsm.errors import ReplyError
from llm_fsm.session.context import Keys
from llm_fsm.session.normalize import SEVERAL, as_schema
from llm_fsm.session.proof import prove
from llm_fsm.session.quotes import UserWords
from llm_fsm.turn.reply.parser import decode, only_object

MAX_ARGUMENTS = 1_000_000
"""Characters of one call's arguments."""
_MAX_DEPTH = 32
"""No tool needs deeper arguments. The limit bounds the recursion on what a model wrote."""


class ArgumentsFault(ValueError):
    """The arguments of a call cannot be read or do not fit; the message is for the model."""


def read_arguments(text: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
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
    return value if schema is None else fitted(schema, with_json_read(schema, value))


def unsaid_argument(
    keys: Keys,
    known: Mapping[str, Any],
    words: UserWords,
    names: Iterable[str],
    arguments: Mapping[str, Any],
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


def fitted(schema: Mapping[str, Any], value: Any, depth: int = 0) -> Any:
    """Return a value in the form that its schema takes, as values of replies are read.

    A null for a property that may be left out and takes no null is left out. One item where only
    a list is taken is a list of one. A text is read as a number, yes or no, or a word of an enum,
    if its schema takes no other text. Whatever else does not fit stays as it is.

    Args:
        schema: JSON Schema of the value, without references.
        value: The value.
        depth: The number of values around this one.
    """
    if depth >= _MAX_DEPTH:
        return value
    kinds = _kinds(schema)
    if _is_lone_item(kinds, value):
        value = [value]
    if isinstance(value, dict):
        required = _only_branch(schema, "object").get("required", ())
        parts: dict[str, Any] = {}
        for name, item in value.items():
            part = _property(schema, name)
            if item is None and name not in required and not _takes_null(part):
                continue
            parts[name] = fitted(part, item, depth + 1)
        return parts
    if isinstance(value, list):
        inner = _items(schema)
        return [fitted(inner, item, depth + 1) for item in value]
    return _plain_value(schema, kinds, value)


def _takes_null(schema: Mapping[str, Any]) -> bool:
    kinds = _kinds(schema)
    if kinds:
        return "null" in kinds
    for branch in _branches(schema):
        words = branch.get("enum")
        if not isinstance(words, list) or None in words:
            return True
    return False


def _is_lone_item(kinds: set[str], value: Any) -> bool:
    """Return true for one item in place of a list.

    A text with separators may be several items, and one that begins like JSON may be half of it.
    """
    if kinds - {"null"} != {"array"} or value is None or isinstance(value, list):
        return False
    if not isinstance(value, str):
        return True
    is_half_json = value.lstrip().startswith(("{", "[", '"'))
    return not is_half_json and SEVERAL.search(value) is None


def _plain_value(schema: Mapping[str, Any], kinds: set[str], value: Any) -> Any:
    """Return a text or a number as the reader of replies reads it, if the schema takes one form."""
    branches = [branch for branch in _branches(schema) if types_of(branch) != {"null"}]
    if (
        not isinstance(value, str | int | float)
        or kinds & {"array", "object"}
        or len(branches) != 1
    ):
        return value
    try:
        return as_schema(compile_shape(branches[0]), value)[0]
    except ShapeError:
        return value


def with_json_read(schema: Mapping[str, Any], value: Any, depth: int = 0) -> Any:
    """Return a value with its JSON texts read, if the schema needs an object or a list there and
    takes no text.

    Raises:
        ArgumentsFault: Such a text has a key twice with two values.
    """
    if depth >= _MAX_DEPTH:
        return value
    if isinstance(value, str):
        value = _json_in(schema, value)
    if isinstance(value, dict):
        parts: dict[str, Any] = {}
        for name, item in value.items():
            parts[name] = with_json_read(_property(schema, name), item, depth + 1)
        return parts
    if isinstance(value, list):
        inner = _items(schema)
        return [with_json_read(inner, item, depth + 1) for item in value]
    return value


def _json_in(schema: Mapping[str, Any], text: str) -> Any:
    """Return the object or list in a text if its schema needs one; else the text. Raises
    ArgumentsFault.
    """
    kinds = _kinds(schema)
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


def _branches(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of `anyOf` and `oneOf`, also of nested ones; the schema itself if it has
    none.
    """
    branches: list[Mapping[str, Any]] = []
    for word in ("anyOf", "oneOf"):
        for item in schema.get(word, ()):
            if isinstance(item, Mapping):
                branches += _branches(item)
    return branches or [schema]


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema takes; none if one of its branches names no type."""
    kinds = [types_of(branch) for branch in _branches(schema)]
    return set().union(*kinds) if all(kinds) else set()


def _only_branch(schema: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the only branch that takes this type; a schema that takes everything if there are
    several.
    """
    branches = [branch for branch in _branches(schema) if kind in types_of(branch)]
    return branches[0] if len(branches) == 1 else {}


def _property(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    branch = _only_branch(schema, "object")
    part = branch.get("properties", {}).get(name)
    if part is None:
        part = branch.get("additionalProperties")
    return part if isinstance(part, Mapping) else {}


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    items = _only_branch(schema, "array").get("items")
    return items if isinstance(items, Mapping) else {}


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
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return True
