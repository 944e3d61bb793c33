"""One writer per conversation: a queue in the process, then a lock between processes, which is asked for again."""

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
"""Seconds to wait until a lock is given back; a server that does not answer frees it by itself."""


class LockServer(Protocol[H]):
    """The locks of a server; each is held under a number or name, which every write brings along."""

    async def take(self, name: str) -> H | None:
        """Take a lock. Returns the number or name that holds it; None where somebody else has it."""

    async def give(self, name: str, holder: H) -> None:
        """Give a lock back."""


@asynccontextmanager
async def local_lock(
    _store: object, queue: KeyedQueue, locks: FileLocks, conversation_id: str, timeout: float | None
) -> AsyncIterator[None]:
    """Hold a conversation by a file lock, and keep the store alive: one that is dropped closes its locks."""
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
    """Hold a conversation by a lock that a server keeps; `held` tells meanwhile under which number or name."""
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
    """Wait for a write; when the caller is cancelled, the write ends before the cancelling goes on.

    A thread or a server goes on with a write that it has begun. A lock that was given back before would let it write
    into the turn of the next one.
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
    """Wait before asking again: longer, the longer it lasts."""
    waited = time.monotonic() - asked
    pause = min(max(waited, _FIRST_PAUSE), _LONGEST_PAUSE)
    if timeout is not None and waited >= timeout:
        raise busy(conversation_id, waited, " in another process")
    await asyncio.sleep(pause if timeout is None else min(pause, timeout - waited))


async def _taken(locks: LockServer[H], name: str) -> H | None:
    taking = asyncio.ensure_future(locks.take(name))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:  # the server may still grant it
        await _through(_given_back(locks, name, taking))
        raise


async def _given_back(locks: LockServer[H], name: str, taking: asyncio.Future[H | None]) -> None:
    holder = await taking
    if holder is not None:
        await locks.give(name, holder)


async def _through(giving: Awaitable[None]) -> None:
    """Wait for a lock to be given back, not for long, also when cancelled: the next one here holds by the same name."""
    task = asyncio.ensure_future(giving)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # the server frees what stays locked
    deadline = time.monotonic() + _FAREWELL
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (left := deadline - time.monotonic()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
