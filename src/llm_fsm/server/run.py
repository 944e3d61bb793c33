"""Run the application as a process: uvicorn with the settings of this server."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.importer import import_from_string
from uvicorn.lifespan.on import LifespanOn

from llm_fsm.server.app import Application
from llm_fsm.server.connections import ACCEPTED, BoundedProtocol, LoopErrors, OpenConnections
from llm_fsm.server.ending import CONNECTIONS
from llm_fsm.server.limits import Limits

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ServerConfig(uvicorn.Config):
    """uvicorn's settings, with the limits of connections. `open`: the connections of this process."""

    def __init__(self, app: Any, *, limits: Limits, **settings: Any) -> None:
        self.open = OpenConnections(limits)
        super().__init__(app, http=BoundedProtocol, **settings)

    def load(self) -> None:
        """Make the application, in the process that runs it."""
        if self.factory:
            self.app, self.factory = import_from_string(str(self.app))(), False
        super().load()
        if isinstance(self.app, Application):
            self.lifespan_class = DrainingLifespan

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        """Return a function that makes the event loop of a process of this server."""
        make = super().get_loop_factory() or asyncio.new_event_loop

        def made() -> asyncio.AbstractEventLoop:
            loop = make()
            loop.set_exception_handler(LoopErrors())
            return loop

        return made


class DrainingLifespan(LifespanOn):
    """The lifespan of an application whose turns finish before uvicorn hears of a signal to end.

    uvicorn stops listening at once. Here the server listens as long as turns run, so that `/readyz`
    can tell that it ends. It hangs on the lifespan, which every worker of uvicorn's supervisor has,
    and not on `Server`.
    """

    config: Any

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._before: dict[int, Any] = {}
        self._draining: asyncio.Task[None] | None = None

    async def startup(self) -> None:
        """Start the application, and handle the signals to end."""
        await super().startup()
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may handle signals
        loop = asyncio.get_running_loop()

        def handle(number: int, _: FrameType | None) -> None:
            ending = self.config.app.service.ending
            if ending.is_begun:  # somebody is in a hurry
                self._hand_on(number)
                return
            ending.begin()
            loop.call_soon_threadsafe(self._begin, number)

        for number in _SIGNALS:
            self._before[number] = signal.signal(number, handle)

    def _begin(self, number: int) -> None:
        self._draining = asyncio.create_task(self._drain(number))

    async def _drain(self, number: int) -> None:
        try:
            await self.config.app.service.drain()
        finally:
            self._hand_on(number)

    def _hand_on(self, number: int) -> None:
        """Let uvicorn end, within the time that is left."""
        self.config.timeout_graceful_shutdown = self.config.app.service.ending.left(CONNECTIONS)
        self._before[number](number, None)


class Server(uvicorn.Server):
    """uvicorn's server, which exits normally after a signal to end, and is not killed by it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals to end."""
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


WORKER_SECONDS = 60
"""Seconds for a worker to begin, or to answer its supervisor. With fewer, a busy machine kills
workers that begin.
"""


def config_of(
    app: object, *, port: int = 8000, limits: Limits | None = None, workers: int = 1
) -> ServerConfig:
    """Make the settings of uvicorn for an application, or for the name of one such as
    `module:function`.
    """
    limits = limits or Limits()
    return ServerConfig(
        app,
        limits=limits,
        port=port,
        workers=workers,
        factory=isinstance(app, str),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=ACCEPTED,
        timeout_keep_alive=int(limits.idle_seconds),
        timeout_graceful_shutdown=int(limits.shutdown_seconds),
        timeout_worker_healthcheck=WORKER_SECONDS,
        h11_max_incomplete_event_size=None,
    )
