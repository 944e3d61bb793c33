"""One writer per conversation: a queue in the process, then a lock between processes, which is
polled.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

from llm_fsm.stores.errors import busy
from llm_fsm.stores.locks.file_locks import FileLocks

H = TypeVar("H")
T = TypeVar("T")

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05
_FAREWELL = 1.0
"""Seconds to wait until a lock is released. A server that does not answer frees it by itself."""


class _Waiter(asyncio.Future[None]):
    granted = False
    """Becomes true, under the guard, when the key has been handed over."""


class KeyedQueue:
    """One holder per key at a time, in order of requests, across tasks, event loops and threads of
    a process.

    A key is taken while it is in the table. Its queue holds the waiters, and costs nothing while
    nobody wants the key. Releasing gives the key directly to the first waiter, so that nobody can
    overtake. It wakes the waiter on its own event loop.
    """

    # The guard is an RLock, because the garbage collector may close a forgotten coroutine, which
    # releases its key, at any line of the thread that holds the guard. Only `_enqueue` and
    # `release` must handle that.

    __slots__ = ("_guard", "_queues")

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._queues: dict[str, deque[_Waiter]] = {}

    def __len__(self) -> int:
        """Return the number of keys that are held."""
        return len(self._queues)

    def holds(self, key: str) -> bool:
        """Return true if `key` is held in this process."""
        return key in self._queues

    @asynccontextmanager
    async def lock(self, key: str, timeout: float | None = None) -> AsyncIterator[None]:
        """Hold `key`. Waits at most `timeout` seconds (None: for ever), then raises
        StoreError(retryable=True).
        """
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
        except BaseException as error:
            # a waiter that gives up leaves the queue, or returns its key
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


class LockServer(Protocol[H]):
    """The locks of a server. Each lock has a holder's number or name, which every write sends
    along.
    """

    async def take(self, name: str) -> H | None:
        """Take a lock. Return its holder's number or name; None if another writer has it."""

    async def give(self, name: str, holder: H) -> None:
        """Release a lock."""


@asynccontextmanager
async def local_lock(
    _store: object, queue: KeyedQueue, locks: FileLocks, conversation_id: str, timeout: float | None
) -> AsyncIterator[None]:
    """Hold a conversation by a file lock, and keep the store alive, because a dropped store closes
    its locks.
    """
    asked = time.monotonic()
    async with queue.lock(conversation_id, timeout):
        while not locks.take(conversation_id):
            await _pause(conversation_id, asked, timeout)
        try:
            yield
        finally:
            locks.give(conversation_id)


@asynccontextmanager
async def remote_lock(
    server: Callable[[], LockServer[H]],
    queue: KeyedQueue,
    held: dict[str, H],
    conversation_id: str,
    timeout: float | None,
) -> AsyncIterator[None]:
    """Hold a conversation by a lock of a server. While it is locked, `held` has the holder's number
    or name.
    """
    asked = time.monotonic()
    locks = server()
    async with queue.lock(conversation_id, timeout):
        while (holder := await _taken(locks, conversation_id)) is None:
            await _pause(conversation_id, asked, timeout)
        held[conversation_id] = holder
        try:
            yield
        finally:
            del held[conversation_id]
            await _through(locks.give(conversation_id, holder))


async def finished(writing: asyncio.Future[T]) -> T:
    """Wait for a write. If the caller is cancelled, the write ends first.

    A thread or a server finishes a write that it has begun. If the lock were released before, it
    would write into the next writer's turn.
    """
    # The write goes on in its thread or on its server, whatever happens to the caller.
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        # A caller may be cancelled more than once. None of that may free the lock early.
        while not writing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
        if not writing.cancelled():
            writing.exception()
        raise


async def _pause(conversation_id: str, asked: float, timeout: float | None) -> None:
    """Wait before polling again, longer each time."""
    waited = time.monotonic() - asked
    # As long as the wait so far: short waits are noticed at once, long ones cost little.
    pause = min(max(waited, _FIRST_PAUSE), _LONGEST_PAUSE)
    if timeout is not None and waited >= timeout:
        raise busy(conversation_id, waited, " in another process")
    await asyncio.sleep(pause if timeout is None else min(pause, timeout - waited))


async def _taken(locks: LockServer[H], name: str) -> H | None:
    taking = asyncio.ensure_future(locks.take(name))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:  # the server may still grant the lock
        await _through(_given_back(locks, name, taking))
        raise


async def _given_back(locks: LockServer[H], name: str, taking: asyncio.Future[H | None]) -> None:
    holder = await taking
    if holder is not None:
        await locks.give(name, holder)


async def _through(giving: Awaitable[None]) -> None:
    """Wait shortly until a lock is released, even if cancelled, because the next writer here uses
    the same name.
    """
    task = asyncio.ensure_future(giving)
    # the server frees locks that remain
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    deadline = time.monotonic() + _FAREWELL
    cancelled = None
    while not task.done() and (left := deadline - time.monotonic()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
