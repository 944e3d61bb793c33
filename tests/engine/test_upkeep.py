"""Looks for work without a caller: bounded, fair to failures, and handed back at the end."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from dead_processes import Hanging
from llm_fsm import AsyncMachine
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.errors import StoreError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.stores.memory import MemoryStore
from orders import ORDER, REPLIES

pytestmark = pytest.mark.anyio


class Counted(MemoryStore):
    """One that counts what a look asks."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.away = False

    async def unfinished(self, *given, **named):
        self.asked.append("unfinished")
        if self.away:
            raise StoreError("the store is away")
        return await super().unfinished(*given, **named)

    async def due(self, *given, **named):
        self.asked.append("due")
        return await super().due(*given, **named)

    async def accepted(self, query):
        self.asked.append("accepted")
        return await super().accepted(query)

    async def outbox(self, query):
        self.asked.append("outbox")
        return await super().outbox(query)


def order(store, hear=lambda occasion: None, name="order"):
    document = {**ORDER, "name": name}
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM(REPLIES, loop=True), store=store)
    machine.on("pre_processing")(hear)
    return machine


async def left_behind(store, names, definition="order"):
    machine = order(store, name=definition)
    for name in names:
        await machine.start(conversation_id=name, greet=False)
        entry = {"kind": "message", "request_id": "r1", "text": "hello", "time": 1.0}
        entry |= {"definition": definition, "step": 0}
        await store.journal(name, 0, json.dumps(entry))


async def until(check, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not await check() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert await check()


async def test_an_idle_look_asks_four_things_however_many_machines_there_are():
    store = Counted()
    machines = [order(store, name=f"order {number}") for number in range(20)]
    await machines[0].start(conversation_id="c", greet=False)
    store.asked.clear()
    await Upkeep(lambda: machines).look()
    assert store.asked == ["unfinished", "due", "accepted", "outbox"]


async def test_unfinished_turns_of_all_machines_are_finished():
    store = MemoryStore()
    machines = [order(store, name=name) for name in ("one", "two")]
    await left_behind(store, ["a", "b"], "one")
    await left_behind(store, ["c"], "two")
    keeper = Upkeep(lambda: machines, every=0.05)
    looking = asyncio.create_task(keeper.run())

    async def are_done():
        return [len(await store.records(name)) for name in "abc"] == [2, 2, 2]

    await until(are_done)
    looking.cancel()
    await keeper.stop()


async def test_no_more_are_begun_than_there_are_places():
    store, hanging = MemoryStore(), Hanging()
    await left_behind(store, [f"c{number}" for number in range(9)])
    began = []

    async def hear(occasion):
        began.append(occasion.conversation_id)
        await hanging.hang()

    keeper = Upkeep(lambda: [order(store, hear)], concurrency=3)
    for _ in range(3):
        await keeper.look()
        await asyncio.sleep(0.05)
    assert len(began) == 3
    await keeper.stop(0)
    assert len(await store.unfinished()) == 9


async def test_work_that_found_no_place_begins_as_soon_as_places_are_free():
    store = MemoryStore()
    names = [f"c{number}" for number in range(9)]
    await left_behind(store, names)
    machine = order(store)
    keeper = Upkeep(lambda: [machine], every=3600, concurrency=2)
    looking = asyncio.create_task(keeper.run())

    async def all_done():
        return not await store.unfinished()

    await until(all_done)
    looking.cancel()
    await keeper.stop()
    assert [len(await store.records(name)) for name in names] == [2] * 9


async def test_what_does_not_end_in_time_is_handed_back_and_taken_up_by_another():
    store, hanging = MemoryStore(), Hanging()
    await left_behind(store, ["c"])
    keeper = Upkeep(lambda: [order(store, hanging.handle)])
    await keeper.look()
    await hanging.entered.wait()
    await keeper.stop(0.01)
    (turn,) = await order(store).run_due()
    assert turn.request_id == "r1"


async def test_what_ends_in_time_is_waited_for():
    store, leave = MemoryStore(), asyncio.Event()
    entered = asyncio.Event()

    async def hear(occasion):
        entered.set()
        await leave.wait()

    await left_behind(store, ["c"])
    keeper = Upkeep(lambda: [order(store, hear)])
    await keeper.look()
    await entered.wait()
    ending = asyncio.create_task(keeper.stop())
    leave.set()
    await ending
    assert len(await store.records("c")) == 2


async def test_a_failure_is_reported_once_and_holds_up_nobody_else():
    store, said = MemoryStore(), []
    await left_behind(store, ["a", "b"])

    class Fails(ScriptedLLM):
        async def complete(self, request):
            if request.conversation_id == "a":
                raise ConnectionError("no network")
            return await super().complete(request)

    machine = order(store)
    machine.llm = Fails(REPLIES, loop=True)
    keeper = Upkeep(lambda: [machine], every=0.01, report=lambda what, error: said.append(what))
    looking = asyncio.create_task(keeper.run())

    async def is_done():
        return len(await store.records("b")) == 2

    await until(is_done)
    await asyncio.sleep(0.2)
    looking.cancel()
    await keeper.stop()
    assert said == ["what 'order' has due failed"]
    assert list(await store.unfinished()) == ["a"]


async def test_a_store_that_is_away_is_reported_once_and_looked_at_again():
    store, said = Counted(), []
    await left_behind(store, ["c"])
    store.away = True
    keeper = Upkeep(lambda: [order(store)], every=0.01, report=lambda what, error: said.append(str(error)))
    looking = asyncio.create_task(keeper.run())
    await asyncio.sleep(0.1)
    assert said == ["the store is away"]
    store.away = False

    async def is_done():
        return len(await store.records("c")) == 2

    await until(is_done)
    looking.cancel()
    await keeper.stop()


async def test_a_run_that_begins_just_now_is_left_to_its_caller():
    store = MemoryStore()
    document = {"name": "flow", "initial_state": "one", "states": {"one": {"kind": "task", "purpose": "Do it"}}}
    machine = AsyncMachine.from_dict(document, model=ScriptedLLM(["done"], loop=True), store=store)

    async def never(*given, **named):
        raise asyncio.CancelledError

    machine._engine.run, run = never, machine._engine.run
    await asyncio.gather(machine.run(conversation_id="c"), return_exceptions=True)
    machine._engine.run = run
    keeper = Upkeep(lambda: [machine])
    await keeper.look()
    await keeper.stop()
    assert len(await store.records("c")) == 1
    machine._now = lambda: time.time() + 2
    await keeper.look()
    await keeper.stop()
    assert len(await store.records("c")) == 2
