"""HTTP connections that must send the head of a request in time, and not too much of it.

uvicorn has a time-out for idle connections alone. A client that sends one byte of a header now and then would keep its
connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 65_536


class Config(uvicorn.Config):
    """uvicorn's settings, with the seconds that the head of a request may take."""

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
        """Take what arrived; wait for the rest of a head."""
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
        """Wait no longer."""
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

