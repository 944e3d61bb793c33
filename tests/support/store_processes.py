"""What other processes do in the tests of stores: `python store_processes.py ROLE URL …`."""

from __future__ import annotations

import asyncio
import os
import sys

from llm_fsm.stores.base import Commit
from llm_fsm.stores.registry import resolve


def say(text: object) -> None:
    print(text, flush=True)


async def hold(url: str) -> None:
    """Take the lock and keep it until killed."""
    async with resolve(url).lock("c"):
        say("held")
        await asyncio.Event().wait()


async def fork_and_hold(url: str) -> None:
    """Take the lock, fork a child that never uses the store, and wait to be killed."""
    async with resolve(url).lock("c"):
        if os.fork() == 0:
            say("held")
            os.execlp("sleep", "sleep", "60")
        await asyncio.Event().wait()


def forked(url: str) -> None:
    """A child of a process that uses a store uses it, too; and so does the parent after it."""
    store = resolve(url)

    async def save(number: int) -> None:
        async with store.lock("c", timeout=10):
            await store.save(
                Commit(conversation_id="c", expected=number - 1, session="{}", record="{}")
            )
        say(number)

    with asyncio.Runner() as runner:
        runner.run(save(1))
        if os.fork() == 0:
            with asyncio.Runner() as own:
                own.run(save(2))
            os._exit(0)
        os.wait()
        runner.run(save(3))
        runner.run(store.close())


ROLES = {role.__name__: role for role in (hold, fork_and_hold, forked)}

if __name__ == "__main__":
    running = ROLES[sys.argv[1]](*sys.argv[2:])
    if running is not None:
        asyncio.run(running)
