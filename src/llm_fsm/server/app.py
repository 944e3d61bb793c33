"""The application: all APIs over one service, behind one guard."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llm_fsm import AsyncMachine, __version__
from llm_fsm.engine.upkeep import CurrentMachines
from llm_fsm.server import health, pages
from llm_fsm.server.ag_ui import AgUi
from llm_fsm.server.between import between
from llm_fsm.server.ending import Ending
from llm_fsm.server.feed import Feed
from llm_fsm.server.guard import Answered, RequestGuard
from llm_fsm.server.http_rules import HttpRules
from llm_fsm.server.limits import Limits
from llm_fsm.server.listings import listings
from llm_fsm.server.machines import Machines
from llm_fsm.server.mcp_door import McpDoor
from llm_fsm.server.metrics import Metrics
from llm_fsm.server.openai_api import OpenAI
from llm_fsm.server.openapi import SETTINGS, describe
from llm_fsm.server.problems import CHANNELS, answer_errors
from llm_fsm.server.releases import releases
from llm_fsm.server.rest import RestRoutes
from llm_fsm.server.service import Service
from llm_fsm.server.tokens import Right, Tokens
from llm_fsm.server.upkeep import upkeep

HAS_MCP = find_spec("mcp") is not None
"""True if the extra `mcp` is installed. Without it the server has all APIs but that of MCP."""

_ABOUT = """Conversations and runs of machines that are written as JSON files.

Errors are problem documents (RFC 9457). A request that may be sent twice carries an `Idempotency-Key`."""


Channel = Callable[[Service], APIRouter]
"""A function that returns the routes of a channel, such as a messenger, over a service."""


Beside = Callable[[CurrentMachines], Coroutine[Any, Any, None]]
"""A coroutine function that works beside the server, on its machines."""


class Application(FastAPI):
    """The application that `create_app` makes. `service` holds its machines and running turns."""

    service: Service


def create_app(
    machines: AsyncMachine | Iterable[AsyncMachine] | Mapping[str, AsyncMachine],
    *,
    tokens: Tokens | None = None,
    anonymous: Collection[Right] | None = None,
    workbench: bool = False,
    cors: Collection[str] = (),
    hosts: Collection[str] | None = (),
    limits: Limits | None = None,
    due_seconds: float | None = 1.0,
    closes: bool = False,
    changed: CurrentMachines | None = None,
    answered: Sequence[Answered] = (),
    channels: Mapping[str, Channel] | None = None,
    beside: Beside | None = None,
) -> Application:
    """Make an ASGI application that serves machines.

    Run it, or mount it in another application.

    Args:
        machines: One machine, or several with different names of definitions.
        tokens: The tokens that may use it; None: no token is needed.
        anonymous: Rights of callers if there are no tokens; None: all rights for callers on this
            machine, and `talk` for others.
        workbench: True serves the tools for authors over MCP, for tokens with the right `author`.
        cors: Origins, such as `https://example.org`, whose pages may call it; empty: none.
        hosts: Names that the Host header may have besides addresses and `localhost`; None: any.
        limits: Limits for one client; see `Limits`.
        due_seconds: Seconds between two looks for unfinished turns, time-outs, reminders and sinks;
            None: never.
        closes: True closes the machines when the application ends.
        changed: A function that returns the machines whose files are new or changed. It is called
            twice a second, in a thread. New conversations begin with these machines. Running
            conversations finish on the definition that they began with.
        channels: Functions that return the routes of a channel over the service, by name. They are
            served below `/channels/NAME`, need no token, and must check who sends.
        beside: A coroutine function of a function that returns the machines. It runs beside the
            server, and is cancelled at its end; see `llm_fsm.durable.temporal.work`.
        answered: A function that receives each answer, for logs; see `llm_fsm.server.guard`.

    Returns:
        A FastAPI application. If you mount it, enter its lifespan in that of the host:
        `async with app.router.lifespan_context(app)`.

    Raises:
        ConfigurationError: Two definitions have one name.

    Example:
        app = create_app(AsyncMachine.from_file("flow.json", model="offline"))
    """
    match machines:
        case AsyncMachine():
            machines = (machines,)
        case Mapping():
            machines = machines.values()
    limits = limits or Limits()
    service = Service(Machines(machines), limits)
    feed = Feed(service.machines, service.secrecy)
    metrics = Metrics(service)
    mcp = McpDoor(service, workbench=workbench) if HAS_MCP else None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            if closes:
                for machine in service.machines.every():
                    stack.push_async_callback(machine.close)
            stack.push_async_callback(service.pool.close)
            stack.callback(metrics.start())
            further = [service.stopping.run()]
            if beside is not None:
                further.append(beside(service.machines.every))
            await stack.enter_async_context(upkeep(service, due_seconds, changed, further))
            if mcp is not None:
                await stack.enter_async_context(mcp.opened())
            service.ending = Ending(limits.shutdown_seconds)
            yield
            await service.drain()

    app = Application(
        title="llm-fsm", version=__version__, description=_ABOUT, lifespan=lifespan, **SETTINGS
    )
    app.service = service
    RestRoutes(service, app.router)
    app.include_router(listings(service))
    app.include_router(releases(service))
    app.include_router(between(service, feed))
    app.include_router(OpenAI(service).router)
    for name, routes in (channels or {}).items():
        app.include_router(routes(service), prefix=f"{CHANNELS}{name}")
    app.include_router(AgUi(service, feed).router)
    app.include_router(health.router(service), include_in_schema=False)
    app.include_router(metrics.router, include_in_schema=False)
    app.include_router(pages.router(), include_in_schema=False)
    if mcp is not None:
        app.router.routes.append(
            Route("/mcp", endpoint=mcp, methods=["POST"], include_in_schema=False)
        )
    answer_errors(app)
    describe(app, needs_token=tokens is not None)
    app.add_middleware(HttpRules, routes=app.router.routes, foreign=CHANNELS)
    app.add_middleware(Compressed, minimum_size=1_000)
    told = (metrics.answered, *answered)
    app.add_middleware(
        RequestGuard,
        limits=limits,
        tokens=tokens,
        hosts=hosts,
        origins=cors,
        anonymous=anonymous,
        enter=service.enter,
        answered=told,
    )
    if cors:  # outside of the guard, so that a page can read its refusals, too
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors),
            allow_methods=["GET", "HEAD", "POST", "PUT", "DELETE"],
            allow_headers=["*"],  # clients of the OpenAI API and of MCP send headers of their own
            expose_headers=_EXPOSED,
        )
    return app


_EXPOSED = (
    "Location",
    "Mcp-Session-Id",
    "Preference-Applied",
    "Retry-After",
    "WWW-Authenticate",
    "X-Conversation-Id",
    "X-Request-Id",
)
"""Headers of answers that a page of another origin may read."""


class Compressed(GZipMiddleware):
    """Compresses responses, except for the answer to a message, which is small and urgent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and scope["method"] == "GET":
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)
