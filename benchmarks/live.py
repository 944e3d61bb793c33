"""Many live conversations in one process: `python -m benchmarks.live [memory|sqlite|postgresql] …`.

Every conversation sends its next message as soon as the last one is answered; the model takes a
second for each reply. Printed are turns per second, the median overhead of a turn without the
model, the process's memory at its highest, and errors. PostgreSQL is started for the purpose on a
free port, with its data in a temporary folder. `--paced N` sends N messages a second in all, so
that the overhead shows what a turn costs when nothing is overrun. Python looks for garbage after
50,000 new objects, as the page of guarantees advises a host of many conversations; `--collect 0`
leaves that as Python has it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from llm_fsm import AsyncMachine
from llm_fsm.session.messages import LLMRequest, ModelReply
from tests.support.services import own_server

DEFINITION = {
    "name": "live",
    "initial_state": "chat",
    "states": {
        "chat": {
            "purpose": "Talk about whatever the user brings.",
            "transitions": [{"target_state": "bye", "description": "The user says goodbye"}],
        },
        "bye": {"purpose": "Say goodbye.", "transitions": []},
    },
}
REPLY = json.dumps({"transition": {"target_state": "chat"}, "message": "Tell me more about that."})


class Slow:
    """A model that takes its time, and says how much: a timer of asyncio is up to a millisecond
    late.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def complete(self, request: LLMRequest) -> ModelReply:  # noqa: ARG002
        began = time.perf_counter()
        await asyncio.sleep(self.seconds)
        return ModelReply(text=REPLY, seconds=time.perf_counter() - began)


class Tally:
    """What was measured between `begin` and the end."""

    def __init__(self) -> None:
        self.overheads: list[float] = []
        self.errors: list[Exception] = []
        self.counting = False
        self.cpu = 0.0


@contextmanager
def store_of(kind: str) -> Iterator[str]:
    """The URL of an empty store."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "postgresql":
            with own_server("postgresql", ("shared_buffers=128MB",)) as server:
                yield server.url
        elif kind == "file":
            yield f"file://{folder}"
        else:
            yield "memory" if kind == "memory" else f"sqlite:///{folder}/live.db"


async def live(url: str, count: int, seconds: float, model: float, paced: float) -> Tally:
    """Play `count` conversations at once; count what happens in `seconds` after a warm-up."""
    tally = Tally()
    over = asyncio.Event()
    pause = count / paced - model if paced else 0.0

    async def talk(number: int) -> None:
        chat = await machine.start(conversation_id=f"c{number}", greet=False)
        await asyncio.sleep(random.random() * max(model, pause))
        turn = 0
        while not over.is_set():
            turn += 1
            began = time.perf_counter()
            try:
                asked = (await chat.send("I see.", request_id=f"r{turn}")).usage.seconds
            except Exception as error:
                tally.errors.append(error)
                asked = model
            if tally.counting:
                tally.overheads.append(time.perf_counter() - began - asked)
            if pause > 0:
                await asyncio.sleep(pause * 2 * random.random())

    async with AsyncMachine.from_dict(DEFINITION, model=Slow(model), store=url) as machine:
        tasks = [asyncio.create_task(talk(number)) for number in range(count)]
        await asyncio.sleep(max(3.0, 3 * model + pause))
        while not tally.errors and await started(machine, count) < count:
            await asyncio.sleep(0.5)
        tally.counting, before = True, time.process_time()
        await asyncio.sleep(seconds)
        tally.counting, tally.cpu = False, time.process_time() - before
        over.set()
        await asyncio.gather(*tasks)
    return tally


async def started(machine: AsyncMachine, count: int) -> int:
    """How many conversations there are, by a look at the last one."""
    return count if await machine.store.load(f"c{count - 1}") is not None else 0


def main() -> None:
    """Measure and print one line."""
    parser = argparse.ArgumentParser(prog="benchmarks.live", description=__doc__)
    parser.add_argument(
        "store", nargs="?", default="sqlite", choices=["memory", "sqlite", "postgresql", "file"]
    )
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--model", type=float, default=1.0, help="seconds that a reply takes")
    parser.add_argument(
        "--paced", type=float, default=0.0, help="messages a second, in all; 0: as many as go"
    )
    parser.add_argument(
        "--collect", type=int, default=50_000, help="new objects per collection; 0: Python's own"
    )
    given = parser.parse_args()
    if given.collect:
        gc.set_threshold(given.collect, 20, 100)
        gc.freeze()
    with store_of(given.store) as url:
        tally = asyncio.run(live(url, given.conversations, given.seconds, given.model, given.paced))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{given.store}: {given.conversations} conversations, {len(tally.overheads) / given.seconds:.0f} turns/s, "
        f"{tally.cpu / max(1, len(tally.overheads)) * 1000:.2f} ms CPU a turn, "
        f"median overhead {statistics.median(tally.overheads or [0]) * 1000:.2f} ms, {megabytes:.0f} MB, "
        f"{len(tally.errors)} errors"
    )
    for error in tally.errors[:3]:
        print(repr(error))


if __name__ == "__main__":
    main()
