"""Serve the requests for one connection in batches. All requests that wait form the next batch.

Requests of the same kind go to the database as one. So ten thousand conversations share round trips
and the costly sync to disk. If the server cannot be reached, all waiting requests fail at once,
because each would only wait in vain.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from llm_fsm.errors import StoreError
from llm_fsm.stores.errors import Unreachable

T = TypeVar("T")
_MOST = 1024
"""The most requests that are served together."""

Outcome = Any
"""The answer to a request. An Exception is raised to the caller."""

Serve = Callable[[Sequence[Any]], Awaitable[Sequence[Outcome]]]
"""Serves all values of one kind, and returns an outcome for each. An error that it raises goes to
all callers.
"""


class _QueuedRequest(NamedTuple):
    serve: Serve
    value: Any
    future: asyncio.Future[Any]


class BatchQueue:
    """A queue of requests and the task that serves it, one batch after the other, for one event
    loop.
    """

    __slots__ = ("_task", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[_QueuedRequest] = deque()
        self._task: asyncio.Task[None] | None = None

    def ask(
        self, serve: Callable[[Sequence[Any]], Awaitable[Sequence[T]]], value: Any
    ) -> asyncio.Future[T]:
        """Queue a request. The future is done when it was served, even if nobody waits for it any
        more.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(_QueuedRequest(serve, value, future))
        if self._task is None:
            self._task = loop.create_task(self._work())
        return future

    async def idle(self) -> None:
        """Wait until all requests are served."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        try:
            # Requests that come while a batch is served form the next one, so the loop ends when
            # nobody asks.
            while self._waiting:
                taken = min(_MOST, len(self._waiting))
                await self._serve([self._waiting.popleft() for _ in range(taken)])
        except BaseException as error:  # the loop is closing, so no caller may be left waiting
            _fail(self._waiting, error)
            raise
        finally:
            self._waiting.clear()
            self._task = None

    async def _serve(self, batch: Sequence[_QueuedRequest]) -> None:
        kinds: dict[Serve, list[_QueuedRequest]] = {}
        for request in batch:
            kinds.setdefault(request.serve, []).append(request)
        for serve, requests in kinds.items():
            try:
                outcomes = await serve([request.value for request in requests])
            except Unreachable as error:
                _fail((*batch, *self._waiting), error)
                self._waiting.clear()
                return
            except Exception as error:
                _fail(requests, error)
            except BaseException as error:
                _fail(batch, error)
                raise
            else:
                for request, outcome in zip(requests, outcomes, strict=True):
                    _answer(request.future, outcome)


def rounds(keys: Sequence[Hashable]) -> Iterator[list[int]]:
    """Split requests into rounds without repeated keys, because one statement serves a key once.

    Args:
        keys: The key of each request.

    Returns:
        The indices of the requests in each round, in order of the requests.
    """
    left = list(range(len(keys)))
    while left:
        first: dict[Hashable, int] = {}
        for place in left:
            first.setdefault(keys[place], place)
        chosen = set(first.values())
        yield sorted(chosen)
        left = [place for place in left if place not in chosen]


def _fail(requests: Iterable[_QueuedRequest], error: BaseException) -> None:
    for request in requests:
        if isinstance(error, asyncio.CancelledError):
            request.future.cancel()
        elif isinstance(error, StoreError):
            # each caller gets its own error, with its own traceback
            own = type(error)(str(error), retryable=error.retryable)
            own.__cause__ = error.__cause__
            _answer(request.future, own)
        else:
            _answer(request.future, error)


def _answer(future: asyncio.Future[Any], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
        future.exception()  # a caller that gave up must not cause a warning about an unread error
    else:
        future.set_result(outcome)
