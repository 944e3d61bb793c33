"""A machine that takes an order, and conversations with it, for tests of whole conversations."""

from __future__ import annotations

from llm_fsm import AsyncMachine
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.testing import reply

ORDER = {
    "name": "order",
    "initial_state": "ask",
    "context_schema": {"type": "object", "properties": {"dish": {"type": "string"}}},
    "states": {
        "ask": {
            "purpose": "Ask for the dish.",
            "transitions": [{"target_state": "done", "description": "The user has said a dish"}],
        },
        "done": {"purpose": "Say thanks.", "transitions": []},
    },
}
REPLIES = [
    reply("ask", "Which one?"),
    reply("ask", "With salad?", dish="soup"),
    reply("done", "Thanks."),
]


def machine(store):
    return AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store)


async def talked(store, name="c", turns=3):
    chat = await machine(store).start(conversation_id=name, greet=False)
    for number in range(1, turns + 1):
        await chat.send(f"message {number} \ud800\0", request_id=f"r{number}")
