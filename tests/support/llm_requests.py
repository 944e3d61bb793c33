"""Requests and views as the engine makes them, and a pacing without waits, for the tests of the
adapters.
"""

from __future__ import annotations

import json
import time
from typing import Any

from llm_fsm.llm.retry import Pacing
from llm_fsm.session.messages import (
    LLMMessage,
    LLMRequest,
    PlainTurn,
    ReplySchema,
    ToolSpec,
    TransitionView,
)

REPLY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
    "additionalProperties": False,
}
SCHEMA = ReplySchema(name="reply", schema=REPLY_SCHEMA, text=json.dumps(REPLY_SCHEMA))

LOOK = ToolSpec(name="look", description="Löok.", parameters={"type": "object", "properties": {}})


def view(**changes: Any) -> PlainTurn:
    values: dict[str, Any] = {
        "state": "ask_name",
        "purpose": "Learn the name",
        "description": "",
        "own_words": "",
        "user": "hello",
        "speak": False,
        "context": {},
        "system": {},
        "wanted": {},
        "writable": {},
        "choices": (),
    }
    return PlainTurn(**{**values, **changes})


def choice(target: str, **changes: Any) -> TransitionView:
    values: dict[str, Any] = {
        "target_state": target,
        "description": "",
        "open": True,
        "judged": True,
        "requires": (),
        "logic": (),
        "arrival": "",
    }
    return TransitionView(**{**values, **changes})


def request(user: str = "hello", **changes: Any) -> LLMRequest:
    values: dict[str, Any] = {
        "messages": (LLMMessage("system", "You serve a machine."), LLMMessage("user", user)),
        "view": view(user=user),
        "conversation_id": "c1",
    }
    return LLMRequest(**{**values, **changes})


class Slept:
    """A pacing that notes waits and does not wait."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.pacing = Pacing(now=time.monotonic, sleep=self.sleep, chance=lambda: 1.0)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
