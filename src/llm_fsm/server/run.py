"""Run the application as a process: uvicorn with the settings of this server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from llm_fsm.server.connections import ACCEPTED, BoundedProtocol, LoopErrors, OpenConnections
from llm_fsm.server.limits import Limits


class ServerConfig(uvicorn.Config):
    """uvicorn's settings, with the limits of connections. `open`: the connections of this process."""

    def __init__(self, app: Any, *, limits: Limits, **settings: Any) -> None:
        self.open = OpenConnections(limits)
        super().__init__(app, http=BoundedProtocol, **settings)

    def get_loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        """Return a function that makes the event loop of a process of this server."""
        make = super().get_loop_factory() or asyncio.new_event_loop

        def made() -> asyncio.AbstractEventLoop:
            loop = make()
            loop.set_exception_handler(LoopErrors())
            return loop

        return made


class Server(uvicorn.Server):
    """uvicorn's server, which exits normally after a signal to end, and is not killed by it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals to end."""
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

WORKER_SECONDS = 60
"""Seconds for a worker to begin, or to answer its supervisor. With fewer, a busy machine kills workers that begin."""


def config_of(
    app: object, *, host: str = "127.0.0.1", port: int = 8000, limits: Limits | None = None, workers: int = 1
) -> ServerConfig:
    """Make the settings of uvicorn for an application, or for the name of one such as `module:function`."""
    limits = limits or Limits()
    return ServerConfig(
        app,
        limits=limits,
        host=host,
        port=port,
        workers=workers,
        factory=isinstance(app, str),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=ACCEPTED,
        timeout_keep_alive=int(limits.idle_seconds),
        timeout_graceful_shutdown=int(limits.shutdown_seconds) + 1,
        timeout_worker_healthcheck=WORKER_SECONDS,
        h11_max_incomplete_event_size=None,
    )
