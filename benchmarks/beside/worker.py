"""One measurement of one system in the environment of that system; prints one line of JSON.

python worker.py MODULE:CLASS MODE '{"base_url": ..., ...}'
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
import traceback
import uuid
from typing import Any

import psutil
from workload import TURNS, idle_turn

ME = psutil.Process()


def rss_mb() -> float:
    """Memory of this process in MB."""
    return ME.memory_info().rss / 2**20


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` per cent lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share / 100 * len(ordered)))]


class Driver:
    """The same words for systems that are async and that are not."""

    def __init__(self, peer: str, options: dict[str, Any], store: str | None) -> None:
        module, _, name = peer.partition(":")
        made = getattr(importlib.import_module(f"adapters.{module}"), name)
        self.peer = made(options["base_url"], stub=options.get("stub", False), store=store)
        self.is_async = self.peer.is_async
        self.per_call = getattr(self.peer, "turns_per_call", 1)
        self.turns = TURNS if self.per_call == 1 else ["run"]

    def open(self) -> Any:
        return self.peer.open(uuid.uuid4().hex)

    async def start(self, conversation: Any) -> Any:
        found = self.peer.start(conversation)
        return await found if asyncio.iscoroutine(found) else found

    async def turn(self, conversation: Any, text: str) -> Any:
        found = self.peer.turn(conversation, text)
        return await found if self.is_async else found


async def talk(driver: Driver, _options: Any) -> dict[str, Any]:
    """One conversation, whole: does the system end where it should, with the values it should have?"""
    conversation = driver.open()
    greeted = await driver.start(conversation) is not None
    for text in driver.turns:
        await driver.turn(conversation, text)
    data = {
        key: value
        for key, value in driver.peer.data(conversation).items()
        if not key.startswith("_")
    }
    return {
        "state": driver.peer.state(conversation),
        "data": data,
        "greeted": greeted,
        "turns": len(driver.turns) * driver.per_call,
    }


async def turns(driver: Driver, options: Any) -> dict[str, Any]:
    """Conversations one after the other: time and CPU of this process, per turn; its CPU up to the
    first reply.
    """
    wall, cpu, first = [], [], 0.0
    for number in range(options["warm"] + options["conversations"]):
        conversation = driver.open()
        await driver.start(conversation)
        for text in driver.turns:
            wall_at, cpu_at = time.perf_counter(), time.process_time()
            await driver.turn(conversation, text)
            first = first or time.process_time()
            if number >= options["warm"]:
                wall.append((time.perf_counter() - wall_at) / driver.per_call)
                cpu.append((time.process_time() - cpu_at) / driver.per_call)
    return {
        "wall_ms": statistics.median(wall) * 1e3,
        "cpu_ms": statistics.median(cpu) * 1e3,
        "cpu_mean_ms": statistics.mean(cpu) * 1e3,
        "first_cpu_ms": first * 1e3,
    }


async def many(driver: Driver, options: Any) -> dict[str, Any]:
    """Many conversations at once: greetings and first turns, then the measured turns, at least one
    each.

    After `options["seconds"]` none begins another turn, nor another first turn: a slow system makes
    fewer.
    """
    conversations = [driver.open() for _ in range(options["n"])]
    crowd = Crowd(driver, options["rounds"], options["seconds"])
    wall, cpu = await (_tasks if driver.is_async else _threads)(crowd, conversations)
    taken, errors = crowd.taken, crowd.errors
    made = len(taken) * driver.per_call
    return {
        "turns_per_s": made / wall,
        "p50_ms": percentile(taken, 50) * 1e3 / driver.per_call,
        "p99_ms": percentile(taken, 99) * 1e3 / driver.per_call,
        "cpu_ms": cpu / made * 1e3,
        "rss_mb": rss_mb(),
        "errors": len(errors),
        "error": errors[:1],
    }


class Crowd:
    """What many conversations say, until when, and what came of it."""

    def __init__(self, driver: Driver, rounds: int, seconds: float) -> None:
        self.driver = driver
        self.first = driver.turns[0]
        self.script = (driver.turns[1:] * 10)[:rounds] if driver.per_call == 1 else ["run"] * rounds
        self.seconds = seconds
        self.taken: list[float] = []
        self.errors: list[str] = []
        self.clock()

    def clock(self) -> tuple[float, float]:
        """Start the time in which turns may begin; now, and the CPU time so far."""
        self.began = time.perf_counter()
        return self.began, time.process_time()

    @property
    def over(self) -> bool:
        return time.perf_counter() - self.began > self.seconds

    def failed(self, error: Exception, when: str = "") -> None:
        self.errors.append(f"{when}{error!r}"[:200])


async def _tasks(crowd: Crowd, conversations: list[Any]) -> tuple[float, float]:
    driver = crowd.driver

    async def prepare(conversation: Any) -> None:
        try:
            await driver.start(conversation)
            if not crowd.over:
                await driver.turn(conversation, crowd.first)
        except Exception as error:
            crowd.failed(error, "prepare ")

    async def one(conversation: Any) -> None:
        for number, text in enumerate(crowd.script):
            at = time.perf_counter()
            if number and crowd.over:
                return
            try:
                await driver.turn(conversation, text)
            except Exception as error:
                crowd.failed(error)
            crowd.taken.append(time.perf_counter() - at)

    crowd.clock()
    await asyncio.gather(*map(prepare, conversations))
    wall, cpu = crowd.clock()
    await asyncio.gather(*map(one, conversations))
    return time.perf_counter() - wall, time.process_time() - cpu


async def _threads(crowd: Crowd, conversations: list[Any]) -> tuple[float, float]:
    peer, ready = crowd.driver.peer, threading.Barrier(len(conversations) + 1)

    def one(conversation: Any) -> None:
        try:
            peer.start(conversation)
            if not crowd.over:
                peer.turn(conversation, crowd.first)
        except Exception as error:
            crowd.failed(error, "prepare ")
        ready.wait()
        for number, text in enumerate(crowd.script):
            at = time.perf_counter()
            if number and crowd.over:
                return
            try:
                peer.turn(conversation, text)
            except Exception as error:
                crowd.failed(error)
            crowd.taken.append(time.perf_counter() - at)

    threading.stack_size(512 * 1024)
    running = [threading.Thread(target=one, args=(conversation,)) for conversation in conversations]
    crowd.clock()
    for thread in running:
        thread.start()
    while ready.n_waiting < len(conversations):
        time.sleep(0.005)
    # The clock starts before the barrier opens: after it, this thread would have to win the GIL
    # from all others.
    wall, cpu = crowd.clock()
    ready.wait()
    for thread in running:
        thread.join()
    return time.perf_counter() - wall, time.process_time() - cpu


async def idle(driver: Driver, options: Any) -> dict[str, Any]:
    """Memory that conversations take which have said two things and wait."""
    kept = []

    async def one() -> None:
        conversation = driver.open()
        await driver.start(conversation)
        for text in driver.turns[:2]:
            await driver.turn(conversation, text)
        kept.append(conversation)

    for _ in range(20):
        await one()
    gc.collect()
    before, began, count = rss_mb(), time.perf_counter(), 0
    while count < options["n"] and time.perf_counter() - began < options["seconds"]:
        await one()
        count += 1
    gc.collect()
    return {"n": count, "kb": (rss_mb() - before) * 1024 / count}


async def long(driver: Driver, options: Any) -> dict[str, Any]:
    """One conversation that fills no field: time per turn, and what the store holds, at turns 10,
    100 and 500.

    After `options["seconds"]` no turn begins; `turns` says how many were made.
    """
    conversation = driver.open()
    await driver.start(conversation)
    await driver.turn(conversation, "Hi there!")
    wall, sizes, began = [], {}, time.perf_counter()
    for number in range(1, options["turns"] + 1):
        at = time.perf_counter()
        if at - began > options["seconds"]:
            break
        await driver.turn(conversation, idle_turn(number))
        wall.append(time.perf_counter() - at)
        if options.get("store") and number in (10, 100, 500):
            sizes[number] = driver.peer.store_bytes()
    at_turn = {
        str(number): statistics.median(wall[max(0, number - 6) : number + 5]) * 1e3
        for number in (10, 100, 500)
        if number <= len(wall)
    }
    return {"turns": len(wall), "ms_at": at_turn, "store_bytes_at": sizes}


async def stream(driver: Driver, options: Any) -> dict[str, Any]:
    """A streamed turn: time to the first character that is meant for the user (the words begin with
    Thank).

    A system that cannot stream shows its words when the turn is over.
    """
    visible, total, text = [], [], ""
    can = hasattr(driver.peer, "stream")
    user = "My full name is Maria Gonzalez"
    for number in range(options["times"] + 1):
        conversation = driver.open()
        await driver.start(conversation)
        await driver.turn(conversation, "Hi there!")
        began, seen, text = time.perf_counter(), None, ""
        async for piece in _pieces(driver, conversation, user, can):
            text += piece or ""
            if seen is None and "Thank" in text:
                seen = time.perf_counter() - began
        if number:
            visible.append(seen or time.perf_counter() - began)
            total.append(time.perf_counter() - began)
    return {
        "streams": can,
        "visible_ms": statistics.median(visible) * 1e3,
        "total_ms": statistics.median(total) * 1e3,
        "shows_json": text.lstrip().startswith("{"),
    }


async def _pieces(driver: Driver, conversation: Any, user: str, can: bool) -> Any:
    if not can:
        yield await driver.turn(conversation, user)
        return
    pieces = driver.peer.stream(conversation, user)
    if hasattr(pieces, "__aiter__"):
        async for piece in pieces:
            yield piece
    else:
        for piece in pieces:
            yield piece


MODES = {"talk": talk, "turns": turns, "many": many, "idle": idle, "long": long, "stream": stream}


async def measured(
    peer: str, mode: str, options: dict[str, Any], store: str | None
) -> dict[str, Any]:
    """What a mode finds out about a system."""
    driver = Driver(peer, options, store)
    found = await MODES[mode](driver, options)
    if hasattr(driver.peer, "aclose"):
        await driver.peer.aclose()
    return found


def main() -> None:
    """Measure, print, and leave without waiting for the threads of others."""
    peer, mode, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    if options.get("pinned", True):
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, {0})
    answer = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what systems print is not the answer
    # Where it runs, which whoever called it removes: a process that is ended early removes nothing.
    store = tempfile.mkdtemp(prefix="beside-", dir=os.getcwd()) if options.get("store") else None
    try:
        found = asyncio.run(measured(peer, mode, options, store))
    except Exception as error:
        found = {"failed": repr(error)[:300], "trace": traceback.format_exc()[-1500:]}
    if store is not None:
        shutil.rmtree(store, ignore_errors=True)
    os.write(answer, (json.dumps(found, default=str) + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()
