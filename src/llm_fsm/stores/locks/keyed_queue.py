"""One holder per key at a time, in order of requests, across tasks, event loops and threads of a process.

A key is taken while it is in the table; its queue holds the waiters. Releasing hands the key directly to the first in
the queue, so that nobody can overtake, and wakes it on its own event loop.

The guard is an RLock, because the garbage collector may close a forgotten coroutine at any line of the thread that
holds the guard. That releases the coroutine's key. Only `_enqueue` and `release` are affected, and their comments say
why they stay correct.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from llm_fsm.stores.errors import busy


class _Waiter(asyncio.Future[None]):
    granted = False
    """Becomes true, under the guard, when the key has been handed over."""


class KeyedQueue:
    """Locks by name. A name costs nothing while nobody holds or wants it."""

    __slots__ = ("_guard", "_queues")

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._queues: dict[str, deque[_Waiter]] = {}

    def __len__(self) -> int:
        """Return the number of keys that are held."""
        return len(self._queues)

    @asynccontextmanager
    async def lock(self, key: str, timeout: float | None = None) -> AsyncIterator[None]:
        """Hold `key`. Waits at most `timeout` seconds (None: for ever), then raises StoreError(retryable=True)."""
        await self.acquire(key, timeout)
        try:
            yield
        finally:
            self.release(key)

    def take(self, key: str) -> bool:
        """Take `key` without waiting; return false if it is held."""
        mine: deque[_Waiter] = deque()
        return self._queues.setdefault(key, mine) is mine  # atomic, so it needs no guard

    async def acquire(self, key: str, timeout: float | None = None) -> None:
        """Take `key`, waiting at most `timeout` seconds. Call `release` once after each success."""
        if self.take(key):
            return
        asked = time.monotonic()
        waiter = _Waiter()
        if not self._enqueue(key, waiter):
            return
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except BaseException as error:  # a waiter that gives up leaves the queue, or returns its key
            if not self._withdraw(key, waiter):
                self.release(key)
            if isinstance(error, TimeoutError):
                raise busy(key, time.monotonic() - asked) from None
            raise

    def release(self, key: str) -> None:
        """Hand `key` to the next in the queue, or free it. May be called from any thread."""
        with self._guard:
            queue = self._queues[key]
            while True:
                if not queue:
                    del self._queues[key]
                    return
                # A collected waiter may leave the queue between this check and the `popleft`.
                try:
                    waiter = queue.popleft()
                except IndexError:
                    continue
                try:
                    waiter.get_loop().call_soon_threadsafe(_wake, waiter)
                except RuntimeError:  # its event loop is closed, so nobody waits there any more
                    continue
                waiter.granted = True
                return

    def _enqueue(self, key: str, waiter: _Waiter) -> bool:
        """Enter the queue for `key`; return false if the key was free and is taken now."""
        with self._guard:
            while True:
                queue = self._queues.get(key)
                if queue is None:
                    if self.take(key):
                        return False
                    continue
                queue.append(waiter)
                # The key may have been freed, with an empty queue, just before the append.
                if self._queues.get(key) is queue:
                    return True

    def _withdraw(self, key: str, waiter: _Waiter) -> bool:
        """Leave the queue; return false if the key has been handed over already."""
        with self._guard:
            if waiter.granted:
                return False
            queue = self._queues.get(key)
            if queue is not None and waiter in queue:
                queue.remove(waiter)
            return True


def _wake(waiter: _Waiter) -> None:
    if not waiter.done():
        waiter.set_result(None)
