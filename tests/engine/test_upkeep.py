"""Looks for work without a caller: bounded, fair to failures, and handed back at the end."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager, suppress

import pytest

from dead_processes import Hanging
from llm_fsm import AsyncMachine
from llm_fsm.durable import submit
from llm_fsm.engine import upkeep
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

    listen = None  # it tells nobody of messages, as most stores

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
    keeper = Upkeep(
        lambda: [order(store)], every=0.01, report=lambda what, error: said.append(str(error))
    )
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
    document = {
        "name": "flow",
        "initial_state": "one",
        "states": {"one": {"kind": "task", "purpose": "Do it"}},
    }
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


@asynccontextmanager
async def kept(machine, **options):
    """An upkeep that runs while this is entered."""
    keeper = Upkeep(lambda: [machine], **options)
    looking = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await keeper.stop()


async def answered(store, name="c"):
    async def is_done():
        return len(await store.records(name)) > 1

    await until(is_done)


async def test_an_accepted_message_wakes_a_worker():
    store = MemoryStore()
    async with kept(order(store), every=3600):
        await asyncio.sleep(0.1)
        await submit("order", "c", "hello", "r1", store=store)
        await answered(store)
    assert store._listeners == []


async def test_a_message_that_another_thread_accepts_wakes_a_worker():
    store = MemoryStore()
    async with kept(order(store), every=3600):
        await asyncio.sleep(0.1)
        await asyncio.to_thread(asyncio.run, submit("order", "c", "hello", "r1", store=store))
        await answered(store)


async def test_a_store_that_tells_nobody_is_looked_at_all_the_same():
    store, said = Counted(), []
    async with kept(order(store), every=0.05, report=lambda what, error: said.append(what)):
        await submit("order", "c", "hello", "r1", store=store)
        await answered(store)
    assert said == []


class Deaf(MemoryStore):
    """One that cannot listen at first."""

    def __init__(self):
        super().__init__()
        self.tries = 0

    async def listen(self, wake):
        self.tries += 1
        if self.tries < 3:
            raise StoreError("no listener can connect")
        await super().listen(wake)


async def test_a_listener_that_fails_is_reported_once_and_ends_no_look(monkeypatch):
    monkeypatch.setattr(upkeep, "_LISTEN_AGAIN", 0.05)
    store, said = Deaf(), []
    async with kept(order(store), every=0.05, report=lambda what, error: said.append(str(error))):
        await submit("order", "c", "hello", "r1", store=store)
        await answered(store)

        async def listens():
            return len(store._listeners) == 1

        await until(listens)
    assert said == ["no listener can connect"]
    assert store.tries == 3


class Telling(Counted):
    listen = MemoryStore.listen


async def test_a_burst_of_messages_leads_to_few_looks():
    store = Telling()
    machine = order(store)
    async with kept(machine, every=3600):
        await asyncio.sleep(0.1)
        store.asked.clear()
        began = time.monotonic()
        for number in range(1000):
            later = time.time() + 3600
            await submit("order", "c", "hello", f"r{number}", later, store=store)
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        most = (time.monotonic() - began) / upkeep._BETWEEN_LOOKS + 2
        looks = store.asked.count("unfinished")
    assert 1 <= looks <= most


async def test_one_store_has_one_listener_however_many_machines_and_looks_there_are():
    store = MemoryStore()
    machines = [order(store, name=f"order {number}") for number in range(5)]
    keeper = Upkeep(lambda: machines, every=0.03)
    looking = asyncio.create_task(keeper.run())
    await asyncio.sleep(0.3)
    assert len(store._listeners) == 1
    machines.clear()

    async def nobody_listens():
        return not store._listeners

    await until(nobody_listens)
    looking.cancel()
    await keeper.stop()


async def once_cancelled():
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(3600)


class LosesInLook(MemoryStore):
    """One with a driver that loses the first cancellation of a look."""

    async def outbox(self, query):
        await once_cancelled()
        return await super().outbox(query)


class LosesInListener(MemoryStore):
    """One with a driver that loses the first cancellation of a listener."""

    async def listen(self, wake):
        await once_cancelled()
        await super().listen(wake)


@pytest.mark.parametrize("kind", [LosesInLook, LosesInListener])
async def test_a_driver_that_loses_a_cancellation_does_not_keep_a_worker_alive(kind):
    store = kind()
    keeper = Upkeep(lambda: [order(store)], every=3600)
    looking = asyncio.create_task(keeper.run())
    await asyncio.sleep(0.1)
    looking.cancel()
    done, _ = await asyncio.wait([looking], timeout=5)
    assert done
    assert looking.cancelled()
