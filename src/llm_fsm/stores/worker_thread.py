"""One thread for the blocking calls of a store. It serves all waiting calls of a kind together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from llm_fsm.stores.errors import closed

T = TypeVar("T")

Serve = Callable[[Sequence[Any]], Sequence[Any]]
"""Serves all values of one kind, and returns an outcome for each. An Exception is raised to its caller."""

_MOST = 1024
"""The most requests that are served together."""


class _Request(NamedTuple):
    serve: Serve
    value: Any
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class WorkerThread:
    """A daemon thread for callers in any number of event loops. It starts with the first call.

    It replaces an executor, whose threads cannot be used at interpreter exit, when unclosed machines are closed.
    """

    def __init__(self, name: str, place: str) -> None:
        self._name = name
        self._place = place
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self.is_stopped = False
        self._last: Callable[[], object] | None = None

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call a function in the thread, even if the caller is cancelled.

        Raises:
            StoreError: The thread was stopped.
        """
        return self.ask(_call_each, function)

    def ask(self, serve: Serve, value: Any) -> asyncio.Future[Any]:
        """Serve a value in the thread, together with others that wait for the same function.

        Raises:
            StoreError: The thread was stopped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._guard:
            self.check_running()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._requests.put(_Request(serve, value, loop, future))
        return future

    def check_running(self) -> None:
        """Raise StoreError after `stop`."""
        if self.is_stopped:
            raise closed(self._place)

    def stop(self, last: Callable[[], object]) -> None:
        """End the thread after the waiting calls and a last one. May be called twice."""
        with self._guard:
            if not self.is_stopped:
                self.is_stopped = True
                self._last = last
                self._requests.put(None)

    def _run(self) -> None:
        while self._serve_waiting():
            pass
        if self._last is not None:
            self._last()

    def _serve_waiting(self) -> bool:
        """Serve waiting calls, or wait for one. Return false after `stop`."""
        taken = [self._requests.get()]
        while taken[-1] is not None and len(taken) < _MOST and not self._requests.empty():
            taken.append(self._requests.get())
        kinds: dict[Serve, list[_Request]] = {}
        for request in taken:
            if request is not None:
                kinds.setdefault(request.serve, []).append(request)
        for serve, requests in kinds.items():
            _serve(serve, requests)
        return taken[-1] is not None


def _serve(serve: Serve, requests: Sequence[_Request]) -> None:
    try:
        outcomes = serve([request.value for request in requests])
    except Exception as error:
        outcomes = [error] * len(requests)
    settled: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for request, outcome in zip(requests, outcomes, strict=True):
        settled.setdefault(request.loop, []).append((request.future, outcome))
    for loop, pairs in settled.items():
        with suppress(RuntimeError):  # the loop is closed, so nobody waits there any more
            loop.call_soon_threadsafe(_settle, pairs)


def _settle(pairs: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, outcome in pairs:
        if not future.done():
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


def _call_each(functions: Sequence[Callable[[], Any]]) -> Sequence[Any]:
    outcomes: list[Any] = []
    for function in functions:
        try:
            outcomes.append(function())
        except Exception as error:
            outcomes.append(error)
    return outcomes
