"""Conversations in MongoDB (pymongo). It is tested only with mongomock, not with a server.

A turn is one document, written completely or not at all. So neither transactions nor a replica set
are needed. A turn may only follow the newest document of its conversation. After a broken
connection, the commit is searched before it counts as lost. Writes ask for a majority and the
journal on disk. `documents` has the collections.

A lock is a document with a lease, which is renewed while it is held. The clocks of all hosts must
agree to within a fraction of the lease. Every write checks that the lock is still its own.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from operator import methodcaller
from typing import Any, TypeVar

from pymongo import MongoClient
from pymongo import errors as faults

from llm_fsm.errors import ConfigurationError, StoreError
from llm_fsm.stores.errors import closed
from llm_fsm.stores.forwarding import ForwardingStore, Work
from llm_fsm.stores.locks.conversation_lock import KeyedQueue, finished, remote_lock
from llm_fsm.stores.mongodb.documents import Documents
from llm_fsm.stores.mongodb.errors import fault, place_of

T = TypeVar("T")
_THREADS = 16


class MongoDBStore(ForwardingStore):
    """A `Store` in the database that `url` names (`llm_fsm` if it names none).

    `timeout`: seconds after which a command without an answer is given up. `lease`: seconds after
    which the locks of a dead process are free. `client` makes the connection, for tests without
    pymongo's. May be used from several event loops and threads. Raises ConfigurationError for a URL
    that pymongo does not understand.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = 10.0,
        lease: float = 5.0,
        client: Callable[[], Any] | None = None,
    ) -> None:
        self._url = url
        self._timeout = timeout
        self._lease = lease
        self._make = client or self._connect
        self.place, self._database = place_of(url)
        self._queue = KeyedQueue()
        self._held: dict[str, str] = {}
        self._closed = False
        self._inherited: list[_MongoParts] = []
        try:
            self._parts = _MongoParts(self)
        except (faults.PyMongoError, ValueError, TypeError) as error:
            raise ConfigurationError(
                "this is no URL of a MongoDB server; for example mongodb://localhost:27017/bots"
            ) from error

    def lock(
        self, conversation_id: str, timeout: float | None = None
    ) -> AbstractAsyncContextManager[None]:
        self._own()
        return remote_lock(lambda: self, self._queue, self._held, conversation_id, timeout)

    async def take(self, name: str) -> str | None:
        """Take the lock of a conversation if it is free, and return its holder; see
        `conversation_lock.LockServer`.
        """
        parts = self._own()
        if not await self._read(lambda kept: kept.take(name, parts.holder, self._lease)):
            return None
        parts.locked.add(name)
        if parts.renewing is None:
            parts.renewing = asyncio.create_task(self._renew(parts))
        return parts.holder

    async def give(self, name: str, holder: str) -> None:
        """Release a lock."""
        # Before it is released, so that no renewal takes it up again.
        self._parts.locked.discard(name)
        await self._read(lambda kept: kept.give(name, holder))

    async def close(self) -> None:
        """Finish waiting requests, then close the connections. May be called twice."""
        self._closed = True
        parts = self._parts
        if parts.process == os.getpid():
            if parts.renewing is not None:
                parts.renewing.cancel()
            parts.threads.shutdown()
            parts.client.close()

    async def _renew(self, parts: _MongoParts) -> None:
        """Renew locks while they are held."""
        try:
            while parts.locked and not self._closed:
                # Two renewals may fail before the lease ends.
                await asyncio.sleep(self._lease / 3)
                names = [*parts.locked]
                with suppress(StoreError):
                    await self._read(methodcaller("renew", parts.holder, names, self._lease))
        finally:
            parts.renewing = None

    async def _write(self, work: Work[T]) -> T:
        return await finished(asyncio.ensure_future(self._read(work)))

    async def _read(self, work: Work[T]) -> T:
        parts = self._own()

        def run() -> T:
            try:
                return work(parts.kept)
            except faults.PyMongoError as error:
                raise fault(self.place, error) from error

        return await asyncio.get_running_loop().run_in_executor(parts.threads, run)

    def _own(self) -> _MongoParts:
        """Return the parts of this process, because connections and threads do not survive a fork."""
        if self._closed:
            raise closed(self.place)
        if self._parts.process != os.getpid():
            # Kept, not closed: closing would end the connections of the parent.
            self._inherited.append(self._parts)
            self._queue = KeyedQueue()
            self._held.clear()
            self._parts = _MongoParts(self)
        return self._parts

    def _connect(self) -> Any:
        milliseconds = round(self._timeout * 1000)
        return MongoClient(
            self._url,
            connect=False,
            # A turn is saved when no failover can undo it.
            w="majority",
            journal=True,
            readConcernLevel="majority",
            serverSelectionTimeoutMS=milliseconds,
            connectTimeoutMS=milliseconds,
            timeoutMS=milliseconds,
            appname="llm-fsm",
        )


class _MongoParts:
    """The parts of a store that belong to one process."""

    def __init__(self, store: MongoDBStore) -> None:
        self.process = os.getpid()
        self.holder = uuid.uuid4().hex
        self.client = store._make()
        self.kept = Documents(self.client[store._database], store._held)
        self.threads = ThreadPoolExecutor(_THREADS, "llm-fsm-mongodb")
        self.locked: set[str] = set()
        self.renewing: asyncio.Task[None] | None = None
