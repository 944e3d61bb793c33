"""Kills of clients beside one worker: what they leave is finished without a caller. `python tests/crash/workers.py`.

The worker is never killed. After each kill the time is taken until no turn is unfinished.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "support"))

from bot import machine
from harness import Killing, Report
from ledger import Ledger
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.stores.registry import resolve
from probes import Probe
from services import own_server

_LONGEST = 10.0


class KillingBesideWorker(Killing):
    """As `Killing`, with a worker beside the clients."""

    def __init__(self, url: str, ledger: Path, *, seed: int = 0) -> None:
        super().__init__(lambda _: resolve(url), ledger, seed=seed)
        self.left: list[int] = []
        self.seconds: list[float] = []

    def run(self, kills: int) -> Report:
        """Kill so many clients, and audit what is left."""
        worker = os.fork()
        if worker == 0:
            asyncio.run(_look(self.opens, self.ledger))
        began, done = time.monotonic(), 0
        try:
            while done < kills:
                pid = self._fork(Probe())
                time.sleep(self.chance.uniform(0.05, 0.4))
                os.kill(pid, signal.SIGKILL)
                killed = self._ended(pid) == -signal.SIGKILL
                done += killed
                if killed:
                    asyncio.run(self._measure())
        finally:
            os.kill(worker, signal.SIGTERM)
            self._ended(worker)
        return self._report(done, began)

    async def _measure(self) -> None:
        """Take the time until nothing is unfinished."""
        store: Any = self.opens(Probe())
        began = time.monotonic()
        self.left.append(len(await store.unfinished()))
        while await store.unfinished() and time.monotonic() < began + _LONGEST:
            await asyncio.sleep(0.02)
        self.seconds.append(time.monotonic() - began)
        await store.close()


async def _look(opens: Any, ledger: Ledger) -> None:
    shop = machine(opens(Probe()), ledger, Probe())
    keeper = Upkeep(lambda: [shop], every=1.0)
    await keeper.run()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite", help="sqlite or postgresql")
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{place}/bots.db"
        if given.store == "postgresql":
            url = stack.enter_context(own_server("postgresql")).url
        killing = KillingBesideWorker(url, place / "ledger")
        found = killing.run(given.kills)
    open_turns = [each for each, left in zip(killing.seconds, killing.left, strict=True) if left]
    print(f"{given.store}, beside a worker: {found}")
    if open_turns:
        middle, worst = statistics.median(open_turns), max(open_turns)
        print(f"{sum(killing.left)} turns left, finished after {middle:.2f} s (median), {worst:.2f} s (worst)")
    return int(bool(found.faults) or any(each >= _LONGEST for each in killing.seconds))


if __name__ == "__main__":
    sys.exit(main())
