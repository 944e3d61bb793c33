"""Limits of what one client may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llm_fsm.server.problems import Problem
from llm_fsm.server.tokens import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Set the limits of a server.

    `body_bytes`: of a request. `header_seconds`, `body_seconds`: until its headers, and its body, are there.
    `messages_per_minute`: for each token, in each process; None: no limit. `streams`: open streams in each process.
    `send_seconds`: how long a client of a stream may take no byte. `shutdown_seconds`: for turns to be finished.
    """

    body_bytes: int = 1_000_000
    header_seconds: float = 10.0
    body_seconds: float = 20.0
    messages_per_minute: int | None = None
    streams: int = 2_000
    send_seconds: float = 60.0
    shutdown_seconds: float = 30.0


class Gauge:
    """Count messages by token, in a bucket each, and open streams."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: dict[str, tuple[float, float]] = {}
        self.streams = 0

    def message(self, caller: Caller) -> None:
        """Count a message. Raises Problem 429 where the caller sends too many."""
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
        """Raise Problem 429 where no further stream may be opened."""
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
