"""The most tokens of a reply, by default: nothing else bounds a small model that repeats itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llm_fsm._json import JsonMap, object_at
from llm_fsm._text import estimate
from llm_fsm.definition.models import State
from llm_fsm.session.reply_schema import MAX_DEPTH
from llm_fsm.turn.prompt.state_text import instructions_of

_REPLY_TOKENS = 400
"""Tokens of a reply without values: its form, and a message of some sentences."""
_KEY_TOKENS = 30
"""Tokens of one value with its key."""
_LIST_ITEMS = 4
"""Items of a list for which a reply has room in any case."""


def reply_limit(keys: Iterable[JsonMap], state: State) -> int:
    """Return the most tokens of a reply in a state.

    Args:
        keys: The schemas of the keys that the reply may write.
        state: The state. Its message may tell what the texts of the state say.
    """
    texts = estimate(state.description) + estimate(state.purpose) + estimate(instructions_of(state))
    return _REPLY_TOKENS + _KEY_TOKENS * sum(map(_values, keys)) + texts


def _values(schema: JsonMap, depth: int = 0) -> int:
    """Return the number of values of one key for which a reply has room."""
    if depth == MAX_DEPTH:
        return 1
    items, properties = schema.get("items"), schema.get("properties")
    if isinstance(items, Mapping):
        return _LIST_ITEMS * _values(items, depth + 1)
    if isinstance(properties, Mapping) and properties:
        return sum(_values(object_at(properties, name), depth + 1) for name in properties)
    return 1
