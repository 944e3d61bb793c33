"""Turns that are finished although their reader left."""

from __future__ import annotations

import asyncio
from typing import Any


class KeptTurns:
    """The running tasks of such turns. The event loop itself would hold them weakly."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def add(self, task: asyncio.Task[Any]) -> None:
        """Hold the task of a turn until it is done."""
        self._running.add(task)
        task.add_done_callback(self._done)

    async def finish(self) -> None:
        """Wait for the turns of the running event loop."""
        loop = asyncio.get_running_loop()
        if own := [task for task in self._running if task.get_loop() is loop]:
            await asyncio.wait(own)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may wait for it, and asyncio would log it as never retrieved
