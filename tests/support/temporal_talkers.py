"""Users who talk through Temporal, and the time until their turns are done after something was
killed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowUpdateFailedError
from temporalio.service import RPCError

from llm_fsm.durable import temporal
from llm_fsm.errors import ConversationNotFound

DEFINITION = "echo"


@dataclass(kw_only=True)
class Talkers:
    """Some users. `answered`: name to the number of answers; `open`: turns that are under way."""

    address: str
    sha: str
    names: tuple[str, ...]
    answered: dict[str, int] = field(default_factory=dict)
    open: set[tuple[str, int]] = field(default_factory=set)
    again: int = 0

    @asynccontextmanager
    async def talking(self) -> AsyncIterator[None]:
        """Talk meanwhile. At its end each user waits for the last answer."""
        ends = asyncio.Event()
        tasks = [asyncio.create_task(self._talk(name, ends)) for name in self.names]
        try:
            yield
        finally:
            ends.set()
            await asyncio.gather(*tasks)

    async def _talk(self, name: str, ends: asyncio.Event) -> None:
        number = 0
        while not ends.is_set():
            self.open.add((name, number))
            await self._answer(name, number)
            self.open.discard((name, number))
            number += 1
            self.answered[name] = number

    async def _answer(self, name: str, number: int) -> temporal.Done:
        """Send a message until there is an answer, always with the same request id."""
        ask = temporal.Ask(
            DEFINITION, name, "send", f"message {number}", f"r{number}", sha=self.sha
        )
        while True:
            try:
                return await temporal.send(await temporal.connect(self.address), ask)
            except (RPCError, ConversationNotFound, WorkflowUpdateFailedError):
                self.again += 1
            await asyncio.sleep(0.1)

    async def done_after(self, began: float) -> float:
        """Return the seconds from `began` until the turns that are under way now are done."""
        now = set(self.open)
        while now & self.open:
            await asyncio.sleep(0.01)
        return time.monotonic() - began


async def has_grown(ledger: Path) -> None:
    """Wait until a worker notes a further call of its model: it takes part by then."""
    before = _size(ledger)
    while _size(ledger) <= before:
        await asyncio.sleep(0.01)


def _size(ledger: Path) -> int:
    return ledger.stat().st_size if ledger.exists() else 0


async def faults(store: Any, answered: dict[str, int], reminded: Iterable[str]) -> list[str]:
    """Say in words which turns were lost, doubled or out of order."""
    found: list[str] = []
    for name, count in answered.items():
        events = await _events(store, name)
        said = [event["text"] for event in events if event["type"] == "UserSaid"]
        if said != [f"message {number}" for number in range(count)]:
            found.append(f"{name}: {count} answers, on record are {said}")
    for name in reminded:
        times = sum(event["type"] == "TimedOut" for event in await _events(store, name))
        if times != 1:
            found.append(f"{name}: its time-out came {times} times")
    return found


async def _events(store: Any, name: str) -> list[dict[str, Any]]:
    records = [json.loads(text) for text in await store.records(name)]
    return [event for record in records for event in record["events"]]
