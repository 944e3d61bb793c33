"""The background work of a server: time-outs, reminders, deliveries to sinks, and changed files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from llm_fsm import AsyncMachine
from llm_fsm.server.faults import report
from llm_fsm.server.service import PLAYS, Service

RELOAD_SECONDS = 0.5


@asynccontextmanager
async def upkeep(
    service: Service,
    due_seconds: float | None,
    changed: Callable[[], Iterable[AsyncMachine]] | None = None,
    further: Iterable[Coroutine[Any, Any, None]] = (),
) -> AsyncGenerator[None]:
    """Run tasks at intervals, and further ones that end when they are cancelled, while it is entered."""
    tasks = [asyncio.create_task(work) for work in further]
    if due_seconds is not None:
        tasks.append(asyncio.create_task(_look(service, due_seconds)))
    if changed is not None:
        tasks.append(asyncio.create_task(_reload(service, changed)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _look(service: Service, seconds: float) -> None:
    PLAYS.set(service)
    failing: set[str] = set()
    while True:
        for machine in service.machines.every():
            name = machine.definition.name
            try:
                await machine.run_due()
            except Exception as error:  # it stays due, and is reported once until it works again
                if name not in failing:
                    failing.add(name)
                    report(f"what {name!r} has due failed", error)
            else:
                failing.discard(name)
        await asyncio.sleep(seconds)


async def _reload(service: Service, changed: Callable[[], Iterable[AsyncMachine]]) -> None:
    while True:
        await asyncio.sleep(RELOAD_SECONDS)
        for machine in await asyncio.to_thread(changed):
            service.machines.replace(machine)
