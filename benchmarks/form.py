"""The conversation that is measured: a form of six states, nine messages, one of them a correction."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from llm_fsm.testing import reply

KEYS = {
    "name": {"type": "string"},
    "email": {"type": "string", "format": "email"},
    "date": {"type": "string"},
}
STATES = ("greeting", *KEYS, "confirm", "done")
MESSAGES = (
    "Hi",
    "It's Maria",
    "My full name is Maria Gonzalez",
    "you can write to maria at",
    "maria@example.com",
    "12 May 2027",
    "No, the email is wrong",
    "m.gonzalez@example.org",
    "Yes",
)


def _state(name: str, following: str) -> dict[str, Any]:
    conditions = (
        [{"description": f"{name} is known", "requires_context_keys": [name]}]
        if name in KEYS
        else []
    )
    return {
        "purpose": f"Learn the {name}",
        "instructions": "Ask politely, one thing at a time, and be patient when an answer is incomplete.",
        "required_context_keys": [name] if name in KEYS else [],
        "transitions": [
            {
                "target_state": following,
                "description": f"{name} is settled",
                "conditions": conditions,
            }
        ],
    }


def definition() -> dict[str, Any]:
    """The form as a definition."""
    states = {name: _state(name, following) for name, following in pairwise(STATES)}
    states["confirm"]["transitions"] += [
        {"target_state": key, "description": f"The user wants to change the {key}"} for key in KEYS
    ]
    states["email"]["transitions"].append(
        {"target_state": "confirm", "description": "Everything was known before"}
    )
    states["done"] = {"purpose": "Thank the user by name and say goodbye"}
    return {
        "name": "form",
        "persona": "A friendly assistant who guides users through the form.",
        "initial_state": "greeting",
        "context_schema": {"type": "object", "properties": KEYS},
        "states": states,
    }


def long_definition(states: int) -> dict[str, Any]:
    """A chain of `states` states with keys, conditions and descriptions."""
    keys = [f"answer_{number}" for number in range(states - 1)]
    chain = {
        f"step_{number}": {
            "description": f"Question {number} of the questionnaire",
            "purpose": f"Learn the answer to question {number}",
            "instructions": "Ask the question in your own words and accept any answer that makes sense.",
            "required_context_keys": [key],
            "transitions": [
                {
                    "target_state": f"step_{number + 1}",
                    "description": "The question is answered",
                    "conditions": [
                        {"description": "answered", "requires_context_keys": [key]},
                        {"description": "not a dash", "logic": {"!=": [{"var": key}, "-"]}},
                    ],
                }
            ],
        }
        for number, key in enumerate(keys)
    }
    return {
        "name": "questionnaire",
        "initial_state": "step_0",
        "context_schema": {
            "type": "object",
            "properties": {
                key: {"type": "string", "description": f"What {key} is"} for key in keys
            },
        },
        "states": {**chain, f"step_{states - 1}": {"purpose": "Thank the user"}},
    }


def _reply(target: str, **update: str) -> dict[str, Any]:
    return reply(target, "Thank you. Please tell me what comes next.", **update)


def replies() -> list[dict[str, Any]]:
    """What the model says: the greeting, then one reply a message."""
    return [
        _reply("greeting"),
        _reply("name"),
        _reply("name"),
        _reply("email", name="Maria Gonzalez"),
        _reply("email"),
        _reply("date", email="maria@example.com"),
        _reply("confirm", date="12 May 2027"),
        _reply("email"),
        _reply("confirm", email="m.gonzalez@example.org"),
        _reply("done"),
    ]
