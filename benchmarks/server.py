"""Figures of the server: CPU of a turn over REST, many conversations at once, and the first byte of
a stream.

The server runs in a process of its own on one core, with a memory store; the client, on the other
core, is not counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.figures import QUICK, Figure, Repeats, table
from benchmarks.forks import forks
from benchmarks.form import MESSAGES, definition, replies
from llm_fsm import AsyncMachine, LLMRequest, ModelReply
from llm_fsm.server import create_app
from llm_fsm.server.run import config_of

MODEL_SECONDS = 0.05
PIECES = 200
PIECE_SECONDS = 0.001


class Model:
    """Answers each conversation from its own script; `first`: when each stream gave its message's
    first character.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.first: list[float] = []
        self._scripts: dict[str, Iterator[dict[str, Any]]] = {}

    def _next(self, request: LLMRequest) -> str:
        script = self._scripts.get(request.conversation_id)
        if script is None:
            script = self._scripts[request.conversation_id] = iter(replies()[1:])
        return json.dumps(next(script))

    async def complete(self, request: LLMRequest) -> ModelReply:
        """The next reply."""
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return ModelReply(text=self._next(request))

    async def stream(self, request: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """The same, its message character by character, a millisecond each."""
        text = self._next(request)
        at = text.index('"message"')
        start = text.index('"', text.index(":", at)) + 1
        yield text[:start]
        await asyncio.sleep(0.02)
        self.first.append(time.monotonic())
        for letter in text[start:]:
            yield letter
            await asyncio.sleep(0.001)
        yield ModelReply(text=text)


class Speaker:
    """Answers with a message of PIECES pieces; `seconds` between two of them, or all at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def complete(self, _: LLMRequest) -> ModelReply:
        """The reply as a whole."""
        return ModelReply(text="".join(self._pieces()))

    async def stream(self, _: LLMRequest) -> AsyncIterator[str | ModelReply]:
        """The reply in pieces."""
        pieces = self._pieces()
        for piece in pieces:
            if self.seconds:
                await asyncio.sleep(self.seconds)
            yield piece
        yield ModelReply(text="".join(pieces))

    def _pieces(self) -> list[str]:
        begin = '{"transition": {"target_state": "talk"}, "message": "'
        return [begin, *(f"word{number:03d} " for number in range(PIECES)), '"}']


def _talker() -> dict[str, Any]:
    ways = [{"target_state": "bye", "description": "the user says goodbye"}]
    talk = {"purpose": "Talk about anything.", "transitions": ways}
    return {
        "name": "talker",
        "initial_state": "talk",
        "states": {"talk": talk, "bye": {"purpose": "End.", "kind": "final", "reply": "Bye."}},
    }


class Said(BaseModel):
    """A message."""

    text: str


def _echo() -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    async def echo(said: Said) -> Said:
        return said

    return app


def _serve(pipe: Connection, kind: str, seconds: float) -> None:
    """Serve, and answer what is asked through the pipe: cpu, first, turn or stream."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model = Model(seconds)
    if kind == "echo":
        config = uvicorn.Config(
            _echo(), port=0, access_log=False, log_config=None, http="httptools"
        )
    elif kind == "speaker":
        speaks = AsyncMachine.from_dict(_talker(), model=Speaker(seconds))
        config = config_of(create_app(speaks, due_seconds=None), port=0)
    else:
        config = config_of(
            create_app(AsyncMachine.from_dict(definition(), model=model), due_seconds=None), port=0
        )
    gc.collect()
    gc.freeze()  # as the command line does for its own process
    gc.set_threshold(50_000, 20, 100)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    pipe.send(server.servers[0].sockets[0].getsockname()[1])
    while (asked := pipe.recv()) != "end":
        if asked.startswith("turn"):
            pipe.send(asyncio.run(_alone(int(asked.split()[1]))))
        elif asked == "stream":
            pipe.send(asyncio.run(_streamed_alone(seconds)))
        else:
            pipe.send(time.process_time() if asked == "cpu" else list(model.first))
    server.should_exit = True
    thread.join()


async def _alone(talks: int) -> float:
    """CPU seconds of a turn in this process, without a server, of the conversations that took
    least.
    """
    found = []
    async with AsyncMachine.from_dict(definition(), model=Model()) as machine:
        for _ in range(2 * talks):
            chat = await machine.start(greet=False)
            began = time.process_time()
            for message in MESSAGES:
                await chat.send(message)
            found.append((time.process_time() - began) / len(MESSAGES))
    return statistics.fmean(sorted(found)[:talks])


async def _streamed_alone(seconds: float) -> float:
    """CPU seconds of a streamed turn of a Speaker in this process, without a server: the least of
    some.
    """
    found = []
    async with AsyncMachine.from_dict(_talker(), model=Speaker(seconds)) as machine:
        for _ in range(8):
            chat = await machine.start(greet=False)
            began = time.process_time()
            async for _ in chat.stream("Tell me all."):
                pass
            found.append(time.process_time() - began)
    return min(found)


class Served:
    """A server in its own process, and how it is asked."""

    def __init__(self, pipe: Connection, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._pipe = pipe

    def ask(self, what: str) -> Any:
        """CPU seconds so far (cpu), times (first), or those of a turn without a server (turn,
        stream).
        """
        self._pipe.send(what)
        return self._pipe.recv()


@contextmanager
def _served(kind: str = "machine", seconds: float = 0.0) -> Iterator[Served]:
    ours, theirs = multiprocessing.Pipe()
    process = forks().Process(target=_serve, args=(theirs, kind, seconds))
    process.start()
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield Served(ours, ours.recv())
    finally:
        os.sched_setaffinity(0, allowed)
        ours.send("end")
        process.join()


async def _begin(client: aiohttp.ClientSession, url: str) -> str:
    wish = {"definition": definition()["name"], "greet": False}
    async with client.post(f"{url}/conversations", json=wish) as answer:
        return str((await answer.json())["id"])


async def _say(client: aiohttp.ClientSession, url: str, name: str) -> None:
    for message in MESSAGES:
        async with client.post(
            f"{url}/conversations/{name}/messages", json={"text": message}
        ) as answer:
            await answer.read()
            answer.raise_for_status()


def _run(work: Callable[[aiohttp.ClientSession], Any]) -> Any:
    async def use() -> Any:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            return await work(client)

    return asyncio.run(use())


def _rest(repeats: Repeats) -> tuple[float, float]:
    """CPU milliseconds of a turn over REST, and of one without a server."""
    with _served() as server:

        async def talk(client: aiohttp.ClientSession) -> float:
            found = []
            for _ in range(repeats.rounds + 1):
                names = [await _begin(client, server.url) for _ in range(repeats.talks)]
                before = server.ask("cpu")
                for name in names:
                    await _say(client, server.url, name)
                found.append((server.ask("cpu") - before) / (repeats.talks * len(MESSAGES)))
            return min(found[1:])

        return _run(talk) * 1000, server.ask(f"turn {repeats.talks}") * 1000


def _echoed(repeats: Repeats) -> float:
    """CPU milliseconds of a request to a route that echoes."""
    with _served("echo") as server:

        async def talk(client: aiohttp.ClientSession) -> float:
            found = []
            calls = repeats.talks * len(MESSAGES)
            for _ in range(repeats.rounds + 1):
                before = server.ask("cpu")
                for _ in range(calls):
                    async with client.post(
                        f"{server.url}/echo", json={"text": MESSAGES[0]}
                    ) as answer:
                        await answer.read()
                found.append((server.ask("cpu") - before) / calls)
            return min(found[1:])

        return _run(talk) * 1000


def _at_once(repeats: Repeats) -> float:
    """Turns a second of many conversations at once, whose model takes its time."""
    with _served(seconds=MODEL_SECONDS) as server:

        async def talk(client: aiohttp.ClientSession) -> float:
            found = []
            for _ in range(repeats.rounds):
                names = [await _begin(client, server.url) for _ in range(repeats.at_once)]
                began = time.monotonic()
                await asyncio.gather(*(_say(client, server.url, name) for name in names))
                found.append(repeats.at_once * len(MESSAGES) / (time.monotonic() - began))
            return max(found)

        return float(_run(talk))


def _first_byte(streams: int) -> float:
    """Milliseconds from the model's first character of the message to the first words at the
    client: the median.
    """
    with _served() as server:

        async def talk(client: aiohttp.ClientSession) -> list[float]:
            found = []
            for _ in range(streams):
                name = await _begin(client, server.url)
                place = f"{server.url}/conversations/{name}/messages"
                headers = {"Accept": "text/event-stream"}
                async with client.post(
                    place, json={"text": MESSAGES[0]}, headers=headers
                ) as answer:
                    seen = b""
                    async for piece in answer.content.iter_any():
                        seen += piece
                        if b"event: delta" in seen:
                            break
                    found.append(time.monotonic())
                    await answer.read()
            return found

        heard = _run(talk)
        return (
            statistics.median(
                at - first for at, first in zip(heard, server.ask("first"), strict=True)
            )
            * 1000
        )


def _streamed(rounds: int, door: str, seconds: float) -> float:
    """CPU milliseconds of a streamed piece over a door, above those of the engine."""
    wishes: dict[str, tuple[str, dict[str, Any]]] = {
        "SSE": ("/conversations/{}/messages", {"text": "Tell me all."}),
        "/v1": (
            "/v1/chat/completions",
            {
                "model": "talker",
                "stream": True,
                "messages": [{"role": "user", "content": "Tell me all."}],
            },
        ),
    }
    path, wish = wishes[door]
    headers = {"Accept": "text/event-stream"}
    with _served("speaker", seconds) as server:

        async def talk(client: aiohttp.ClientSession) -> float:
            found = []
            for _ in range(3 * rounds + 1):
                async with client.post(
                    f"{server.url}/conversations", json={"definition": "talker", "greet": False}
                ) as answer:
                    name = (await answer.json())["id"]
                before = server.ask("cpu")
                async with client.post(
                    server.url + path.format(name), json=wish, headers=headers
                ) as answer:
                    told = await answer.read()
                    assert b"word199" in told
                found.append(server.ask("cpu") - before)
            return min(found[1:])

        return (_run(talk) - float(server.ask("stream"))) / PIECES * 1000


def measure(repeats: Repeats) -> list[Figure]:
    """All figures of the server."""
    rest, turn = _rest(repeats)
    echo = _echoed(repeats)
    return [
        Figure("turn over REST, CPU of the server", rest, 2.5),
        Figure(
            "the same, against 1.5 times a route that echoes and the turn",
            rest,
            round(1.5 * (echo + turn), 3),
        ),
        Figure(
            f"turn among {repeats.at_once} conversations at once, one core",
            1000 / _at_once(repeats),
            round(1000 / 300, 3),
        ),
        Figure(
            "first byte of a stream, after the model's first character",
            _first_byte(repeats.streams),
            10,
        ),
        *(
            Figure(
                f"a piece of a stream over {door}, {how}, CPU above the engine",
                _streamed(repeats.rounds, door, gap),
                0.1,
            )
            for door in ("SSE", "/v1")
            for how, gap in (("each by itself", PIECE_SECONDS), ("all at once", 0.0))
        ),
    ]


if __name__ == "__main__":
    print(table(measure(QUICK)))
