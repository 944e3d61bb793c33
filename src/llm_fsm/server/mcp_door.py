"""`/mcp` over HTTP, as an ASGI application.

The SDK of MCP takes as long to import as the rest of the server, and few servers are asked over
MCP. So the first request imports it, or the start if there are tools for authors. Every request is
independent, so that any of several processes can answer it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_fsm.server.problems import Problem
from llm_fsm.server.service import Service


class McpDoor:
    """`/mcp` as an ASGI application, which works while `opened` is entered."""

    def __init__(self, service: Service, *, workbench: bool) -> None:
        self._service = service
        self._workbench = workbench
        self._app: asyncio.Future[ASGIApp] | None = None
        self._asked: asyncio.Event

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Take requests. The SDK's manager can only run once, so each call makes a new one."""
        self._app = asyncio.get_running_loop().create_future()
        self._asked = asyncio.Event()
        if self._workbench:
            self._asked.set()
        running = asyncio.create_task(self._run(self._app))
        try:
            yield
        finally:
            self._app = None
            running.cancel()
            await asyncio.wait([running])

    async def _run(self, app: asyncio.Future[ASGIApp]) -> None:
        """Load the SDK when it is asked for, and run its manager, which must end in its own task."""
        try:
            await self._asked.wait()
            over_http = await asyncio.to_thread(_load)
            async with over_http(self._service, workbench=self._workbench) as made:
                app.set_result(made)
                await asyncio.Event().wait()
        except Exception as error:
            app.set_exception(error)
        finally:
            app.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if self._app is None:
            raise Problem("unavailable", "the server is not started: enter its lifespan")
        # each POST gets its answer, and there is no session to listen to or to end
        if scope["method"] != "POST":
            raise Problem("method-not-allowed", "/mcp takes POST alone", headers={"Allow": "POST"})
        with self._service.gauge.stream(scope["state"]["caller"]):
            self._asked.set()
            # a client that leaves must not take the application from the others
            app = await asyncio.shield(self._app)
            await app(scope, receive, _plainly(send))


def _load() -> Callable[..., AbstractAsyncContextManager[ASGIApp]]:
    from llm_fsm.server.mcp_server import over_http  # noqa: PLC0415 - it loads the SDK

    return over_http


def _plainly(send: Send) -> Send:
    """Return a function that sends an answer, without the SDK's account of a body that is no
    message.
    """
    refusal = None

    async def answer(message: Message) -> None:
        nonlocal refusal
        if message["type"] == "http.response.start" and message["status"] == 400:
            refusal = message
            return
        if refusal is not None:
            document = json.loads(message["body"])
            if document["error"]["message"].startswith("Validation error"):
                document["error"]["message"] = "the body is no message of JSON-RPC 2.0"
            message = {**message, "body": json.dumps(document).encode()}
            await send({**refusal, "headers": _sized(refusal["headers"], len(message["body"]))})
            refusal = None
        await send(message)

    return answer


def _sized(headers: Iterable[tuple[bytes, bytes]], size: int) -> list[tuple[bytes, bytes]]:
    """Return headers with another length of the body."""
    kept = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    return [*kept, (b"content-length", str(size).encode())]
