"""One writer per conversation: a queue in the process, then a lock between processes, which is polled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

from llm_fsm.stores.errors import busy
from llm_fsm.stores.locks.file_locks import FileLocks
from llm_fsm.stores.locks.keyed_queue import KeyedQueue

H = TypeVar("H")
T = TypeVar("T")

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05
_FAREWELL = 1.0
"""Seconds to wait until a lock is released. A server that does not answer frees it by itself."""


class LockServer(Protocol[H]):
    """The locks of a server. Each lock has a holder's number or name, which every write sends along."""

    async def take(self, name: str) -> H | None:
        """Take a lock. Return its holder's number or name; None if another writer has it."""

    async def give(self, name: str, holder: H) -> None:
        """Release a lock."""


@asynccontextmanager
async def local_lock(
    _store: object, queue: KeyedQueue, locks: FileLocks, conversation_id: str, timeout: float | None
) -> AsyncIterator[None]:
    """Hold a conversation by a file lock, and keep the store alive, because a dropped store closes its locks."""
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
    """Hold a conversation by a lock of a server. While it is locked, `held` has the holder's number or name."""
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

    A thread or a server finishes a write that it has begun. If the lock were released before, it would write into the
    next writer's turn.
    """
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        while not writing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([writing])
        if not writing.cancelled():
            writing.exception()
        raise


async def _pause(conversation_id: str, asked: float, timeout: float | None) -> None:
    """Wait before polling again, longer each time."""
    waited = time.monotonic() - asked
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
    """Wait shortly until a lock is released, even if cancelled, because the next writer here uses the same name."""
    task = asyncio.ensure_future(giving)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the server frees locks that remain
    deadline = time.monotonic() + _FAREWELL
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (left := deadline - time.monotonic()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
