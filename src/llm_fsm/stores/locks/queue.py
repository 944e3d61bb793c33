"""One writer per key at a time, in order of asking, across tasks, event loops and threads of a process.

A key is taken while it is in the table; its queue holds those who wait. Releasing hands the key directly
to the first in the queue, so nobody can overtake, and wakes it on its own event loop.

The guard is an RLock, because the garbage collector may close a forgotten coroutine (which gives its key
back) at any line of the thread that holds the guard. Only `_enqueue` and `release` are exposed to that;
each says how it stays right.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from types import TracebackType

from llm_fsm.stores.errors import busy


class _Waiter:
    """One in the queue. `granted` turns true, under the guard, when the key has been handed over."""

    __slots__ = ("future", "granted", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[bool] = self.loop.create_future()
        self.granted = False

    def resolve(self, granted: bool) -> None:
        if not self.future.done():
            self.future.set_result(granted)


class Turnstile:
    """Locks by name; a name costs nothing while nobody holds or wants it."""

    __slots__ = ("_guard", "_queues")

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._queues: dict[str, deque[_Waiter]] = {}

    def __len__(self) -> int:
        """How many keys are held at the moment."""
        return len(self._queues)

    def lock(self, key: str, timeout: float | None = None) -> Passage:
        """Hold `key` for the length of an `async with`.

        Waits at most `timeout` seconds (None: for ever), then raises StoreError(retryable=True).
        """
        return Passage(self, key, timeout)

    def take(self, key: str) -> bool:
        """Take `key` if it is free, without waiting; False when somebody has it."""
        mine: deque[_Waiter] = deque()
        return self._queues.setdefault(key, mine) is mine  # one step for all threads, so it needs no guard

    async def acquire(self, key: str, timeout: float | None = None) -> None:
        """Take `key`, waiting at most `timeout` seconds; every success is followed by one `release`."""
        if self.take(key):
            return
        waiter = _Waiter()
        if self._enqueue(key, waiter):
            await self._wait(key, waiter, timeout)

    def release(self, key: str) -> None:
        """Hand `key` to the next in the queue, or free it. May be called from any thread."""
        with self._guard:
            queue = self._queues[key]
            while True:
                if not queue:
                    del self._queues[key]
                    return
                # A collected waiter may leave the queue between this look and the `popleft`.
                try:
                    waiter = queue.popleft()
                except IndexError:
                    continue
                try:
                    waiter.loop.call_soon_threadsafe(waiter.resolve, True)
                except RuntimeError:  # its event loop is closed, so nobody waits there any more
                    continue
                waiter.granted = True
                return

    def _enqueue(self, key: str, waiter: _Waiter) -> bool:
        """Queue up for `key`; False when it was free and is taken now, without waiting."""
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

    async def _wait(self, key: str, waiter: _Waiter, timeout: float | None) -> None:
        loop = waiter.loop
        asked = loop.time()
        timer = None if timeout is None else loop.call_later(timeout, self._expire, key, waiter)
        try:
            granted = await waiter.future
        except BaseException:  # a cancelled waiter must neither stay in line nor keep the turn it just got
            if not self._withdraw(key, waiter):
                self.release(key)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if not granted:
            raise busy(key, loop.time() - asked)

    def _expire(self, key: str, waiter: _Waiter) -> None:
        if self._withdraw(key, waiter):
            waiter.resolve(False)

    def _withdraw(self, key: str, waiter: _Waiter) -> bool:
        """Leave the queue; False when the key has been handed over already."""
        with self._guard:
            if waiter.granted:
                return False
            queue = self._queues.get(key)
            if queue is not None and waiter in queue:
                queue.remove(waiter)
            return True


class Passage:
    """`async with` around one acquire and release. For one use."""

    __slots__ = ("_key", "_timeout", "_turnstile")

    def __init__(self, turnstile: Turnstile, key: str, timeout: float | None) -> None:
        self._turnstile = turnstile
        self._key = key
        self._timeout = timeout

    async def __aenter__(self) -> None:
        if not self._turnstile.take(self._key):
            await self._turnstile.acquire(self._key, self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turnstile.release(self._key)
