"""Limits for one client of the server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llm_fsm.server.problems import Problem
from llm_fsm.server.tokens import Caller

_FULL_SECONDS = 60.0
"""Seconds in which an empty bucket fills, as rates are by the minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server.

    Attributes:
        body_bytes: Bytes of a request's body.
        bodies_bytes: Bytes of the bodies of all requests under way in each process; one token may
            have half of them.
        transcript_messages: Messages of a transcript in the OpenAI form. Its size is also that of a
            body.
        connections: Open connections in each process; fewer if it has too few descriptors for them.
        idle_seconds: Seconds for which a connection may have no request.
        header_seconds: Seconds until all headers have arrived.
        body_seconds: Seconds until the whole body has arrived.
        messages_per_minute: Requests of each token in each process, reading ones too; None: no
            limit.
        streams: Open streams in each process; one token may have half of them.
        work_processes: Processes that check, play tests and draw for authors.
        work_seconds: Seconds that such a job may take.
        work_waiting: Such jobs that one token may have at once.
        send_seconds: Seconds for which a client may read nothing.
        shutdown_seconds: Seconds from the signal to end until the server has ended. Turns get nine
            tenths of them.
    """

    body_bytes: int = 1_000_000
    bodies_bytes: int = 50_000_000
    transcript_messages: int = 10_000
    connections: int = 10_000
    idle_seconds: float = 30.0
    header_seconds: float = 10.0
    body_seconds: float = 20.0
    messages_per_minute: int | None = None
    streams: int = 2_000
    work_processes: int = 2
    work_seconds: float = 20.0
    work_waiting: int = 4
    send_seconds: float = 60.0
    shutdown_seconds: float = 30.0


class Gauge:
    """Counts requests, in one bucket for each token, and open streams."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: dict[str, tuple[float, float]] = {}
        self._streams: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many callers are remembered for the limit of requests."""
        return len(self._buckets)

    @property
    def streams(self) -> int:
        """The streams that are open."""
        return self._streams.total()

    def request(self, caller: Caller) -> None:
        """Count a request.

        Raises:
            Problem: The caller sends too many of them (429).
        """
        rate = caller.rate or self._limits.messages_per_minute
        if rate is None:
            return
        now = time.monotonic()
        self._forget_full(now)
        left, at = self._buckets.get(caller.name, (float(rate), now))
        left = min(float(rate), left + (now - at) * rate / 60)
        if left < 1:
            raise Problem(
                "too-many-requests",
                f"at most {rate} requests a minute are taken with this token",
                retry_after=(1 - left) * 60 / rate,
            )
        self._buckets.pop(caller.name, None)  # so that the dictionary is in order of time
        self._buckets[caller.name] = (left - 1, now)

    def _forget_full(self, now: float) -> None:
        """Remove the buckets that are full again: each fills within a minute, and callers without
        an end may come.
        """
        while self._buckets:
            name, (_, at) = next(iter(self._buckets.items()))
            if at > now - _FULL_SECONDS:
                return
            del self._buckets[name]

    def check_streams(self, caller: Caller) -> None:
        """Check that another stream may be opened.

        Raises:
            Problem: Too many streams are open (429).
        """
        most = self._limits.streams
        if self.streams >= most:
            raise Problem(
                "too-many-requests", f"{most} streams are open, which is the limit", retry_after=5
            )
        if caller.name and self._streams[caller.name] >= (most + 1) // 2:
            raise Problem(
                "too-many-requests", "this token has half of all streams open", retry_after=5
            )

    @contextmanager
    def stream(self, caller: Caller) -> Iterator[None]:
        """Count an open stream. Raises Problem 429 as `check_streams`."""
        self.check_streams(caller)
        self._streams[caller.name] += 1
        try:
            yield
        finally:
            self._streams[caller.name] -= 1
            if not self._streams[caller.name]:
                del self._streams[caller.name]
