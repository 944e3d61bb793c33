"""`machine.open`: one call to begin a conversation or go on with it, however many call it at once,
on every store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mongomock
import pytest

from llm_fsm import AsyncMachine, Machine
from llm_fsm.engine.machine import AsyncMachine as Opened
from llm_fsm.session import events as ev
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.mongodb import MongoDBStore
from llm_fsm.testing import ScriptedLLM, reply
from machines import GREETER

pytestmark = pytest.mark.anyio
STORES = ["memory", "sqlite", "file", "postgresql", "redis", "mongodb"]
HELLO = {"message": "Hello! Who are you?"}


@pytest.fixture(params=STORES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """Return a function that gives the store once more, as another process would open it."""
    kind = request.param
    if kind == "memory":
        store = MemoryStore()
        return lambda: store
    if kind == "mongodb":
        server = mongomock.MongoClient()
        return lambda: MongoDBStore("mongodb://db.example/bots", client=lambda: server)
    if kind == "sqlite":
        return lambda: f"sqlite:///{tmp_path / 'x.db'}"
    if kind == "file":
        return lambda: f"file://{tmp_path / 'x'}"
    url = request.getfixturevalue(f"{kind}_url")
    return lambda: url


async def test_a_first_message_that_is_delivered_twice_at_once_is_answered_once(
    make: Callable[[], Any],
) -> None:
    llm = ScriptedLLM([HELLO, reply("bye", "Bye, Ada!", name="Ada")])
    machines = [AsyncMachine.from_dict(GREETER, model=llm, store=make()) for _ in range(3)]

    async def deliver(machine: Opened, number: int) -> tuple[bool, str, str, dict[str, Any]]:
        chat = await machine.open("visitor-7", {"shop": number}, metadata={"by": str(number)})
        turn = await chat.send("I'm Ada", request_id="msg-1")
        return chat.is_new, chat.greeting, turn.text, chat.context

    found = await asyncio.gather(
        *(deliver(machine, number) for number, machine in enumerate([*machines, *machines]))
    )
    assert [is_new for is_new, *_ in found].count(True) == 1
    assert {(greeting, text) for _, greeting, text, _ in found} == {
        ("Hello! Who are you?", "Bye, Ada!")
    }
    records = await machines[0].store.records("visitor-7")
    assert len(records) == 2
    [begun] = [number for number, (is_new, *_) in enumerate(found) if is_new]
    assert {context["shop"] for *_, context in found} == {begun}, (
        "the context of the caller that began it"
    )
    for machine in machines:
        await machine.close()


async def test_open_goes_on_in_another_process_without_a_greeting(make: Callable[[], Any]) -> None:
    machine = AsyncMachine.from_dict(GREETER, model=ScriptedLLM([HELLO]), store=make())
    chat = await machine.open("visitor-7", {"shop": "Kiel"})
    assert (chat.is_new, chat.greeting, chat.context) == (
        True,
        "Hello! Who are you?",
        {"shop": "Kiel"},
    )
    other = AsyncMachine.from_dict(GREETER, model=ScriptedLLM([]), store=make())
    again = await other.open("visitor-7", {"shop": "Bonn"})
    assert (again.is_new, again.greeting, again.context) == (
        False,
        "Hello! Who are you?",
        {"shop": "Kiel"},
    )
    assert await other.delete("visitor-7")
    assert (await machine.open("visitor-7", greet=False)).is_new
    await machine.close()
    await other.close()


def test_the_synchronous_machine_has_it_too() -> None:
    with Machine.from_dict(GREETER, model=ScriptedLLM([HELLO])) as machine:
        heard: list[str] = []
        first = machine.open("a", on_event=lambda _, event: heard.append(type(event).__name__))
        assert (first.is_new, machine.open("a").is_new) == (True, False)
        assert ev.Started.__name__ in heard
        with pytest.raises(ValueError, match="conversation id"):
            machine.open("a\nb")
