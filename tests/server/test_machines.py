"""A sink of a server hears of every machine, also of one that replaces another."""

from __future__ import annotations

import asyncio

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.engine.outbox.delivery import Delivery
from llm_fsm.engine.outbox.sinks import Sink
from llm_fsm.server.machines import Machines
from llm_fsm.testing import ScriptedLLM, reply


def machine(name: str) -> AsyncMachine:
    states = {"a": {"purpose": "Talk", "transitions": [{"target_state": "a"}]}}
    document = {"name": name, "initial_state": "a", "states": states}
    return AsyncMachine.from_dict(document, model=ScriptedLLM([reply("a", name)]))


@pytest.mark.parametrize("late", ["one", "two", "three", "a name", "Ω"])
def test_a_sink_hears_of_machines_that_come_later(late: str) -> None:
    heard: list[str] = []

    def hear(delivery: Delivery) -> None:
        heard.append(delivery.event["text"])

    async def play() -> None:
        one = Sink(name="hear", deliver=hear, events=frozenset({"BotSaid"}))
        machines = Machines([machine("one"), machine("two")])
        machines.deliver_to(one)
        machines.replace(machine(late))
        for played in machines.every():
            chat = await played.start(conversation_id=played.definition.name, greet=False)
            await chat.send("Hello")
            assert await played.closing.dispatcher.hurry(one, chat.id)
            await played.close()

    asyncio.run(play())
    assert heard == list(dict.fromkeys(["one", "two", late]))
