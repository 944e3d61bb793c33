"""A worker that looks at its store, and the answers that it gives."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

from llm_fsm.engine.upkeep import Upkeep
from orders import machine


@asynccontextmanager
async def worker(store, every, said=None):
    """A worker of the machine of orders, while this is entered. `said` gets what it reports."""
    texts = [] if said is None else said
    working = machine(store)
    keeper = Upkeep(lambda: [working], every=every, report=lambda text, error: texts.append(text))
    looking = asyncio.create_task(keeper.run())
    try:
        yield keeper
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await keeper.stop()


async def until(check, seconds=10.0):
    """Wait until a check holds."""
    deadline = time.monotonic() + seconds
    while not await check() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert await check()


async def answered(store, name):
    """Wait until a conversation has its first answer."""

    async def is_done():
        return len(await store.records(name)) > 1

    await until(is_done)
