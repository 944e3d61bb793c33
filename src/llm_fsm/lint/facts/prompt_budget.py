"""The size of each state's prompt in estimated tokens, before history and context.

It adds up the texts that `llm_fsm.turn.prompt.render` combines, without rendering them. These are
the texts common to all states, the state's own texts, and a summary of each target.
"""

from __future__ import annotations

import json
from collections import Counter

from llm_fsm._json import JsonMap, json_text, object_at
from llm_fsm._text import estimate
from llm_fsm.conditions.coercion import is_whole
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.graph import Arc, global_arcs, offers_globals, own_arcs_from

BUDGET = 4000
"""Tokens that the prompt of a state may take by default."""

FRAME = 385
"""Tokens of the fixed text in `prompts/system.j2` and `prompts/turn.j2`."""
_GLIMPSE_CHARS = 160
_KEY_WORDS = (
    "type",
    "format",
    "pattern",
    "enum",
    "minimum",
    "maximum",
    "items",
    "properties",
    "description",
)
_MOST_KEYS = 24
"""The most keys that a prompt lists; in larger machines, only those around its state."""
_ITEM = 12
"""Tokens of the JSON around one transition."""


def budget_of(document: JsonMap) -> int | None:
    """Return the budget that a document sets for the prompt of each state, if it sets one."""
    value = object_at(document, "x-lint").get("token_budget")
    if is_whole(value) and value > 0:
        return value
    return None


def shared_tokens(document: Document) -> int:
    """Return the tokens of the common beginning of all prompts."""
    root = document.root
    words = sum(estimate(root.text(key)) for key in ("name", "description", "persona"))
    keys = sorted(_key_tokens(key, schema) for key, schema in document.keys.items())
    return FRAME + words + sum(keys[-_MOST_KEYS:])


def _key_tokens(key: str, schema: JsonMap) -> int:
    if schema.get("x-source", "model") != "model" or schema.get("x-secret") is True:
        return 0
    shown = {word: schema[word] for word in _KEY_WORDS if word in schema}
    return estimate(json_text({"key": key, **shown}))


def state_tokens(document: Document) -> dict[str, tuple[int, int]]:
    """Return converse state to the tokens of its own texts, and of its menu."""
    targets = {name: _target_tokens(state) for name, state in document.states.items()}
    shared = Counter[str]()
    for arc in global_arcs(document):
        shared[arc.target] += _item(arc) + targets.get(arc.target, 0)
    everywhere = shared.total()
    found = {}
    for name, state in document.states.items():
        if offers_globals(document, name):
            own = sum(
                _item(arc) + targets.get(arc.target, 0) for arc in own_arcs_from(document)[name]
            )
            found[name] = (_own(state), own + everywhere - shared[name])
    return found


def _own(state: Placed) -> int:
    keys = (
        "description",
        "purpose",
        "instructions",
        "extraction_instructions",
        "response_instructions",
    )
    words = sum(estimate(state.text(key)) for key in keys)
    example = state.get("example_dialogue")
    dialogue = 0
    if isinstance(example, list):
        dialogue = estimate(json_text(example))
    collected = estimate(", ".join(state.names("required_context_keys")))
    return words + dialogue + collected + estimate(state.name)


def _target_tokens(state: Placed) -> int:
    """Return the tokens of a target's summary in the menu: purpose, keys, and shortened texts or
    instructions.
    """
    purpose = state.text("purpose") or state.text("description")
    words = state.text("reply") or state.text("response_instructions") or state.text("instructions")
    collected = sum(estimate(key) + 1 for key in state.names("required_context_keys"))
    return estimate(purpose[:_GLIMPSE_CHARS]) + estimate(words[:_GLIMPSE_CHARS]) + collected


def _item(arc: Arc) -> int:
    conditions = 0
    for condition in arc.conditions:
        logic = condition.get("logic")
        described = condition.text("description")
        keys = sum(estimate(key) + 1 for key in condition.names("requires_context_keys"))
        shown = 0
        if logic is not None and not described:
            shown = estimate(json.dumps(logic))
        conditions += estimate(described) + keys + shown + 4
    return _ITEM + estimate(arc.target) + estimate(arc.placed.text("description")) + conditions
