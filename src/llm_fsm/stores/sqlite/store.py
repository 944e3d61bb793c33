"""Conversations in one SQLite file, with the standard library only.

Every turn is one transaction that is on the disk before `save` returns (write-ahead log, `synchronous=FULL`). One
thread owns the connection and commits waiting turns together. Operating-system locks ensure one writer per conversation
across processes (see `locks.file_locks`). On Windows, only the version check of `save` protects against a second
process. Waiters of one process are served in order. Between processes, the first that asks after the release is next.

After a fork, the child opens its own connection. A `:memory:` database stays with the parent, and the child begins with
an empty one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from llm_fsm.stores.base import Commit, Loaded
from llm_fsm.stores.errors import check_appended
from llm_fsm.stores.forwarding import ForwardingStore
from llm_fsm.stores.locks.conversation_lock import finished, local_lock
from llm_fsm.stores.locks.file_locks import FileLocks, NoLocks, locks_beside
from llm_fsm.stores.locks.keyed_queue import KeyedQueue
from llm_fsm.stores.sqlite.connection import Database
from llm_fsm.stores.sqlite.schema import MEMORY
from llm_fsm.stores.sqlite.statements import Rows, each, load, save
from llm_fsm.stores.worker_thread import WorkerThread

T = TypeVar("T")


class SQLiteStore(ForwardingStore):
    """A `Store` in the file `path`, or in memory for ":memory:".

    Construction touches nothing. Folder and file are made on first use. `busy_timeout`: seconds that a statement waits
    for other programs that lock the whole database. May be used from several event loops and threads.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 5.0) -> None:
        place = os.fspath(path)
        if "\0" in place:
            raise ValueError("the path of an SQLite store cannot contain a NUL character")
        self._path = place if place == MEMORY else os.path.abspath(place)
        self._busy_timeout = busy_timeout
        self._inherited: list[_Parts] = []
        self._parts = self._new_parts()

    @property
    def path(self) -> str:
        """The absolute path of the file, or ":memory:"."""
        return self._path

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        parts = self._own()
        return await parts.thread.ask(parts.load, (conversation_id, request_id))  # type: ignore[no-any-return]

    async def save(self, commit: Commit) -> None:
        check_appended(commit)
        parts = self._own()
        await finished(parts.thread.ask(parts.save, commit))

    def lock(self, conversation_id: str, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        parts = self._own()
        parts.thread.check_running()
        return local_lock(self, parts.queue, parts.locks, conversation_id, timeout)

    async def faults(self) -> Sequence[str]:
        """Find faults of the file as a whole, in sentences."""
        return await self._read(Rows.faults)

    async def close(self) -> None:
        """Finish waiting requests, then free the file. May be called twice."""
        await self._own().close()

    async def _read(self, work: Callable[[Any], T]) -> T:
        parts = self._own()
        return await finished(parts.thread.ask(parts.read, work))

    async def _write(self, work: Callable[[Any], T]) -> T:
        parts = self._own()
        return await finished(parts.thread.ask(parts.write, work))

    def _own(self) -> _Parts:
        """Return the parts of this process, because neither a thread nor a connection survives a fork."""
        if self._parts.process != os.getpid():
            # SQLite forbids even closing an inherited connection, so nothing of it may be freed.
            self._inherited.append(self._parts)
            self._parts = self._new_parts()
        return self._parts

    def _new_parts(self) -> _Parts:
        parts = _Parts(self._path, self._busy_timeout)
        weakref.finalize(self, parts.abandon).atexit = False
        return parts


class _Parts:
    """The parts of a store that belong to one process."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self.process = os.getpid()
        self.thread = WorkerThread("llm-fsm-sqlite", path)
        self.queue = KeyedQueue()
        self.locks: FileLocks = NoLocks() if path == MEMORY else locks_beside(Path(path))
        self._database = Database(path, busy_timeout)
        self.load = partial(self._database.serve, load, writes=False)
        self.save = partial(self._database.serve, save, writes=True)
        self.read = partial(self._database.serve, each, writes=False)
        self.write = partial(self._database.serve, each, writes=True)

    async def close(self) -> None:
        """Finish waiting requests, then close the connection and the locks."""
        if not self.thread.is_stopped:
            await self.thread.call(self._database.close)
        self.abandon()

    def abandon(self) -> None:
        """End the thread and close the locks, without waiting, after the store was dropped without `close`."""
        if self.process == os.getpid():
            self.thread.stop(self._database.close)
            self.locks.close()
