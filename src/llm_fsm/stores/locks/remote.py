"""One writer per conversation, for stores behind a server: a queue in the process, a lock that the server keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from llm_fsm.stores.errors import busy
from llm_fsm.stores.locks.queue import Turnstile

H = TypeVar("H")
T = TypeVar("T")

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05
_FAREWELL = 1.0
"""Seconds to wait until a lock is given back; a server that does not answer frees it by itself."""


class Door(Protocol[H]):
    """What takes and gives locks; a lock is held under a number or name that every write brings along."""

    async def take(self, name: str) -> H | None:
        """What the lock is held under; None where somebody else has it."""

    async def give(self, name: str, holder: H) -> None:
        """Give a lock back."""


class RemoteWriter(Generic[H]):
    """`async with`: first the queue of this process, then the lock between processes. For one use.

    While it is held, `held` tells under what.
    """

    __slots__ = ("_door", "_held", "_id", "_opened", "_timeout", "_turnstile")

    def __init__(
        self,
        door: Callable[[], Door[H]],
        turnstile: Turnstile,
        held: dict[str, H],
        conversation_id: str,
        timeout: float | None,
    ) -> None:
        self._door = door
        self._turnstile = turnstile
        self._held = held
        self._id = conversation_id
        self._timeout = timeout
        self._opened: Door[H] | None = None

    async def __aenter__(self) -> None:
        asked = time.monotonic()
        self._opened = self._door()
        await self._turnstile.acquire(self._id, self._timeout)
        try:
            self._held[self._id] = await self._take(self._opened, asked)
        except BaseException:  # a cancelled waiter gives its place in the process back
            self._turnstile.release(self._id)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holder = self._held.pop(self._id, None)
        try:
            if holder is not None and self._opened is not None:
                giving = asyncio.ensure_future(self._opened.give(self._id, holder))
                await _through(giving)
        finally:
            self._turnstile.release(self._id)

    async def _take(self, door: Door[H], asked: float) -> H:
        pause = _FIRST_PAUSE
        while True:
            taking = asyncio.ensure_future(door.take(self._id))
            try:
                holder = await asyncio.shield(taking)
            except asyncio.CancelledError:  # the server may still grant it
                await _through(asyncio.ensure_future(_give_back(door, self._id, taking)))
                raise
            if holder is not None:
                return holder
            waited = time.monotonic() - asked
            left = pause if self._timeout is None else self._timeout - waited
            if left <= 0:
                raise busy(self._id, waited, " in another process")
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)


async def _give_back(door: Door[H], name: str, taking: asyncio.Future[H | None]) -> None:
    holder = await taking
    if holder is not None:
        await door.give(name, holder)


async def _through(giving: asyncio.Future[None]) -> None:
    """Wait for it, not for long, whoever cancels meanwhile: the next one of this process holds under the same name."""
    giving.add_done_callback(_unheard)
    deadline = time.monotonic() + _FAREWELL
    cancelled: asyncio.CancelledError | None = None
    while not giving.done() and (left := deadline - time.monotonic()) > 0:
        try:
            await asyncio.wait([giving], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _unheard(giving: asyncio.Future[None]) -> None:
    """A lock that could not be given back is freed by the server; nobody is to be told."""
    if not giving.cancelled():
        giving.exception()
