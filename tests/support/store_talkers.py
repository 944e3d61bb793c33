"""Four processes that talk to one conversation: `python store_talkers.py URL LEDGER COUNT`.

They are forked from one that has imported everything, and begin at the same moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

from llm_fsm import AsyncMachine
from llm_fsm.session.messages import LLMRequest, ModelReply

ECHO = {
    "name": "echo",
    "initial_state": "hear",
    "states": {
        "hear": {
            "purpose": "Listen.",
            "transitions": [{"target_state": "bye", "description": "The user says goodbye"}],
        },
        "bye": {"purpose": "Say goodbye.", "transitions": []},
    },
}


NAMES = "abcd"


class Ledger:
    """A model that notes every call in a file, which survives whatever happens to this process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def complete(self, request: LLMRequest) -> ModelReply:
        os.write(self._file, json.dumps(request.messages[-1].content).encode() + b"\n")
        await asyncio.sleep(0.001)
        return ModelReply(
            text=json.dumps({"message": "I see.", "transition": {"target_state": "hear"}})
        )


async def talk(url: str, ledger: str, name: str, count: int) -> None:
    """Send so many messages to the conversation "c" at once."""
    async with AsyncMachine.from_dict(ECHO, model=Ledger(ledger), store=url) as machine:
        chat = await machine.resume("c")
        texts = [f"{name} {number}" for number in range(count)]
        await asyncio.gather(*(chat.send(text, request_id=text) for text in texts))


def main(url: str, ledger: str, count: str) -> int:
    """Fork the talkers, let them begin, and give 0 if all of them ended well."""
    waiting, go = os.pipe()
    for name in NAMES:
        if os.fork() == 0:
            os.close(go)
            os.read(waiting, 1)
            asyncio.run(talk(url, ledger, name, int(count)))
            os._exit(0)
    os.close(go)
    return max(os.wait()[1] for _ in NAMES)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) != 0)
