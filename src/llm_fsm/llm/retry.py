"""When a request to a provider is sent again, and how long to wait before that.

Waits grow exponentially with full jitter (Marc Brooker, "Exponential Backoff And Jitter", 2015); a
provider's Retry-After (RFC 9110, section 10.2.3) is honoured. Nothing here ever waits past the deadline.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TypeVar

from msgspec.structs import replace

from llm_fsm._async import in_words
from llm_fsm.errors import ModelError
from llm_fsm.session.messages import ModelReply

T = TypeVar("T")

RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
MAX_RETRY_AFTER = 60.0
"""Seconds that are waited at a provider's wish where the caller gave no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`attempts`: requests sent for one reply; `base`, `cap`, `attempt_timeout`: seconds."""

    attempts: int = 4
    base: float = 0.5
    cap: float = 8.0
    attempt_timeout: float = 60.0

    def wait(self, failures: int, retry_after: float | None, chance: float) -> float:
        """Seconds to wait after so many failures; `chance` is a random number of [0, 1)."""
        jittered = chance * min(self.cap, self.base * 2.0 ** min(failures - 1, 30))
        return max(jittered, retry_after or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Where time and chance come from: `now` in seconds of a steady clock."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status >= 500 or status in RETRYABLE_STATUS


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait by a Retry-After header: a number, or an HTTP date; `now` in seconds of the epoch."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


class Retries:
    """One call's requests: how many were sent, and until when more may be. `timeout`: seconds, or None."""

    __slots__ = ("_deadline", "_failures", "_pacing", "_policy", "_started", "sent")

    def __init__(self, policy: RetryPolicy, timeout: float | None, pacing: Pacing) -> None:
        self.sent = 0
        self._failures = 0
        self._policy = policy
        self._pacing = pacing
        self._started = pacing.now()
        self._deadline = math.inf if timeout is None else self._started + timeout

    def __enter__(self) -> None:
        """Tell the ModelError with which this ends what it took."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, ModelError):
            error.attempts += self.sent  # to those of another call that this one gave way to
            error.seconds = self.seconds

    async def instead(self, call: Awaitable[ModelReply]) -> ModelReply:
        """The reply of another call that this one gives way to, with what both took. Raises its ModelError."""
        with self:
            reply = await call
        return replace(reply, attempts=self.sent + reply.attempts, seconds=self.seconds)

    @property
    def seconds(self) -> float:
        """Time since the call began."""
        return self._pacing.now() - self._started

    async def run(self, attempt: Callable[[float], Awaitable[T]]) -> T:
        """Await `attempt(seconds it may take)` until it succeeds.

        Raises its ModelError when that is not retryable or the attempts are used up, and a retryable
        ModelError when the time is.
        """
        last: ModelError | None = None
        while True:
            seconds = self.begin(last)
            try:
                return await attempt(seconds)
            except ModelError as error:
                last = error
            await self.pause(last)

    def begin(self, last: ModelError | None) -> float:
        """Count a request, the first one or another after `last` failed: the seconds that it may take.

        Raises ModelError when there are none left.
        """
        left = self._left()
        if left <= 0:
            with self:
                raise self._out_of_time(last)
        self.sent += 1
        return min(left, self._policy.attempt_timeout)

    def _left(self) -> float:
        return self._deadline - self._pacing.now()

    async def pause(self, last: ModelError) -> None:
        """Wait before the next request. Raises ModelError, `last` itself where another one is of no use."""
        with self:
            seconds = self._wait(last)
        await self._pacing.sleep(seconds)

    def _wait(self, last: ModelError) -> float:
        """The seconds until the next request. Raises as `pause`."""
        if not last.retryable:
            raise last
        self._failures += 1
        if self._failures >= self._policy.attempts:
            raise _again(f"{last} (after {self._count()})", last) from last
        seconds = self._policy.wait(self._failures, last.retry_after, self._pacing.chance())
        asked = last.retry_after or 0.0
        most = max(MAX_RETRY_AFTER, self._policy.cap) if self._deadline == math.inf else self._left()
        if asked and asked > most:
            raise _again(f"{last}; it asks to wait {asked:.0f} s, longer than may be waited", last) from last
        if seconds >= self._left():
            raise self._out_of_time(last) from last
        return seconds

    def _out_of_time(self, last: ModelError | None) -> ModelError:
        limit = self._deadline - self._started
        reason = f"; the last one failed: {last}" if last else ""
        message = f"the model did not answer within the {in_words(limit)} s left for it ({self._count()}{reason})"
        return _again(message, last)

    def _count(self) -> str:
        return f"{self.sent} attempt{'' if self.sent == 1 else 's'}"


def _again(message: str, last: ModelError | None) -> ModelError:
    if last is None:
        return ModelError(message, retryable=True)
    return ModelError(message, retryable=True, status=last.status, retry_after=last.retry_after)
