"""The background work of a server: what `engine.upkeep` does, and changed files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from llm_fsm._async import cancel_all
from llm_fsm.engine.upkeep import CurrentMachines, Upkeep
from llm_fsm.server.faults import report
from llm_fsm.server.service import PLAYS, Service

RELOAD_SECONDS = 0.5


@asynccontextmanager
async def upkeep(
    service: Service,
    due_seconds: float | None,
    changed: CurrentMachines | None = None,
    further: Iterable[Coroutine[Any, Any, None]] = (),
) -> AsyncGenerator[None]:
    """Run tasks at intervals, and further ones that end when they are cancelled, while it is
    entered.
    """
    tasks = [asyncio.create_task(work) for work in further]
    keeper = Upkeep(service.machines.every, every=due_seconds or 1.0, report=report)
    if due_seconds is not None:
        tasks.append(asyncio.create_task(_keep(service, keeper)))
        service.wakes.append(keeper.wake)
    if changed is not None:
        tasks.append(asyncio.create_task(_reload(service, changed)))
    try:
        yield
    finally:
        service.wakes.clear()
        await cancel_all(tasks)
        await keeper.stop()


async def _keep(service: Service, keeper: Upkeep) -> None:
    PLAYS.set(service)
    await keeper.run()


async def _reload(service: Service, changed: CurrentMachines) -> None:
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        for machine in await asyncio.to_thread(changed):
            service.machines.replace(machine)
