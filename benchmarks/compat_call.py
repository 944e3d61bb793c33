"""CPU time of the client for one call through `CompatLLM`, beside a bare aiohttp call.

    python benchmarks/compat_call.py [calls]

The scripted server runs in a process of its own, so that only the client's CPU is counted
(`time.process_time`). The prompt has 6,000 characters and asks for a schema, as in a conversation.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection

import aiohttp

from llm_fsm.llm.compat import CompatLLM
from llm_fsm.messages import LLMMessage, LLMRequest, ReplySchema
from llm_fsm.testing.server import serve_scripted

REPLY = {
    "transition": {"target_state": "next", "context_update": {"name": "Ada"}},
    "message": "Hello Ada, " * 10,
}
SCHEMA = {"type": "object", "properties": {f"key_{n}": {"type": "string"} for n in range(20)}}
REQUEST = LLMRequest(
    messages=(LLMMessage("system", "Be terse. " * 400), LLMMessage("user", "I'm Ada. " * 220)),
    schema=ReplySchema(name="reply", schema=SCHEMA, text=json.dumps(SCHEMA)),
    timeout=30.0,
)


def serve(pipe: Connection) -> None:
    with serve_scripted(lambda _: REPLY) as server:
        pipe.send(server.base_url)
        pipe.recv()


async def bare(url: str, calls: int) -> float:
    body = {"model": "m", "messages": [message.to_dict() for message in REQUEST.messages]}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        started = 0.0
        for number in range(calls + 50):
            if number == 50:
                started = time.process_time()
            async with session.post(f"{url}/chat/completions", json=body) as response:
                json.loads(await response.read())["choices"][0]["message"]["content"]
        return (time.process_time() - started) / calls * 1000


async def compat(url: str, calls: int) -> float:
    llm = CompatLLM("m", base_url=url)
    started = 0.0
    for number in range(calls + 50):
        if number == 50:
            started = time.process_time()
        await llm.complete(REQUEST)
    spent = time.process_time() - started
    await llm.aclose()
    return spent / calls * 1000


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    url = ours.recv()
    print("client CPU per call, in ms (best of 3)")
    for name, call in (("bare aiohttp", bare), ("CompatLLM", compat)):
        print(f"  {name:<14}{min(asyncio.run(call(url, calls)) for _ in range(3)):.3f}")
    ours.send("stop")
    process.join()


if __name__ == "__main__":
    main()
