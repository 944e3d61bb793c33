"""The parts of a model's message that only its provider understands, such as signatures of calls
and thoughts.

A message with calls goes back to the model that wrote it as it came, because providers check these
parts. No other model gets them: its server may refuse them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, list_at

_OF_MESSAGES = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio", "index"}
)
"""Keys of a message that are sent in our own form, or that no request may have."""
_OF_CALLS = frozenset({"id", "type", "function", "index"})
_OF_FUNCTIONS = frozenset({"name", "arguments"})
_OF_ITEMS = frozenset({"id", "type", "format", "index"})
"""Keys of an item in a list that name it. Its other texts arrive in pieces."""
_MAX_DEPTH = 16


def message_parts(message: JsonMap) -> JsonDict:
    """Return the parts of a message, or of a piece of one, that are not read here."""
    return _rest(message, _OF_MESSAGES)


def call_parts(call: JsonMap) -> JsonDict:
    """Return the parts of a call, or of a piece of one, that are not read here."""
    found = _rest(call, _OF_CALLS)
    function = call.get("function")
    inner = _rest(function, _OF_FUNCTIONS) if isinstance(function, Mapping) else {}
    if inner:
        found["function"] = inner
    return found


def _rest(given: JsonMap, known: frozenset[str]) -> JsonDict:
    return {
        key: value
        for key, value in given.items()
        if key not in known and value not in (None, "", [], {})
    }


def read_native(message: JsonMap, ids: tuple[str, ...]) -> JsonDict:
    """Return the parts of a message with calls that are not read here.

    Args:
        message: The message of a completion.
        ids: The id of each call, as the engine knows it.

    Returns:
        {"message": {…}, "calls": {id: {…}}}, without what is empty.
    """
    found = {}
    parts = message_parts(message)
    if isinstance(message.get("content"), list):
        parts["content"] = message["content"]
    if parts:
        found["message"] = parts
    calls = {}
    for id, call in zip(ids, list_at(message, "tool_calls"), strict=False):
        own = call_parts(call) if isinstance(call, Mapping) else {}
        if own:
            calls[id] = own
    if calls:
        found["calls"] = calls
    return found


def with_native(document: JsonDict, native: JsonMap) -> JsonDict:
    """Return a message in the form of requests with the parts that `read_native` found."""
    document = {**document, **native.get("message", {})}
    own = native.get("calls", {})
    calls = []
    for call in document.get("tool_calls", ()):
        parts = own.get(call["id"], {})
        function = {**parts.get("function", {}), **call["function"]}
        calls.append({**parts, **call, "function": function})
    if calls:
        document["tool_calls"] = calls
    return document


def merged(known: Any, piece: Any, depth: int = 0) -> Any:
    """Join a piece that arrived later to a part: texts and lists grow, objects by their keys."""
    if piece is None or depth > _MAX_DEPTH:
        return known
    match known, piece:
        case str(), str():
            return known + piece
        case list(), list():
            return _longer(known, piece, depth)
        case dict(), dict():
            joined = dict(known)
            for key, value in piece.items():
                is_name = key in _OF_ITEMS or key not in joined
                joined[key] = value if is_name else merged(joined[key], value, depth + 1)
            return joined
    return piece


def _longer(known: list[Any], piece: list[Any], depth: int) -> list[Any]:
    """Add items to a list. An item with the index and the type of the last one continues it."""
    joined = list(known)
    for item in piece:
        last = joined[-1] if joined else None
        if _continues(last, item):
            joined[-1] = merged(last, item, depth + 1)
        else:
            joined.append(item)
    return joined


def _continues(last: Any, item: Any) -> bool:
    if not isinstance(last, dict) or not isinstance(item, dict) or item.get("index") is None:
        return False
    return (item["index"], item.get("type")) == (last.get("index"), last.get("type"))
