"""A worker of Temporal to be killed: `python temporal_worker.py ADDRESS STORE LEDGER [PURPOSE]`.

PURPOSE is that of the first state of `ECHO`: another one makes another definition of the same name.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from llm_fsm.durable.temporal import work
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.session.messages import LLMRequest, ModelReply

ECHO: dict[str, Any] = {
    "name": "echo",
    "initial_state": "hear",
    "states": {
        "hear": {
            "purpose": "Listen.",
            "reply": "I hear.",
            "transitions": [{"target_state": "bye", "description": "The user says goodbye"}],
        },
        "bye": {"purpose": "Say goodbye."},
    },
}
WAITER: dict[str, Any] = {
    "name": "waiter",
    "initial_state": "ask",
    "states": {
        "ask": {
            "kind": "wait",
            "purpose": "Wait for a word.",
            "wait_for": "word",
            "answer_schema": {"type": "string"},
            "timeout": 3,
            "transitions": [{"target_state": "said"}],
        },
        "said": {"kind": "final"},
    },
}
STAY = json.dumps(
    {"transition": {"target_state": "hear", "context_update": {}}, "message": "I hear."}
)


class LedgerModel:
    """Answers after 50 ms, and notes each call."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def complete(self, request: LLMRequest) -> ModelReply:
        await asyncio.sleep(0.05)
        os.write(
            self._file,
            json.dumps([request.conversation_id, request.messages[-1].content]).encode() + b"\n",
        )
        return ModelReply(text=STAY)


def machines(store: Any, ledger: str, purpose: str = "Listen.") -> list[AsyncMachine]:
    model = LedgerModel(ledger)
    hear = {**ECHO["states"]["hear"], "purpose": purpose}
    echo = {**ECHO, "states": {**ECHO["states"], "hear": hear}}
    return [
        AsyncMachine.from_dict(document, model=model, store=store) for document in (echo, WAITER)
    ]


async def main(address: str, store: str, ledger: str, purpose: str = "Listen.") -> None:
    made = machines(store, ledger, purpose)
    await work(address, lambda: made, lambda said: print(said, flush=True), every=1.0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
