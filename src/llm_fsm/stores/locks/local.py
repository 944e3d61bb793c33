"""One writer per conversation, for stores that live in files: a queue in the process, a lock between processes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from llm_fsm.stores.errors import busy
from llm_fsm.stores.locks.file_locks import FileLocks
from llm_fsm.stores.locks.queue import Turnstile

T = TypeVar("T")

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


async def finished(writing: asyncio.Future[T]) -> T:
    """Wait for a write; one whose caller is cancelled is over before the cancelling goes on.

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


class OneWriter:
    """`async with`: first the queue of this process, then the lock between processes. For one use.

    `store` is kept alive meanwhile: one that is dropped closes its locks.
    """

    __slots__ = ("_id", "_locks", "_store", "_timeout", "_turnstile")

    def __init__(
        self,
        store: object,
        turnstile: Turnstile,
        locks: FileLocks,
        conversation_id: str,
        timeout: float | None,
    ) -> None:
        self._store = store
        self._turnstile = turnstile
        self._locks = locks
        self._id = conversation_id
        self._timeout = timeout

    async def __aenter__(self) -> None:
        asked = time.monotonic()
        if not self._turnstile.take(self._id):
            await self._turnstile.acquire(self._id, self._timeout)
        try:
            if not self._locks.take(self._id):
                await self._poll(asked)
        except BaseException:  # a cancelled waiter gives its place in the process back
            self._turnstile.release(self._id)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._locks.give(self._id)
        finally:
            self._turnstile.release(self._id)

    async def _poll(self, asked: float) -> None:
        pause = _FIRST_PAUSE
        while not self._locks.take(self._id):
            waited = time.monotonic() - asked
            left = pause if self._timeout is None else self._timeout - waited
            if left <= 0:
                raise busy(self._id, waited, " in another process")
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
