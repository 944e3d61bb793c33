"""A process that accepts a message and is killed before it is answered: `python
accepting_process.py URL ROLE`.
"""

from __future__ import annotations

import asyncio
import sys

from llm_fsm import AsyncMachine
from llm_fsm.durable import submit
from llm_fsm.session.messages import LLMRequest, ModelReply
from llm_fsm.stores.registry import resolve
from store_talkers import ECHO


class Silent:
    """A model that says that it was asked, and never answers."""

    async def complete(self, request: LLMRequest) -> ModelReply:
        print("asked", flush=True)
        await asyncio.Event().wait()
        raise AssertionError


async def submits(url: str) -> None:
    """Accept a message for a worker, and wait to be killed."""
    await submit("echo", "c", "hello", "m1", store=resolve(url))
    print("accepted", flush=True)
    await asyncio.Event().wait()


async def sends(url: str) -> None:
    """Send a durable message to a model that never answers."""
    async with AsyncMachine.from_dict(ECHO, model=Silent(), store=url) as machine:
        chat = await machine.resume("c")
        await chat.send("hello", request_id="m1", durable=True)


if __name__ == "__main__":
    asyncio.run({"submits": submits, "sends": sends}[sys.argv[2]](sys.argv[1]))
