"""The application as a process: uvicorn with the settings that this server needs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from llm_fsm.server.connection import Config
from llm_fsm.server.limits import Limits


class Server(uvicorn.Server):
    """uvicorn's server, which a signal to end ends well: the process is not killed by it once all is done."""

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


def config_of(
    app: object, *, host: str = "127.0.0.1", port: int = 8000, limits: Limits | None = None, workers: int = 1
) -> Config:
    """Make the settings of uvicorn for an application, or for the name of one such as `module:function`."""
    limits = limits or Limits()
    return Config(
        app,
        header_seconds=limits.header_seconds,
        host=host,
        port=port,
        workers=workers,
        factory=isinstance(app, str),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(limits.shutdown_seconds) + 1,
        h11_max_incomplete_event_size=None,
    )
