"""Lateness of time-outs: `python -m benchmarks.lateness [sqlite|postgresql] [--conversations 200]`.

Conversations begin over ten seconds, and each has a time-out of two seconds. Two processes look for
what is due, as `llm-fsm worker` does; one of them is killed in the middle. The lateness of a
time-out is the time of its turn less the time at which it was due. The bar: at most two seconds,
and each time-out once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

from benchmarks.batch import ROOT, SlowModel, store
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.stores.base import ListQuery

TIMEOUT = 2.0
SECONDS_OF_BEGINNINGS = 10.0
LONGEST_WAIT = 30.0
TIMED = {
    "name": "timed",
    "initial_state": "hello",
    "states": {
        "hello": {
            "purpose": "Wait for a message.",
            "message": "Hello.",
            "timeout": TIMEOUT,
            "on_timeout": "bye",
            "transitions": [{"target_state": "bye", "description": "The user says goodbye"}],
        },
        "bye": {"purpose": "Say goodbye.", "message": "Goodbye."},
    },
}


async def watch(url: str) -> None:
    """Do what is due until the process ends."""
    async with AsyncMachine.from_dict(TIMED, model=SlowModel(), store=url) as machine:
        await Upkeep(lambda: [machine], report=_report).run()


def _report(said: str, error: BaseException) -> None:
    print(f"{said}: {error!r}", file=sys.stderr)


async def measure(url: str, count: int) -> list[float]:
    """Return the seconds by which each time-out was late."""
    command = [sys.executable, "-m", "benchmarks.lateness", "watch", url]
    async with AsyncMachine.from_dict(TIMED, model=SlowModel(), store=url) as machine:
        watchers = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
        try:
            await _begin(machine, count, watchers[0])
            return await _late(machine, count)
        finally:
            for watcher in watchers:
                watcher.kill()
                watcher.wait()


async def _begin(machine: AsyncMachine, count: int, killed: subprocess.Popen[bytes]) -> None:
    """Begin the conversations one after the other, and kill a process after half of them."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    pause = SECONDS_OF_BEGINNINGS / count
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number * pause - loop.time()))
        await machine.start(conversation_id=f"timed {number}")
        if number == count // 2:
            killed.kill()


async def _late(machine: AsyncMachine, count: int) -> list[float]:
    """Wait until all conversations have ended, and return how late each was."""
    async with asyncio.timeout(LONGEST_WAIT):
        while True:
            lines = await machine.store.list(ListQuery(limit=count, ended=True))
            if len(lines) == count:
                break
            await asyncio.sleep(0.1)
    if any(line.turns != 2 for line in lines):
        raise RuntimeError("a time-out happened twice")
    return [line.updated - line.created - TIMEOUT for line in lines]


def main() -> int:
    if sys.argv[1:2] == ["watch"]:
        asyncio.run(watch(sys.argv[2]))
        return 0
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("store", nargs="?", default="postgresql", choices=["sqlite", "postgresql"])
    options.add_argument("--conversations", type=int, default=200)
    given = options.parse_args()
    with ExitStack() as stack:
        url = stack.enter_context(store(given.store, Path(mkdtemp(prefix="llm-fsm-late-"))))
        late = asyncio.run(measure(url, given.conversations))
    print(f"load of the machine       {os.getloadavg()[0]:.1f}")
    print(f"late, median / worst      {median(late):.2f} / {max(late):.2f} s of {len(late)}, bar 2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
