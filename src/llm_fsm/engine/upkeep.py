"""Work that has no caller, for every machine of a host: unfinished turns, accepted messages,
time-outs, sinks.

`llm-fsm worker` and `llm-fsm serve` run it. Any number of them may look at one store: the lock of a
conversation decides who does its work. A look reads what is open or due, and no idle conversation.
A store that can tell of an accepted message causes a look at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from llm_fsm._async import cancel_all, is_cancelled
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.stores.base import (
    AcceptedQuery,
    Listen,
    OutboxQuery,
    Store,
    every_unfinished,
    listener_of,
    storable,
)

DRAIN_SECONDS = 20.0
"""Seconds that work under way has to end when the host stops. The rest is handed back."""
_BEGUN_BEFORE = 1.0
"""Seconds after which a run without a first step counts as left. Its caller makes it at once."""
_ROWS = 1000
_LOOKS_TO_WAIT = 5
_MOST_DOUBLINGS = 6
_BETWEEN_LOOKS = 0.02
"""The least seconds between two looks.

Else a stream of messages would make each worker read the store all the time.
"""
_GUARDS = "\0guards"
"""What stands for the guards of a release beside ids of conversations. It can be none."""
_CANCEL_AGAIN = 0.1
_LISTEN_AGAIN = 1.0
"""Seconds, give or take a fifth, until a listener that failed begins again."""

CurrentMachines = Callable[[], Iterable[AsyncMachine]]
"""Gives the machines of a process as they are now."""
Report = Callable[[str, BaseException], None]
"""Receives a sentence and an error."""


class Upkeep:
    """The work without a caller of some machines.

    Args:
        machines: Returns the machines. It is asked at every look.
        every: Seconds between two looks, give or take a fifth.
        concurrency: The most conversations that are worked on at once.
        report: Receives what failed, once until it works again.
    """

    def __init__(
        self,
        machines: CurrentMachines,
        *,
        every: float = 1.0,
        concurrency: int = 16,
        report: Report | None = None,
    ) -> None:
        self._machines = machines
        self._every = every
        self._concurrency = concurrency
        self._report = report
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._failures: dict[tuple[str, str], int] = {}
        self._wait_until: dict[tuple[str, str], float] = {}
        self._failing: set[str] = set()
        self._woken = asyncio.Event()
        self._crowded = False
        self._stores: dict[int, Store] = {}
        self._listeners: dict[int, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Look again at once."""
        self._woken.set()

    async def run(self) -> None:
        """Look, at intervals and when woken, until this is cancelled. Then call `stop`."""
        try:
            while True:
                self._woken.clear()
                await self.look()
                if is_cancelled():
                    raise asyncio.CancelledError
                await self._listen()
                await self._rest()
        finally:
            self._stores = {}
            await self._listen()

    async def _rest(self) -> None:
        """Wait for the time of the next look, or until this is woken."""
        pause = self._every * random.uniform(0.8, 1.2)  # so that several do not look together
        # Not even a wake-up comes earlier: many messages at once would mean many looks.
        least = min(pause, _BETWEEN_LOOKS)
        await asyncio.sleep(least)
        with suppress(TimeoutError):
            async with asyncio.timeout(pause - least):
                await self._woken.wait()

    async def _listen(self) -> None:
        """Begin to listen to the stores of the last look, and end the listeners of all others."""
        for key, store in self._stores.items():
            listen = listener_of(store)
            if listen is not None and key not in self._listeners:
                self._listeners[key] = asyncio.create_task(self._hear(listen))
        left = self._listeners.keys() - self._stores.keys()
        gone = {self._listeners.pop(key) for key in left}
        # again and again, because a driver may lose a cancellation: redis-py uses
        # `asyncio.wait_for`, which goes on in Python 3.11 if what it waits for ends just then
        while gone:
            for task in gone:
                task.cancel()
            _, gone = await asyncio.wait(gone, timeout=_CANCEL_AGAIN)

    async def _hear(self, listen: Listen) -> None:
        """Listen to one store. What it misses while it cannot, a look finds."""
        key = f"listen {id(listen)}"

        def hear() -> None:
            self._failing.discard(key)
            self.wake()

        while True:
            try:
                await listen(hear)
            except Exception as error:
                said = "an accepted message waits for the next look, because nothing tells of it"
                self._complain(key, said, error)
            await asyncio.sleep(_LISTEN_AGAIN * random.uniform(0.8, 1.2))

    async def look(self) -> None:
        """Look once, and begin what is found. An error is reported, and the next look tries again."""
        self._crowded = False
        try:
            groups = _by_store(self._machines())
            self._stores = {id(store): store for store, _ in groups}
            for store, machines in groups:
                await self._look_at(store, machines)
        except Exception as error:
            self._complain("the store", "the look for unfinished and due turns failed", error)
        else:
            self._failing.discard("the store")

    async def stop(self, seconds: float = DRAIN_SECONDS) -> None:
        """End: what runs has some seconds to finish, and the rest is handed back to others."""
        if tasks := [*self._running.values()]:
            _, left = await asyncio.wait(tasks, timeout=seconds)
            await cancel_all(left)

    async def _look_at(self, store: Store, machines: Mapping[str, AsyncMachine]) -> None:
        """Look at one store: first with one query for all machines, then for each if there is
        something.
        """
        found: list[tuple[str, str]] = []
        # Mostly there is nothing, so one query for all machines comes first.
        if await store.unfinished(1, machines.keys()):
            for name in machines:
                found += [(name, one) async for one in every_unfinished(store, [name])]
        for name, machine in await self._with_due(store, machines):
            found += [(name, one) for one in await _due(store, name, machine._now())]
        found += await _accepted(store, machines)
        random.shuffle(found)  # several hosts see the same list, and begin at different ends
        # A conversation may be found as unfinished and as due, and is taken up once.
        for key in dict.fromkeys(found):
            name, conversation_id = key
            self._begin(key, partial(machines[name].take_up, conversation_id))
        for name, machine in machines.items():
            # A release that has nothing to do takes no place from conversations.
            if machine.release is not None and machine.release.is_due:
                self._begin((name, _GUARDS), machine._engine.watch_release)
        if await store.outbox(OutboxQuery(limit=1)):
            for name, machine in machines.items():
                self._begin((name, ""), partial(machine._engine.resume_deliveries, again=True))

    async def _with_due(
        self, store: Store, machines: Mapping[str, AsyncMachine]
    ) -> Sequence[tuple[str, AsyncMachine]]:
        """Return the machines to ask about due rows; none if no row of any machine is due."""
        latest = max((machine._now() for machine in machines.values()), default=0.0)
        return tuple(machines.items()) if await store.due(latest, 1) else ()

    def _begin(self, key: tuple[str, str], work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Begin work in a task, unless it is under way, failed just now, or there is no place."""
        now = asyncio.get_running_loop().time()
        too_early = self._wait_until.get(key, 0.0) > now
        if key in self._running or too_early:
            return
        if len(self._running) >= self._concurrency:
            self._crowded = True
            return
        task = asyncio.create_task(self._work(key, work))
        self._running[key] = task
        task.add_done_callback(lambda _: self._end(key))

    def _end(self, key: tuple[str, str]) -> None:
        """Free the place of some work, and look again at once if other work waits for a place."""
        self._running.pop(key, None)
        if self._crowded and len(self._running) <= self._concurrency // 2:
            # at half, because a look for each free place would read the store too often
            self.wake()

    async def _work(
        self, key: tuple[str, str], work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        try:
            done = await work()
        except Exception as error:  # it stays due or unfinished
            self._failures[key] = self._failures.get(key, 0) + 1
            doublings = min(self._failures[key] - 1, _MOST_DOUBLINGS)
            pause = self._every * _LOOKS_TO_WAIT * 2.0**doublings
            self._wait_until[key] = asyncio.get_running_loop().time() + pause
            self._complain(key[0], f"what {key[0]!r} has due failed", error)
        else:
            self._failures.pop(key, None)
            self._wait_until.pop(key, None)
            if done is not None:
                self.wake()  # more may wait behind it, in its conversation or for its place
            if not any(name == key[0] for name, _ in self._failures):
                self._failing.discard(key[0])

    def _complain(self, what: str, said: str, error: BaseException) -> None:
        if what not in self._failing and self._report is not None:
            self._report(said, error)
        self._failing.add(what)


def _by_store(machines: Iterable[AsyncMachine]) -> Sequence[tuple[Store, dict[str, AsyncMachine]]]:
    """Group machines by their stores, and name each by its definition."""
    found: dict[int, tuple[Store, dict[str, AsyncMachine]]] = {}
    for machine in machines:
        _, named = found.setdefault(id(machine.store), (machine.store, {}))
        named[storable(machine.definition.name)] = machine
    return tuple(found.values())


async def _accepted(
    store: Store, machines: Mapping[str, AsyncMachine]
) -> Sequence[tuple[str, str]]:
    """Return the names of definitions and conversations that have an accepted message to answer."""
    latest = max((machine._now() for machine in machines.values()), default=0.0)
    if not await store.accepted(AcceptedQuery(now=latest, limit=1)):
        return ()
    found: list[tuple[str, str]] = []
    for name, machine in machines.items():
        query = AcceptedQuery(now=machine._now(), limit=_ROWS, definition=name)
        found += [(name, row.conversation_id) for row in await store.accepted(query)]
    return found


async def _due(store: Store, definition: str, now: float) -> Sequence[str]:
    """Return the conversations of a definition that have something due, without runs that begin
    just now.
    """
    rows = await store.due(now, _ROWS, definition)
    left = [row for row in rows if row.kind != "run" or row.time <= now - _BEGUN_BEFORE]
    return [row.conversation_id for row in left]
