"""The background work of a server: time-outs, reminders, deliveries to sinks, and changed files."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType

from llm_fsm import AsyncMachine, LLMFSMError
from llm_fsm.errors import told
from llm_fsm.server.service import Service

RELOAD_SECONDS = 0.5


class Upkeep:
    """Tasks that run at intervals, while it is entered."""

    def __init__(
        self,
        service: Service,
        due_seconds: float | None,
        changed: Callable[[], Iterable[AsyncMachine]] | None = None,
    ) -> None:
        self._service = service
        self._due_seconds = due_seconds
        self._changed = changed
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Upkeep:
        if self._due_seconds is not None:
            self._tasks.append(asyncio.create_task(self._look(self._due_seconds)))
        if self._changed is not None:
            self._tasks.append(asyncio.create_task(self._reload(self._changed)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self, seconds: float) -> None:
        failing: set[str] = set()
        while True:
            for machine in self._service.machines.every():
                name = machine.definition.name
                try:
                    await machine.run_due()
                except LLMFSMError as error:  # it stays due, and is reported once until it works again
                    if name not in failing:
                        failing.add(name)
                        warnings.warn(f"what {name!r} has due failed: {told(error)}", RuntimeWarning, stacklevel=2)
                else:
                    failing.discard(name)
            await asyncio.sleep(seconds)

    async def _reload(self, changed: Callable[[], Iterable[AsyncMachine]]) -> None:
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            for machine in await asyncio.to_thread(changed):
                self._service.machines.replace(machine)
