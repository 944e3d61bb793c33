"""Run the application as a process: uvicorn with the settings of this server.

uvicorn only has a time-out for idle connections. A client that slowly sends bytes of a header would keep its connection
for ever. So the head of a request must come in time, and there must not be too much of it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from llm_fsm.server.limits import Limits

MAX_HEAD_BYTES = 65_536


class Config(uvicorn.Config):
    """uvicorn's settings, with the time limit for the head of a request."""

    def __init__(self, app: Any, *, header_seconds: float, **settings: Any) -> None:
        self.header_seconds = header_seconds
        super().__init__(app, http=TimedProtocol, **settings)


class TimedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a time-out and a limit for the head of a request."""

    config: Config
    _timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take the received bytes, and wait for the rest of a head."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse()
        elif self._timer is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.config.header_seconds, self._refuse)

    def _stop(self) -> None:
        self._head_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self) -> None:
        self._stop()
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


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
