"""Kills of one of two workers: what it leaves is finished without a caller. `python
tests/crash/workers.py`.

The worker that is killed has clients. It begins again when the time is taken until no turn is
unfinished; meanwhile the other worker, which is never killed, is alone. `--stop-store 3` stops
PostgreSQL hard instead, three times under 800 turns, and kills nobody.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent / "support"))

from bot import TURNS, machine
from harness import Killing, Report
from ledger import Ledger
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.errors import StoreError
from llm_fsm.stores.registry import resolve
from probes import Probe
from services import Server, own_server
from worker import Clients, all_told, work

_LONGEST = 10.0
_LONGEST_STOP = 60.0
_LOOKS = 1.0
_SLOTS = 6


class KillingBesideWorker(Killing):
    """As `Killing`, with a worker beside the clients."""

    def __init__(self, url: str, ledger: Path, *, seed: int = 0) -> None:
        super().__init__(lambda _: resolve(url), ledger, seed=seed)
        self.left: list[int] = []
        self.seconds: list[float] = []

    def run(self, kills: int) -> Report:
        """Kill so many clients, and audit what is left."""
        worker = self._begin(_look(self.opens, self.ledger))
        began, done = time.monotonic(), 0
        try:
            while done < kills:
                before = self.ledger.path.stat().st_size
                pid = self._fork(Probe())
                self._wait_beyond(before)
                time.sleep(self.chance.uniform(0.0, 0.4))
                os.kill(pid, signal.SIGKILL)
                killed = self._ended(pid) == -signal.SIGKILL
                done += killed
                if killed:
                    asyncio.run(self._measure())
        finally:
            os.kill(worker, signal.SIGTERM)
            self._ended(worker)
        return self._report(done, began)

    def _wait_beyond(self, size: int) -> None:
        """Wait until the ledger grows: a process that is killed before its first turn shows
        nothing.
        """
        deadline = time.monotonic() + _LONGEST
        while self.ledger.path.stat().st_size <= size and time.monotonic() < deadline:
            time.sleep(0.001)

    def stops(self, server: Server, count: int, turns: int) -> Report:
        """Stop the store hard so many times under so many turns, and audit what is left."""
        worker = self._begin(_look(self.opens, self.ledger))
        began = time.monotonic()
        clients = self._begin(_talk(self.opens, self.ledger, turns))
        try:
            for stop in range(1, count + 1):
                while self._acknowledged() < turns * stop / (count + 1):
                    time.sleep(0.02)
                server.stop_hard()
                time.sleep(self.chance.uniform(0.2, 1.0))
                server.start()
                self._measure_open()
            self._ended(clients)
        finally:
            os.kill(worker, signal.SIGTERM)
            self._ended(worker)
        return self._report(count, began)

    def _acknowledged(self) -> int:
        return sum(1 for _ in self.ledger.lines("ack"))

    def _measure_open(self) -> None:
        """Take the time until the messages that were sent before have their answers."""
        began = time.monotonic()
        sent = {(line["c"], line["turn"]) for line in self.ledger.lines("sent") if line["turn"]}
        waiting = sent - self._answered()
        self.left.append(len(waiting))
        while waiting - self._answered() and time.monotonic() < began + _LONGEST_STOP:
            time.sleep(0.02)
        self.seconds.append(time.monotonic() - began)

    def _answered(self) -> set[tuple[str, int]]:
        return {(line["c"], line["turn"]) for line in self.ledger.lines("ack")}

    def _begin(self, work: Coroutine[Any, Any, None]) -> int:
        """Run something in a process of its own."""
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(work)
                os._exit(0)
            except BaseException:
                self.ledger.write("broke", error=traceback.format_exc())
                os._exit(1)
        work.close()
        return pid

    def _live(self, probe: Probe, last: bool, tell: int) -> None:
        """As in `Killing`; all but the last one are workers, too."""
        self.works = work if last else _work_and_look
        super()._live(probe, last, tell)

    async def _measure(self) -> None:
        """Take the time until no journal is left of a turn whose answer nobody has."""
        store: Any = self.opens(Probe())
        began = time.monotonic()
        left = await self._journalled(store)
        self.left.append(len(left))
        while left and time.monotonic() < began + _LONGEST:
            await asyncio.sleep(0.02)
            left = await self._journalled(store)
        self.seconds.append(time.monotonic() - began)
        await store.close()

    async def _journalled(self, store: Any) -> list[str]:
        """Return the conversations with a turn on record as begun; the killed process may seem
        alive.
        """
        sent = {(line["c"], line["turn"]) for line in self.ledger.lines("sent")}
        names = {name for name, _ in sent - self._answered()}
        return [name for name in names if await store.journalled(name)]


async def _look(opens: Any, ledger: Ledger) -> None:
    shop = machine(opens(Probe()), ledger, Probe())
    keeper = Upkeep(lambda: [shop], every=_LOOKS)
    await keeper.run()


async def _work_and_look(
    opens: Any, ledger: Ledger, probe: Probe, slots: int, *, last: bool
) -> None:
    await asyncio.gather(work(opens, ledger, probe, slots, last=last), _look(opens, ledger))


async def _talk(opens: Any, ledger: Ledger, turns: int) -> None:
    """Talk until there are so many answers. A turn that failed is asked for again, with the same
    key.
    """
    shop = machine(opens(Probe()), ledger, Probe())
    clients = Clients(shop=shop, ledger=ledger, probe=Probe())
    names = [f"c{number % _SLOTS}-{number // _SLOTS}" for number in range(math.ceil(turns / TURNS))]

    async def talk() -> None:
        while names:
            name = names.pop(0)
            while (done := _answers(ledger, name)) < TURNS:
                try:
                    await clients.talk(name, done)
                except StoreError as error:
                    if not error.retryable:
                        raise
                    await asyncio.sleep(0.1)

    await asyncio.gather(*(talk() for _ in range(_SLOTS)))
    await all_told(shop)
    await shop.close()


def _answers(ledger: Ledger, name: str) -> int:
    """Return the number of the last turn of a conversation that has an answer."""
    return max((line["turn"] for line in ledger.lines("ack") if line["c"] == name), default=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite", help="sqlite or postgresql")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--stop-store",
        type=int,
        default=0,
        help="stop PostgreSQL hard so many times, and kill nobody",
    )
    parser.add_argument("--turns", type=int, default=800, help="turns with --stop-store")
    given = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if given.stop_store:
            server = stack.enter_context(own_server("postgresql"))
            killing = KillingBesideWorker(server.url, place / "ledger")
            found = killing.stops(server, given.stop_store, given.turns)
            print(f"postgresql stopped hard {given.stop_store} times: {found}")
        else:
            url = f"sqlite:///{place}/bots.db"
            if given.store == "postgresql":
                url = stack.enter_context(own_server("postgresql")).url
            killing = KillingBesideWorker(url, place / "ledger")
            found = killing.run(given.kills)
            print(f"{given.store}, beside a worker: {found}")
    open_turns = [each for each, left in zip(killing.seconds, killing.left, strict=True) if left]
    if open_turns:
        middle, worst = statistics.median(open_turns), max(open_turns)
        print(
            f"{sum(killing.left)} turns left, finished after {middle:.2f} s (median), {worst:.2f} s (worst)"
        )
    longest = _LONGEST_STOP if given.stop_store else _LONGEST
    return int(bool(found.faults) or any(each >= longest for each in killing.seconds))


if __name__ == "__main__":
    sys.exit(main())
