"""One thread for the blocking calls of a store, made in order of asking."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from llm_fsm.stores.errors import closed

T = TypeVar("T")
_Call = tuple[Callable[[], Any], asyncio.AbstractEventLoop, asyncio.Future[Any]]


class WorkerThread:
    """A daemon thread for callers in any number of event loops; it starts with the first call.

    The threads of an executor cannot be used while the interpreter ends, when machines that nobody closed are closed.
    """

    def __init__(self, name: str, place: str) -> None:
        self._name = name
        self._place = place
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self.is_stopped = False
        self._last: Callable[[], object] | None = None

    def call(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call a function in the thread, also when the caller is cancelled meanwhile.

        Raises:
            StoreError: The thread was stopped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._guard:
            self.check_running()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._calls.put((function, loop, future))
        return future

    def check_running(self) -> None:
        """Raise StoreError after `stop`."""
        if self.is_stopped:
            raise closed(self._place)

    def stop(self, last: Callable[[], object]) -> None:
        """End the thread after the calls that wait and a last one; may be called twice."""
        with self._guard:
            if not self.is_stopped:
                self.is_stopped = True
                self._last = last
                self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, loop, future = call
            value: Any = None
            error: Exception | None = None
            try:
                value = function()
            except Exception as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, future, value, error)
            except RuntimeError:  # the loop is closed: nobody waits there any more
                pass
            del call, function, future, value, error  # a dropped store must not stay alive until the next call
        if self._last is not None:
            self._last()


def _settle(future: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)
