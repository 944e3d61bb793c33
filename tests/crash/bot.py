"""The machine under test and its world: a shop, a model that talks too much, tools and handlers
that leave traces.

What the user says in turn n, and what the model answers to it, follows from n and the state alone,
so that a turn that is begun again in another process goes the same way.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from ledger import Ledger
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.outbox.sinks import Delivery, sink
from llm_fsm.session.messages import LLMRequest, ModelReply, ToolCall
from llm_fsm.tools.schema import CallInfo
from probes import Probe

TURNS = 12
"""Messages of a conversation; with the last one it ends."""

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "ask",
    "context_schema": {
        "type": "object",
        "properties": {
            "item": {"type": "string"},
            "count": {"type": "integer"},
            "leave": {"type": "boolean"},
            "receipt": {"type": "string", "x-source": "tool"},
            "seen": {"type": "integer", "x-source": "host"},
        },
    },
    "tools": {
        "charge": {"registered": "charge", "output": {"receipt": "receipt"}, "at_most_once": True},
        "stamp": {"registered": "stamp"},
    },
    "states": {
        "ask": {
            "purpose": "Ask what to buy",
            "required_context_keys": ["item", "count"],
            "transitions": [
                {
                    "target_state": "pay",
                    "description": "Something was chosen",
                    "conditions": [
                        {"requires_context_keys": ["item"], "logic": {">": [{"var": "count"}, 0]}}
                    ],
                },
                {
                    "target_state": "bye",
                    "description": "The user leaves",
                    "conditions": [{"logic": {"==": [{"var": "leave"}, True]}}],
                },
            ],
        },
        "pay": {
            "purpose": "Take the money",
            "tools": ["charge", "stamp"],
            "transitions": [
                {
                    "target_state": "sort",
                    "description": "It is paid",
                    "conditions": [{"requires_context_keys": ["receipt"]}],
                }
            ],
        },
        "sort": {
            "kind": "decide",
            "transitions": [
                {
                    "target_state": "thank",
                    "priority": 1,
                    "conditions": [{"logic": {">=": [{"var": "count"}, 3]}}],
                },
                {"target_state": "ask", "priority": 2},
            ],
        },
        "thank": {
            "purpose": "Thank a good customer",
            "transitions": [{"target_state": "ask", "description": "They go on"}],
        },
        "bye": {"purpose": "Say goodbye"},
    },
}


def message(turn: int) -> str:
    """What the user says in turn `turn`, counted from 1."""
    if turn == TURNS:
        return f"leave {turn}"
    return f"{('want', 'pay', 'more')[turn % 3 - 1]} {turn}"


class Model:
    """Answers by the state and the message; every call leaves a trace."""

    def __init__(self, ledger: Ledger, probe: Probe) -> None:
        self._ledger = ledger
        self._probe = probe

    async def complete(self, request: LLMRequest) -> ModelReply:
        """See the module."""
        self._probe("before the model")
        said, asked = _said(request), len(request.messages)
        self._ledger.write(
            "model", c=request.conversation_id, said=said, state=request.state, asked=asked
        )
        await asyncio.sleep(0.0005)
        calls, text = _reply(request, said, asked)
        self._probe("after the model")
        return ModelReply(text=text, tool_calls=calls)


_USER = re.compile(r"<user_input>\n(.*)\n</user_input>")


def _said(request: LLMRequest) -> str:
    """The user's message as the prompt shows it; "" where nobody spoke."""
    found = _USER.findall(request.messages[1].content)
    return str(json.loads(found[-1])) if found else ""


def _reply(request: LLMRequest, said: str, asked: int) -> tuple[tuple[ToolCall, ...], str]:
    verb, _, number = said.partition(" ")
    turn = int(number or 0)
    if request.state == "pay" and verb == "pay":
        if not any(message.role == "tool" for message in request.messages):
            calls = (("charge", {"turn": turn, "amount": turn % 5}), ("stamp", {"turn": turn}))
            return tuple(
                ToolCall(id=f"{name}-{turn}", name=name, arguments=json.dumps(arguments))
                for name, arguments in calls
            ), ""
        return (), _json("sort", said)
    if verb == "want" and request.state in ("ask", "thank"):
        target = "pay" if request.state == "ask" else "ask"
        return (), _json(target, said, item=f"item {turn}", count=turn % 5 + 1)
    if verb == "leave" and request.state == "ask":
        return (), _json("bye", said, leave=True)
    if verb == "more" and asked == 2:
        return (), "no JSON at all" if turn % 2 else _json("bye", "a move that does not stand")
    return (), _json(request.state, said)


def _json(target: str, said: str, **update: Any) -> str:
    return json.dumps(
        {
            "transition": {"target_state": target, "context_update": update},
            "message": f"You said {said}",
        }
    )


def _turn(said: str | None) -> int:
    return int(said.split()[1]) if said else 0


def machine(store: Any, ledger: Ledger, probe: Probe, **options: Any) -> AsyncMachine:
    """The shop, open."""

    async def booked(delivery: Delivery) -> None:
        probe("before the sink")
        ledger.write("told", c=delivery.conversation_id, key=delivery.key, event=delivery.event)
        probe("after the sink")

    told = [sink(booked, events=["UserSaid", "StateEntered", "BotSaid", "Ended"])]
    made = AsyncMachine.from_dict(
        SHOP, model=Model(ledger, probe), store=store, sinks=told, **options
    )

    def effect(what: str, **facts: Any) -> None:
        probe(f"before {what}")
        ledger.write("effect", name=what, **facts)
        probe(f"after {what}")

    @made.tool
    async def charge(turn: int, amount: int, info: CallInfo) -> dict[str, str]:
        """Take the money."""
        effect("charge", c=info.conversation_id, turn=turn, key=info.key)
        return {"receipt": f"{amount} for {turn}"}

    @made.tool
    async def stamp(turn: int, info: CallInfo) -> str:
        """Stamp the card."""
        effect("stamp", c=info.conversation_id, turn=turn, key=info.key)
        return "stamped"

    @made.on("pre_processing")
    async def hear(occasion: Any) -> dict[str, int]:
        effect(
            "hear", c=occasion.conversation_id, turn=_turn(occasion.user_input), key=occasion.key
        )
        return {"seen": _turn(occasion.user_input)}

    @made.on("post_transition")
    async def enter(occasion: Any) -> None:
        effect(
            "enter", c=occasion.conversation_id, turn=_turn(occasion.user_input), key=occasion.key
        )

    @made.on("end_conversation")
    async def close(occasion: Any) -> None:
        effect("close", c=occasion.conversation_id, turn=0, key=occasion.key)

    return made
