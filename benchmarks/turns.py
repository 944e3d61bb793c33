"""CPU time of one turn, all threads of the process counted: the median of several rounds.

Only `send` is measured. For the figures over HTTP the scripted server runs in a process of its own,
so that only the client's CPU counts.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import aiohttp

from benchmarks.figures import Figure, Repeats
from benchmarks.forks import forks
from benchmarks.form import MESSAGES, definition, replies
from llm_fsm import AsyncMachine
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.testing.server.server import serve_scripted

PROMPT_CHARS = 6000


async def _conversation(machine: AsyncMachine) -> float:
    chat = await machine.start()
    started = time.process_time()
    for message in MESSAGES:
        turn = await chat.send(message)
    spent = time.process_time() - started
    if not turn.ended:
        raise RuntimeError(f"the conversation stopped in {turn.state}: {turn.text}")
    return spent / len(MESSAGES)


async def _median(measured: Callable[[], Awaitable[float]], rounds: int, each: int) -> float:
    for _ in range(each):
        await measured()
    found = []
    for _ in range(rounds):
        found.append(statistics.fmean([await measured() for _ in range(each)]))
    return statistics.median(found) * 1000


async def _turn(repeats: Repeats, **options: object) -> float:
    async with AsyncMachine.from_dict(definition(), **options) as machine:
        return await _median(lambda: _conversation(machine), repeats.rounds, repeats.talks)


async def _bare(url: str, repeats: Repeats) -> float:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Be terse. " * (PROMPT_CHARS // 10)}],
    }
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call() -> float:
            started = time.process_time()
            async with session.post(f"{url}/chat/completions", json=body) as response:
                json.loads(await response.read())["choices"][0]["message"]["content"]
            return time.process_time() - started

        return await _median(call, repeats.rounds, repeats.talks * len(MESSAGES))


def _serve(pipe: Connection) -> None:
    script = itertools.cycle(replies())
    with serve_scripted(lambda _: next(script)) as server:
        pipe.send(server.base_url)
        pipe.recv()


@contextmanager
def _server() -> Iterator[str]:
    """A scripted server in a process of its own; its base URL."""
    ours, theirs = multiprocessing.Pipe()
    process = forks().Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
        ours.send("stop")
    finally:
        process.join()


def measure(repeats: Repeats) -> Iterator[Figure]:
    """A turn with the scripted model in memory and with SQLite, and through HTTP."""
    script = ScriptedLLM(replies(), loop=True)
    yield Figure(
        "CPU of a turn, scripted model, memory store",
        asyncio.run(_turn(repeats, model=script)),
        0.25,
    )
    with tempfile.TemporaryDirectory() as folder:
        script = ScriptedLLM(replies(), loop=True)
        store = f"sqlite:///{folder}/bench.db"
        yield Figure(
            "CPU of a turn, scripted model, SQLite",
            asyncio.run(_turn(repeats, model=script, store=store)),
            0.5,
        )
    with _server() as url:
        http = asyncio.run(_turn(repeats, model="m", base_url=url, api_key="none"))
        yield Figure("CPU of a turn, compat over loopback HTTP", http, 0.8)
    with _server() as url:
        yield Figure(
            "CPU of a bare aiohttp call to the same server", asyncio.run(_bare(url, repeats))
        )
