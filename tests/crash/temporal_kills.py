"""Kills of Temporal's workers, and of its server with its database file. `python
tests/crash/temporal_kills.py`.

Users talk through Temporal, and conversations wait for time-outs. Of two workers one is killed and
begun again, and one is never touched. The server loses its database file with each kill. Exit code
1 when anything was lost, doubled or out of order.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "support"))

from llm_fsm.stores.registry import resolve
from services import open_folder
from temporal_server import TemporalServer
from temporal_talkers import Talkers, faults, has_grown
from temporal_worker import machines
from temporal_workers import begin, end

REMINDERS = 4
PATIENCE = 90.0


async def killed(server: TemporalServer, folder: Path, kills: int, losses: int) -> int:
    store, steady, ledger = f"sqlite:///{folder}/bots.db", folder / "steady", folder / "killed"
    echo, waiter = machines(resolve(store), os.devnull)
    names = tuple(f"talker{number}" for number in range(6))
    talkers = Talkers(address=server.address, sha=echo.program.identity, names=names)
    workers = {"steady": begin(server, store, steady), "killed": begin(server, store, ledger)}
    chance = random.Random(0)
    after: dict[str, list[float]] = {"a worker": [], "the server": []}
    reminded: list[str] = []
    try:
        async with talkers.talking():
            while len(talkers.answered) < len(names):
                await asyncio.sleep(0.05)
            for _ in range(kills):
                await has_grown(ledger)
                await asyncio.sleep(chance.uniform(0.0, 1.0))
                end([workers["killed"]])
                after["a worker"].append(await talkers.done_after(time.monotonic()))
                workers["killed"] = begin(server, store, ledger)
            for loss in range(losses):
                reminded += [f"reminded{loss}-{number}" for number in range(REMINDERS)]
                for name in reminded[-REMINDERS:]:
                    await waiter.run(conversation_id=name)
                await asyncio.sleep(chance.uniform(0.0, 2.0))
                await asyncio.to_thread(server.lose)
                await asyncio.to_thread(server.start)
                after["the server"].append(await talkers.done_after(time.monotonic()))
        found: list[str] = []
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = await faults(echo.store, talkers.answered, reminded)
            if not found:
                break
            await asyncio.sleep(0.2)
    finally:
        end(workers.values())
        await waiter.close()
        await echo.close()
    turns = sum(talkers.answered.values())
    print(
        f"Temporal: {kills} kills of a worker, {losses} losses of the server, {turns} turns answered, ",
        end="",
    )
    print(
        f"{len(reminded)} time-outs, {talkers.again} asked again, {len(found)} faults",
        *found,
        sep="\n",
        flush=True,
    )
    for what, seconds in after.items():
        if seconds:
            middle, worst = statistics.median(seconds), max(seconds)
            print(f"after a kill of {what}: {middle:.1f} s (median), {worst:.1f} s (worst)")
    return int(bool(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=24, help="kills of a worker")
    parser.add_argument(
        "--losses", type=int, default=3, help="kills of the server with its database file"
    )
    given = parser.parse_args()
    with open_folder() as folder:
        server = TemporalServer(folder).start()
        try:
            return asyncio.run(killed(server, folder, given.kills, given.losses))
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
