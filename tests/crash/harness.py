"""Killing workers until there were enough kills, then letting one finish, then the audit.

Workers are forked from this process, which has imported everything: a kill costs milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit import faults
from ledger import Ledger
from probes import Probe
from worker import Opens, work

Works = Callable[..., Coroutine[Any, Any, None]]
"""The life of a worker: `work`, or a function with its parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a round of killing came to."""

    kills: int
    lives: int
    turns: int
    seconds: float
    faults: list[str]
    died_at: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        where = ", ".join(f"{name} {count}" for name, count in sorted(self.died_at.items()))
        return (
            f"{self.kills} kills, {self.turns} turns acknowledged, {self.seconds:.0f} s, {len(self.faults)} faults"
            + (f"\nkilled at: {where}" if where else "")
            + "".join(f"\n{fault}" for fault in self.faults[:20])
        )


class Killing:
    """One place, one ledger, and workers that are killed."""

    def __init__(self, opens: Opens, ledger: Path, *, slots: int = 6, seed: int = 0) -> None:
        self.opens = opens
        self.ledger = Ledger(ledger)
        self.slots = slots
        self.chance = random.Random(seed)
        self.works: Works = work

    def at_random(self, kills: int, longest: float = 0.25) -> Report:
        """Kill after so many seconds at most, counted from when a worker is ready."""
        began, done = time.monotonic(), 0
        while done < kills:
            pid = self._fork(Probe())
            time.sleep(self.chance.uniform(0.001, longest))
            os.kill(pid, signal.SIGKILL)
            done += self._ended(pid) == -signal.SIGKILL
        return self._report(done, began)

    def at_points(self, points: Sequence[str], each: int, latest: int = 12) -> Report:
        """Kill at every point, `each` times, on one of its first `latest` passes."""
        began, died = time.monotonic(), Counter[str]()
        for name in points:
            for _ in range(each):
                pid = self._fork(Probe(name, self.chance.randint(1, latest)))
                deadline = time.monotonic() + 20
                while (
                    status := self._ended(pid, wait=False)
                ) is None and time.monotonic() < deadline:
                    time.sleep(0.001)
                if status is None:
                    os.kill(pid, signal.SIGKILL)
                    self._ended(pid)
                else:
                    died[name] += status == -signal.SIGKILL
        return self._report(sum(died.values()), began, died)

    def _fork(self, probe: Probe, *, last: bool = False) -> int:
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            self._live(probe, last, tell)
        os.close(tell)
        os.read(ready, 1)
        os.close(ready)
        return pid

    def _live(self, probe: Probe, last: bool, tell: int) -> None:
        """The life of a worker: it never returns."""
        try:
            os.write(tell, b".")
            asyncio.run(self.works(self.opens, self.ledger, probe, self.slots, last=last))
            os._exit(0)
        except BaseException:
            self.ledger.write("broke", error=traceback.format_exc())
            os._exit(1)

    @staticmethod
    def _ended(pid: int, *, wait: bool = True) -> int | None:
        found, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if found else None

    def _report(self, kills: int, began: float, died: Counter[str] | None = None) -> Report:
        code = self._ended(self._fork(Probe(), last=True))
        found = asyncio.run(self._audit())
        if code:
            found.append(f"the last worker ended with {code}")
        broken = [line["error"] for line in self.ledger.lines("broke")]
        return Report(
            kills=kills,
            lives=sum(1 for line in self.ledger.lines("sent")),
            turns=sum(1 for line in self.ledger.lines("ack")),
            seconds=time.monotonic() - began,
            faults=[*broken, *found],
            died_at=died or Counter(),
        )

    async def _audit(self) -> list[str]:
        store: Any = self.opens(Probe())
        try:
            return await faults(self.ledger, store)
        finally:
            await store.close()
