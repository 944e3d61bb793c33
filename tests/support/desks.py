"""A machine that hands over to a person, and back."""

from __future__ import annotations

from typing import Any

from llm_fsm import AsyncMachine
from llm_fsm.testing import ScriptedLLM, reply

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "talk",
    "context_schema": {"properties": {"settled": {"type": "boolean", "x-source": "answer"}}},
    "states": {
        "talk": {
            "purpose": "How can I help you?",
            "transitions": [{"target_state": "human", "description": "The user wants a person"}],
        },
        "human": {
            "kind": "wait",
            "wait_for": "colleague",
            "messages": "record",
            "reply": "A colleague will be with you soon.",
            "answer_schema": {
                "type": "object",
                "properties": {
                    "settled": {"type": "boolean", "title": "Settled"},
                    "team": {"enum": ["billing", "technical"], "title": "Team"},
                    "amount": {"type": "number", "title": "Amount"},
                    "note": {"type": "string", "title": "Note"},
                },
                "required": ["settled"],
            },
            "output": {"settled": "settled"},
            "transitions": [
                {
                    "target_state": "bye",
                    "conditions": [{"logic": {"==": [{"var": "settled"}, True]}}],
                },
                {"target_state": "talk", "priority": 200},
            ],
        },
        "bye": {"kind": "final", "reply": "Goodbye."},
    },
}


def desk(conversations: int = 1) -> AsyncMachine:
    """A machine whose model hands over once in each of so many conversations."""
    replies = [reply("human", "Of course.")] * conversations
    return AsyncMachine.from_dict(
        DESK, model=ScriptedLLM([*replies, {"message": "Is there anything else?"}])
    )
