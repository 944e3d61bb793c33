"""Live turns beside a batch: `python -m benchmarks.batch [sqlite|postgresql] [--conversations
5000]`.

Five talkers send a message each 0.2 s, first alone, then beside two processes that share a batch of
conversations with two messages each. One of the two is killed after half of the lines. Every model
takes 50 ms and notes each call in a file, so that calls which the kill cost twice show. The bar:
the live p99 is at most 1.5 times that alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import mkdtemp

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests" / "support"))  # the services that tests start for themselves

from llm_fsm.engine.batch import in_order, play_lines, read_lines  # noqa: E402
from llm_fsm.engine.machine import AsyncMachine  # noqa: E402
from llm_fsm.session.messages import LLMRequest, ModelReply  # noqa: E402
from services import own_server  # noqa: E402

SECONDS_OF_MODEL = 0.05
TALKERS = 5
PAUSE = 0.2
MESSAGES = 2
ECHO = {
    "name": "echo",
    "initial_state": "hear",
    "states": {
        "hear": {
            "purpose": "Listen.",
            "transitions": [{"target_state": "bye", "description": "The user says goodbye"}],
        },
        "bye": {"purpose": "Say goodbye."},
    },
}
REPLY = json.dumps(
    {"transition": {"target_state": "hear", "context_update": {}}, "message": "I see."}
)


class SlowModel:
    """A model of 50 ms, which notes each call that it has answered."""

    def __init__(self, ledger: str | None = None) -> None:
        self._file = (
            None if ledger is None else os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        )

    async def complete(self, request: LLMRequest) -> ModelReply:
        await asyncio.sleep(SECONDS_OF_MODEL)
        if self._file is not None:
            turn = sum(message.role == "user" for message in request.messages)
            last = request.messages[-1].content[-200:]
            note = json.dumps([request.conversation_id, turn, last])
            os.write(self._file, note.encode() + b"\n")
        return ModelReply(text=REPLY)


async def play(url: str, inputs: str, ledger: str, done: str) -> None:
    """Play the batch, as `llm-fsm run --batch` does. Each result is a byte in the file `done`."""
    file = os.open(done, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with AsyncMachine.from_dict(ECHO, model=SlowModel(ledger), store=url) as machine:
        batch = read_lines(Path(inputs).read_bytes(), "bench", talks=True)
        lines = await in_order(machine.store, "bench", batch.lines)
        await play_lines(machine, lines, lambda _: os.write(file, b"."), limit=4)


async def talk(machine: AsyncMachine, name: str, until: asyncio.Event, took: list[float]) -> None:
    """Send messages until the end, and note the seconds of each."""
    conversation = await machine.start(conversation_id=name)
    number = 0
    while not until.is_set():
        began = time.perf_counter()
        await conversation.send(f"message {number}", request_id=f"r{number}")
        took.append(time.perf_counter() - began)
        number += 1
        await asyncio.sleep(PAUSE)


async def measured(url: str, name: str, ends: asyncio.Future[None]) -> list[float]:
    """Return the seconds of all live turns until `ends`."""
    until = asyncio.Event()
    took: list[float] = []
    async with AsyncMachine.from_dict(ECHO, model=SlowModel(), store=url) as machine:
        names = [f"{name} {number}" for number in range(TALKERS)]
        talks = [asyncio.create_task(talk(machine, one, until, took)) for one in names]
        await ends
        until.set()
        await asyncio.gather(*talks)
    return took


async def beside(url: str, folder: Path, conversations: int) -> list[float]:
    """Measure live turns beside two processes of a batch, one of which is killed."""
    command = [sys.executable, "-m", "benchmarks.batch", "play", url]
    command += [str(folder / name) for name in ("inputs.jsonl", "ledger")]
    first, second = (
        subprocess.Popen([*command, str(folder / f"done{number}")], cwd=ROOT) for number in (1, 2)
    )

    async def end() -> None:
        while _size(folder / "done1") < conversations / 3 and first.poll() is None:
            await asyncio.sleep(0.05)
        first.kill()
        await asyncio.to_thread(first.wait)
        await asyncio.to_thread(second.wait)

    try:
        return await measured(url, "beside", asyncio.ensure_future(end()))
    finally:
        first.kill()
        second.kill()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a store of its own."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/bench.db"
        return
    with own_server("postgresql") as server:
        yield server.url


def percentile(took: list[float]) -> float:
    return quantiles(took, n=100)[98]


def main() -> int:
    if sys.argv[1:2] == ["play"]:
        asyncio.run(play(*sys.argv[2:]))
        return 0
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("store", nargs="?", default="postgresql", choices=["sqlite", "postgresql"])
    options.add_argument("--conversations", type=int, default=5000)
    options.add_argument("--alone", type=float, default=30.0, help="seconds of live turns alone")
    given = options.parse_args()
    folder = Path(mkdtemp(prefix="llm-fsm-batch-"))
    line = json.dumps({"messages": [f"message {number}" for number in range(MESSAGES)]})
    (folder / "inputs.jsonl").write_text(f"{line}\n" * given.conversations)
    with ExitStack() as stack:
        url = stack.enter_context(store(given.store, folder))

        async def both() -> tuple[list[float], list[float], float]:
            alone = await measured(url, "alone", asyncio.ensure_future(asyncio.sleep(given.alone)))
            began = time.perf_counter()
            busy = await beside(url, folder, given.conversations)
            return alone, busy, time.perf_counter() - began

        alone, busy, took = asyncio.run(both())
    calls = Counter((folder / "ledger").read_text().splitlines())
    twice = sum(count - 1 for count in calls.values())
    turns = given.conversations * (MESSAGES + 1)  # with the greeting
    print(f"load of the machine            {os.getloadavg()[0]:.1f}")
    print(
        f"live alone, median / p99       {median(alone) * 1e3:.0f} / {percentile(alone) * 1e3:.0f} ms"
    )
    print(
        f"live beside, median / p99      {median(busy) * 1e3:.0f} / {percentile(busy) * 1e3:.0f} ms"
    )
    ratio = percentile(busy) / percentile(alone)
    print(
        f"p99 beside / alone             {ratio:.2f}, bar 1.5: {'pass' if ratio <= 1.5 else 'OVER'}"
    )
    print(f"model calls of the batch       {sum(calls.values())} for {turns} turns, {twice} twice")
    print(f"turns a second of the batch    {turns / took:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
