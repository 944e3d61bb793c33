"""One conversation of ten turns, to be held through every door, with a pause in the middle."""

from __future__ import annotations

import asyncio
from typing import Any

from llm_fsm import AsyncMachine
from llm_fsm.testing import ScriptedLLM, reply

COUNT = 10
PAUSED_AT = 5
"""The message after which an answer is waited for, which is the next message."""


def _state(number: int) -> dict[str, Any]:
    onward = [{"target_state": f"s{number + 1}", "description": "The value is known"}]
    if number == PAUSED_AT:
        schema = {"type": "object", "properties": {"by": {"type": "string"}}, "required": ["by"]}
        return {
            "kind": "wait", "wait_for": "signature", "answer_schema": schema, "output": {"signed_by": "by"},
            "transitions": onward,
        }  # fmt: skip
    return {
        "purpose": f"Ask for k{number}",
        "required_context_keys": [f"k{number}"],
        "transitions": onward,
    }


DEFINITION: dict[str, Any] = {
    "name": "ten",
    "initial_state": "s0",
    "context_schema": {
        "properties": {
            **{f"k{number}": {"type": "integer"} for number in range(COUNT)},
            "signed_by": {"type": "string", "x-source": "answer"},
            "pin": {"type": "string", "x-secret": True},
        }
    },
    "states": {
        **{f"s{number}": _state(number) for number in range(COUNT)},
        f"s{COUNT}": {"kind": "final", "reply": "Done, {{ signed_by }}."},
    },
}
MESSAGES: list[Any] = [
    {"by": "Eve"} if number == PAUSED_AT else f"it is {number}" for number in range(COUNT)
]


def replies() -> list[Any]:
    """What the model says to each message but the answer."""
    found = []
    for number in range(COUNT):
        if number != PAUSED_AT:
            found.append(reply(f"s{number + 1}", f"Noted {number}.", **{f"k{number}": number}))
        else:
            found.append({"message": "Signed, thank you."})
    return found


def machine(**options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(DEFINITION, model=ScriptedLLM(replies()), **options)


def reference() -> list[tuple[str, dict[str, Any]]]:
    """State and context after each turn, as the package itself has them."""

    async def talk() -> list[tuple[str, dict[str, Any]]]:
        found = []
        async with machine() as made:
            chat = await made.start(greet=False)
            for message in MESSAGES:
                turn = await (
                    chat.send(message) if isinstance(message, str) else chat.answer(message)
                )
                found.append((turn.state, dict(turn.context)))
        return found

    return asyncio.run(talk())
