"""The rules for sending a request to a provider again, and for the wait before that.

Waits grow exponentially with full jitter (Marc Brooker, "Exponential Backoff And Jitter", 2015). A
provider's Retry-After (RFC 9110, section 10.2.3) is honoured. Nothing here ever waits past the
deadline.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import NoReturn, TypeVar

from msgspec.structs import replace

from llm_fsm._async import in_words
from llm_fsm.errors import ModelError
from llm_fsm.session.messages import ModelReply

T = TypeVar("T")

RETRYABLE_STATUS = frozenset({408, 409, 425, 429})
UNLIMITED_ATTEMPT = 60.0
"""Seconds for one request by default."""
LONGER = "timeout= gives it longer (--timeout on the command line)"
"""The advice for a model that is too slow."""
MAX_RETRY_AFTER = 60.0
"""The longest wait, in seconds, that a provider may ask for if the caller gave no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The rule for how often a request is sent again.

    Args:
        attempts: Requests sent for one reply, at most.
        base: Longest wait after the first failure, in seconds; it doubles with each further one.
        cap: Longest wait, in seconds.
        attempt_timeout: Seconds for one request. None: the remaining time of the reply, which asks
            a slow model once; 60 if the caller gave no limit.
    """

    attempts: int = 4
    base: float = 0.5
    cap: float = 8.0
    attempt_timeout: float | None = None

    @property
    def idle_timeout(self) -> float:
        """Seconds to wait for an answer if nobody gave a limit."""
        return UNLIMITED_ATTEMPT if self.attempt_timeout is None else self.attempt_timeout

    def idle_for(self, timeout: float | None) -> float:
        """Return the seconds to wait for the next piece of a stream. `timeout`: the time of the
        request, if limited.
        """
        if timeout is None or self.attempt_timeout is not None:
            return self.idle_timeout
        return timeout

    def wait(self, failures: int, retry_after: float | None, chance: float) -> float:
        """Return the seconds to wait after this many failures; `chance` is a random number of [0,
        1).
        """
        jittered = chance * min(self.cap, self.base * 2.0 ** min(failures - 1, 30))
        return max(jittered, retry_after or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Sources of time and chance: `now` in seconds of a steady clock."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


def is_retryable(status: int) -> bool:
    """Return true if the same request may succeed later."""
    return status >= 500 or status in RETRYABLE_STATUS


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds to wait by a Retry-After header, a number or an HTTP date; `now`: seconds
    since the epoch.
    """
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
    """The requests of one call, and their deadline. `timeout`: seconds, or None."""

    __slots__ = ("_deadline", "_pacing", "_policy", "_started", "sent")

    def __init__(self, policy: RetryPolicy, timeout: float | None, pacing: Pacing) -> None:
        self.sent = 0
        self._policy = policy
        self._pacing = pacing
        self._started = pacing.now()
        self._deadline = math.inf if timeout is None else self._started + timeout

    def __enter__(self) -> None:
        """Add the requests and time of this call to the ModelError with which it ends."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if isinstance(error, ModelError):
            error.attempts += self.sent  # added to those of another call that replaced this one
            error.seconds = self.seconds

    async def instead(self, call: Awaitable[ModelReply]) -> ModelReply:
        """Await another call that replaces this one, and add this one's requests and time. Raises
        its ModelError.
        """
        with self:
            reply = await call
        return replace(reply, attempts=self.sent + reply.attempts, seconds=self.seconds)

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return self._pacing.now() - self._started

    async def run(self, attempt: Callable[[float], Awaitable[T]]) -> T:
        """Await `attempt(seconds it may take)` until it succeeds.

        Raises:
            ModelError: Its error, if that is not retryable or the attempts are used up; a retryable
                one after the time.
        """

        limited = self._deadline < math.inf and self._policy.attempt_timeout is None
        most = math.inf if limited else self._policy.idle_timeout

        async def once() -> T:
            self.sent += 1
            return await attempt(min(max(self._left(), 0.0), most))

        with self:
            if self._left() <= 0:
                raise self._out_of_time(None)
            failures = 0
            while True:
                try:
                    return await once()
                except ModelError as error:
                    failures += 1
                    if not error.retryable:
                        raise
                    wait = self._policy.wait(failures, error.retry_after, self._pacing.chance())
                    if self._is_over(error, failures, wait):
                        self._give_up(error, failures)
                await self._pacing.sleep(wait)

    def _left(self) -> float:
        return self._deadline - self._pacing.now()

    def _is_over(self, last: ModelError, failures: int, wait: float) -> bool:
        return (
            failures >= self._policy.attempts or self._asks_too_much(last) or wait >= self._left()
        )

    def _asks_too_much(self, last: ModelError) -> bool:
        most = (
            max(MAX_RETRY_AFTER, self._policy.cap) if self._deadline == math.inf else self._left()
        )
        return (last.retry_after or 0.0) > most

    def _give_up(self, last: ModelError, failures: int) -> NoReturn:
        if failures >= self._policy.attempts:
            raise _again(f"{last} (after {self._count()})", last) from last
        if self._asks_too_much(last) and last.retry_after:
            said = f"{last}; it asks to wait {last.retry_after:.0f} s, longer than may be waited"
            raise _again(said, last) from last
        raise self._out_of_time(last) from last

    def _out_of_time(self, last: ModelError | None) -> ModelError:
        limit = self._deadline - self._started
        reason = f"; the last one failed: {last}" if last else ""
        tried = f"{self._count()}{reason}"
        message = f"the model did not answer within the {in_words(limit)} s left for it ({tried}); {LONGER}"
        return _again(message, last)

    def _count(self) -> str:
        return f"{self.sent} attempt{'' if self.sent == 1 else 's'}"


def _again(message: str, last: ModelError | None) -> ModelError:
    if last is None:
        return ModelError(message, retryable=True)
    return ModelError(
        message,
        retryable=True,
        status=last.status,
        retry_after=last.retry_after,
        refusal=last.refusal,
    )
