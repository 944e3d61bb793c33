"""Connections of a store to its server, separate for each event loop and process."""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from llm_fsm._json import JsonDict
from llm_fsm.stores.errors import closed
from llm_fsm.stores.locks.conversation_lock import KeyedQueue, LockServer, remote_lock


class Parts(LockServer[Any], Protocol):
    """Connections of one event loop, and the locks that they hold."""

    async def close(self) -> None:
        """Close them."""

    def drop(self) -> None:
        """Free connections that cannot be closed any more, because the event loop is closed."""


P = TypeVar("P", bound=Parts)


class PerLoop(ABC, Generic[P]):
    """The part of a store that makes, finds and closes connections."""

    place: str
    """The server, without its password."""

    def __init__(self) -> None:
        self._queue = KeyedQueue()
        self._held: JsonDict = {}
        self._parts: dict[asyncio.AbstractEventLoop, P] = {}
        self._inherited: list[Any] = []
        self._process = os.getpid()
        self._closed = False

    @abstractmethod
    def _new_parts(self) -> P:
        """Make the connections of a new event loop."""

    def lock(
        self, conversation_id: str, timeout: float | None = None
    ) -> AbstractAsyncContextManager[None]:
        self._check_open()
        return remote_lock(self._own, self._queue, self._held, conversation_id, timeout)

    async def close(self) -> None:
        """Finish waiting requests, then close the connections of this event loop. May be called
        twice.
        """
        self._closed = True
        parts = self._parts.pop(asyncio.get_running_loop(), None)
        if parts is not None and self._process == os.getpid():
            await parts.close()

    def _check_open(self) -> None:
        if self._closed:
            raise closed(self.place)

    def _own(self) -> P:
        """Find the parts of this process and event loop."""
        self._check_open()
        if self._process != os.getpid():
            # closing them would end the parent's connections
            self._inherited.append(dict(self._parts))
            self._parts.clear()
            self._held.clear()
            self._queue = KeyedQueue()
            self._process = os.getpid()
        loop = asyncio.get_running_loop()
        parts = self._parts.get(loop)
        if parts is None:
            # A closed event loop cannot close its connections, so they are freed here.
            for other in [other for other in self._parts if other.is_closed()]:
                self._parts.pop(other).drop()
            parts = self._parts[loop] = self._new_parts()
        return parts
