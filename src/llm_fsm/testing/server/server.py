"""A real HTTP server on the loopback that answers like an OpenAI-compatible provider, from a
script.

    with serve_scripted(["Hello!", {"message": "…"}, HttpReply(status=429)]) as server:
        machine = Machine.from_file("flow.json", model="any", base_url=server.base_url)
        ...
    server.requests[0].body["messages"]

It runs in a thread with its own event loop, so that it serves sync and async programs alike.
Streaming (`"stream": true`), a forced tool call and `GET /v1/models` are answered in the form that
was asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from llm_fsm._json import JsonDict, TextMap
from llm_fsm.engine.portal import Portal
from llm_fsm.llm.scripted import scripted_reply
from llm_fsm.testing.server.completions import (
    Form,
    chunks,
    completion,
    failure,
    models,
    offers_tools,
    refusal,
    reply_form,
)
from llm_fsm.testing.server.faults import FaultyStream
from llm_fsm.testing.server.http import HttpReply, read_head, send, stream

MAX_BODY = 64 * 2**20
"""Bytes of one request's body."""


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request to `/chat/completions`: its JSON, and its headers with lower-case names."""

    body: JsonDict
    headers: TextMap


Said: TypeAlias = str | JsonDict | HttpReply | FaultyStream
Policy: TypeAlias = Callable[[JsonDict], Said]


def serve_scripted(
    replies: Sequence[Said | Policy] | Policy,
    *,
    loop: bool = False,
    refuse: Collection[Form] = (),
    delay: float = 0.0,
    port: int = 0,
) -> ScriptedServer:
    """Make a server that gives one reply for each request. Use it with `with` or `async with`.

    A text or dict is the model's reply. A dict with `tool_calls`, as `calls` makes it, calls tools.
    An `HttpReply` or a `FaultyStream` breaks the answer as it describes. A callable receives the
    request's JSON and returns one of these.

    Args:
        replies: The replies in order, or one callable that answers every request.
        loop: True starts again after the last reply. Otherwise, further requests get status 400.
        refuse: Forms of the reply that get status 400, as from a provider without them. They use up
            no reply.
        delay: Seconds before every answer.
        port: The port; 0 takes any free one.

    Returns:
        The server. `base_url` is its URL, and `requests` lists the requests.
    """
    return ScriptedServer(replies, loop=loop, refuse=refuse, delay=delay, port=port)


class ScriptedServer:
    """The server that `serve_scripted` makes. `requests` lists all requests, also the refused
    ones.
    """

    def __init__(
        self,
        replies: Sequence[Said | Policy] | Policy,
        *,
        loop: bool = False,
        refuse: Collection[Form] = (),
        delay: float = 0.0,
        port: int = 0,
    ) -> None:
        self.requests: list[SeenRequest] = []
        self._replies: list[Said | Policy] = [replies] if callable(replies) else list(replies)
        self._loop = loop or callable(replies)
        self._refuse = frozenset(refuse)
        self._delay = delay
        self._port = port
        self._used = 0
        self._portal: Portal
        self._listening: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        """The URL for `base_url=`, while the server runs."""
        if self._listening is None:
            raise RuntimeError("the scripted server does not run; use it in a `with` block")
        return f"http://127.0.0.1:{self._listening.sockets[0].getsockname()[1]}/v1"

    @property
    def remaining(self) -> int:
        """The number of replies that are left."""
        return max(0, len(self._replies) - self._used)

    def __enter__(self) -> Self:
        self._portal = Portal()
        try:
            listening = asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=1024)
            self._listening = self._portal.run(listening)
        except BaseException:
            self._portal.stop(asyncio.sleep(0))
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        if self._listening is not None:
            self._portal.stop(_closed(self._listening))
            self._listening = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: object) -> None:
        self.__exit__(*raised)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                method, path, headers = read_head(await reader.readuntil(b"\r\n\r\n"))
                size = int(headers.get("content-length", "0"))
                if size > MAX_BODY or "transfer-encoding" in headers:
                    await send(
                        writer, HttpReply(status=411, body=failure("a Content-Length is needed"))
                    )
                    return
                content = await reader.readexactly(size)
                if not await self._answer(writer, method, path, headers, content):
                    return
        except (ConnectionError, EOFError, ValueError, asyncio.LimitOverrunError):
            return  # the client is gone, or speaks something else than HTTP
        except asyncio.CancelledError:
            return  # the server stops; Python 3.11 would report the cancelled task as an error
        finally:
            writer.close()

    async def _answer(
        self, writer: asyncio.StreamWriter, method: str, path: str, headers: TextMap, content: bytes
    ) -> bool:
        """Send one answer. Return false if the connection must be closed."""
        if path.endswith("/models"):
            return await send(writer, HttpReply(body=models(("scripted",))))
        if method != "POST" or not path.endswith("/chat/completions"):
            return await send(
                writer, HttpReply(status=404, body=failure(f"unknown address: {method} {path}"))
            )
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            return await send(writer, HttpReply(status=400, body=failure(f"not JSON: {error}")))
        self.requests.append(SeenRequest(body, headers))
        number = len(self.requests)
        said = self._next(body)
        if self._delay:
            await asyncio.sleep(self._delay)
        match said:
            case HttpReply():
                return await send(writer, said)
            case FaultyStream():
                if body.get("stream"):
                    pieces = said.pieces(body, number)
                    cut = said.cut_after is not None
                    return await stream(writer, pieces, pause=said.pause, cut=cut)
                said = said.text
        try:
            reply = scripted_reply(said, number)
        except (TypeError, ValueError) as error:
            return await send(writer, HttpReply(status=400, body=failure(str(error))))
        if body.get("stream"):
            return await stream(writer, chunks(reply.text, body, number, reply.tool_calls))
        whole = completion(reply.text, body, number, reply.tool_calls)
        return await send(writer, HttpReply(body=whole))

    def _next(self, body: JsonDict) -> Said:
        form = reply_form(body)
        if form in self._refuse:
            return HttpReply(status=400, body=refusal(form))
        if "tools" in self._refuse and offers_tools(body):
            return HttpReply(status=400, body=refusal("tools"))
        total = len(self._replies)
        if self._used >= total and not (self._loop and total):
            return HttpReply(
                status=400, body=failure(f"the script has {total} replies, and all were given")
            )
        said = self._replies[self._used % total]
        self._used += 1
        if not callable(said):
            return said
        try:
            return said(body)
        except Exception as error:
            message = f"the scripted reply raised {type(error).__name__}: {error}"
            return HttpReply(status=400, body=failure(message))


async def _closed(listening: asyncio.Server) -> None:
    """Take no more connections; those that are open end with the loop."""
    listening.close()
