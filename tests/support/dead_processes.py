"""What a dead process leaves: a copy of a store in memory, taken while a turn is under way."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable
from typing import Any

from llm_fsm.stores.memory import MemoryStore

_KEPT = (
    "_conversations",
    "_journals",
    "_accepted",
    "_due",
    "_posting",
    "_paused",
    "_definitions",
    "_pins",
)


def remains(store: MemoryStore) -> MemoryStore:
    """Return a store with the same data, in which nobody holds a lock."""
    left = MemoryStore()
    for name in _KEPT:
        setattr(left, name, copy.deepcopy(getattr(store, name)))
    return left


class Hanging:
    """A tool, function or handler that hangs until its process is gone, except for the first
    `passes` calls.
    """

    def __init__(self, passes: int = 0) -> None:
        self.entered = asyncio.Event()
        self.left = passes

    async def handle(self, occasion: Any) -> None:
        """The handler that hangs."""
        await self.hang()

    async def hang(self) -> None:
        """The function that hangs."""
        if self.left > 0:
            self.left -= 1
            return
        self.entered.set()
        await asyncio.Event().wait()


async def killed_in(hanging: Hanging, work: Awaitable[Any], store: MemoryStore) -> MemoryStore:
    """Begin work, and return what is left of the store if its process dies where the work hangs."""
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(hanging.entered.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        raise AssertionError(f"the work ended before it hung: {task.result()!r}")
    left = remains(store)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return left


async def kinds_of(store: MemoryStore, conversation_id: str) -> list[str]:
    """Return the kinds of a journal's entries."""
    return [json.loads(text)["kind"] for text in await store.journalled(conversation_id)]
