"""What a server sees to by itself: time-outs, reminders, and what sinks have still to be told."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import suppress
from types import TracebackType

from llm_fsm import LLMFSMError
from llm_fsm.errors import told
from llm_fsm.server.service import Service


class Upkeep:
    """A task that looks every so many seconds, while it is entered."""

    def __init__(self, service: Service, seconds: float | None) -> None:
        self._service = service
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Upkeep:
        if self._seconds is not None:
            self._task = asyncio.create_task(self._look(self._seconds))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _look(self, seconds: float) -> None:
        failing: set[str] = set()
        while True:
            for machine in self._service.machines.every():
                name = machine.definition.name
                try:
                    await machine.run_due()
                except LLMFSMError as error:  # it stays due; said once until it works again
                    if name not in failing:
                        failing.add(name)
                        warnings.warn(f"what {name!r} has due failed: {told(error)}", RuntimeWarning, stacklevel=2)
                else:
                    failing.discard(name)
            await asyncio.sleep(seconds)
