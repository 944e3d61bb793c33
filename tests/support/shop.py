"""A definition of a shop that tests change."""

from __future__ import annotations

from typing import Any

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {
            "item": {"type": "string", "maxLength": 20},
            "count": {"type": "integer", "minimum": 1},
            "tier": {"enum": ["gold", "blue"], "x-source": "host"},
        },
    },
    "states": {
        "ask": {
            "purpose": "Learn which article the customer wants",
            "required_context_keys": ["item"],
            "transitions": [
                {
                    "target_state": "count",
                    "description": "known",
                    "conditions": [{"requires_context_keys": ["item"]}],
                }
            ],
        },
        "count": {
            "purpose": "Learn how many pieces are wanted",
            "required_context_keys": ["count"],
            "transitions": [
                {"target_state": "done", "description": "all known"},
                {"target_state": "ask", "description": "another one"},
            ],
        },
        "done": {"purpose": "Thank the customer"},
    },
}


def keys(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["context_schema"]["properties"]
    return found


def drop_count(document: dict[str, Any]) -> None:
    del document["states"]["count"]
    document["states"]["ask"]["transitions"] = [{"target_state": "done", "description": "known"}]
