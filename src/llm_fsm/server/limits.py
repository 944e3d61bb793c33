"""Limits for one client of the server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llm_fsm.server.problems import Problem
from llm_fsm.server.tokens import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server.

    Attributes:
        body_bytes: Bytes of a request's body.
        connections: Open connections in each process; fewer if it has too few descriptors for them.
        idle_seconds: Seconds for which a connection may have no request.
        header_seconds: Seconds until all headers have arrived.
        body_seconds: Seconds until the whole body has arrived.
        messages_per_minute: Messages for each token, in each process; None: no limit.
        streams: Open streams in each process.
        send_seconds: Seconds for which a client may read nothing.
        shutdown_seconds: Seconds for running turns to finish at shutdown.
    """

    body_bytes: int = 1_000_000
    connections: int = 10_000
    idle_seconds: float = 30.0
    header_seconds: float = 10.0
    body_seconds: float = 20.0
    messages_per_minute: int | None = None
    streams: int = 2_000
    send_seconds: float = 60.0
    shutdown_seconds: float = 30.0


class Gauge:
    """Counts messages, in one bucket for each token, and open streams."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: dict[str, tuple[float, float]] = {}
        self.streams = 0

    def message(self, caller: Caller) -> None:
        """Count a message.

        Raises:
            Problem: The caller sends too many messages (429).
        """
        rate = caller.rate or self._limits.messages_per_minute
        if rate is None:
            return
        now = time.monotonic()
        left, at = self._buckets.get(caller.name, (float(rate), now))
        left = min(float(rate), left + (now - at) * rate / 60)
        if left < 1:
            raise Problem(
                "too-many-requests",
                f"at most {rate} messages a minute are taken with this token",
                retry_after=(1 - left) * 60 / rate,
            )
        self._buckets[caller.name] = (left - 1, now)

    def check_streams(self) -> None:
        """Check that another stream may be opened.

        Raises:
            Problem: Too many streams are open (429).
        """
        if self.streams >= self._limits.streams:
            raise Problem(
                "too-many-requests", f"{self.streams} streams are open, which is the limit", retry_after=5
            )

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count an open stream."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
