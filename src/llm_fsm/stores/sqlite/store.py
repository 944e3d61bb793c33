"""Conversations in one SQLite file, with the standard library only.

Every turn is one transaction that is on the disk before `save` returns (write-ahead log,
`synchronous=FULL`). One thread owns the connection and commits together what waits together; while it rests, a
conversation that was just written is read in the thread of whoever asks, and a turn is committed there where the
last commits were brief. One writer per conversation holds across processes by operating-system locks (see
`filelock`; on Windows only the version check of `save` stands between two processes). In-process waiters are served
in order; between processes the next one is whoever asks first after the release.

After a fork the child opens its own connection; a `:memory:` database stays with the parent, the child
begins with an empty one.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit, Due, Listed, Loaded, Posted
from llm_fsm.stores.errors import check_appended
from llm_fsm.stores.locks.file_locks import FileLocks, NoLocks, locks_beside
from llm_fsm.stores.locks.local import OneWriter, over
from llm_fsm.stores.locks.queue import Turnstile
from llm_fsm.stores.sqlite import batches
from llm_fsm.stores.sqlite import statements as rows
from llm_fsm.stores.sqlite.connection import Job, Together, Waits, Worker
from llm_fsm.stores.sqlite.lately import Connection
from llm_fsm.stores.sqlite.schema import MEMORY

T = TypeVar("T")

_MANY = 8
"""Conversations under way from which on what they ask is gathered, so that it is served together."""
_WRITTEN = 1024
"""Conversations that are remembered, at most, as written by this process lately."""


class SQLiteStore:
    """A `Store` in the file `path`, or in memory for ":memory:".

    Construction touches nothing; folder and file are made on first use. `busy_timeout` is how long, in
    seconds, a statement waits for other programs that lock the whole database.
    May be used from several event loops and threads.
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
        """Where the conversations are: an absolute path, or ":memory:"."""
        return self._path

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        work = partial(rows.load, conversation_id, request_id)
        parts = self._own()
        if parts.written[hash(conversation_id) % _WRITTEN] == conversation_id and len(parts.turnstile) < _MANY:
            found = parts.worker.at_once(work)
            if not isinstance(found, Waits):
                return found
        return await self._run(work, writes=False, together=batches.load, value=(conversation_id, request_id))

    async def save(self, commit: Commit) -> None:
        check_appended(commit)
        work = partial(rows.save, commit)
        parts = self._own()
        few = len(parts.turnstile) < _MANY
        if not few or isinstance(parts.worker.at_once(work, writes=True), Waits):
            await self._run(work, writes=True, together=batches.save, value=commit)
        self._own().written[hash(commit.conversation_id) % _WRITTEN] = commit.conversation_id

    async def records(self, conversation_id: str, after: int = 0, limit: int | None = None) -> Sequence[str]:
        return await self._run(partial(rows.records, conversation_id, after, limit), writes=False)

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        await self._run(partial(rows.journal, conversation_id, step, text), writes=True)

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        return await self._run(partial(rows.journalled, conversation_id), writes=False)

    async def forget_journal(self, conversation_id: str) -> None:
        await self._run(partial(rows.forget_journal, conversation_id), writes=True)

    def lock(self, conversation_id: str, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        self._own().worker.check_open()
        parts = self._parts
        return OneWriter(self, parts.turnstile, parts.locks, conversation_id, timeout)

    async def list(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        definition: str | None = None,
        state: str | None = None,
        ended: bool | None = None,
    ) -> Sequence[Listed]:
        place = {"after": after or "", "limit": max(limit, 0)}
        wanted = {**place, "definition": definition, "state": state, "ended": ended}
        return await self._run(partial(rows.listed, wanted), writes=False)

    async def definition(self, sha: str) -> str | None:
        return await self._run(partial(rows.definition, sha), writes=False)

    async def due(self, now: float, limit: int = 100, definition: str | None = None) -> Sequence[Due]:
        return await self._run(partial(rows.due, now, limit, definition), writes=False)

    async def outbox(
        self,
        sink: str | None,
        *,
        after: str | None = None,
        limit: int = 100,
        conversation_id: str | None = None,
        definition: str | None = None,
    ) -> Sequence[Posted]:
        place = {"sink": sink, "after": after or "", "limit": max(limit, 0)}
        wanted = {**place, "conversation_id": conversation_id, "definition": definition}
        return await self._run(partial(rows.outbox, wanted), writes=False)

    async def acknowledge(self, posted: Posted) -> None:
        await self._run(partial(rows.acknowledge, posted), writes=True)

    async def delete(self, conversation_id: str) -> bool:
        return await self._run(partial(rows.delete, conversation_id), writes=True)

    async def faults(self) -> Sequence[str]:
        """What is wrong with the file as a whole, in sentences."""
        return await self._run(rows.faults, writes=False)

    async def close(self) -> None:
        """Finish what waits, then free the file. May be called twice."""
        parts = self._own()
        parts.worker.hand_in(asyncio.get_running_loop())
        thread = parts.worker.stop()
        while thread is not None and thread.is_alive():
            await asyncio.sleep(0.001)  # not in an executor's thread: none can be started any more at exit
        parts.locks.close()

    async def _run(
        self,
        work: Callable[[Connection], T],
        *,
        writes: bool,
        together: Together | None = None,
        value: Any = None,
    ) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        parts = self._own()
        alone = len(parts.turnstile) < _MANY
        parts.worker.submit(Job(work, writes, loop, future, together, value), alone=alone)
        try:
            return await future
        except asyncio.CancelledError:
            if writes:
                behind: asyncio.Future[None] = loop.create_future()
                with suppress(StoreError):  # the store was closed, which waits for the worker
                    parts.worker.submit(Job(_nothing, False, loop, behind))
                    await over(behind)
            raise

    def _own(self) -> _Parts:
        """What belongs to this process: neither a thread nor a connection survives a fork."""
        if self._parts.process != os.getpid():
            # SQLite forbids even closing an inherited connection: nothing of it may be freed.
            self._inherited.append(self._parts)
            self._parts = self._new_parts()
        return self._parts

    def _new_parts(self) -> _Parts:
        parts = _Parts(self._path, self._busy_timeout)
        weakref.finalize(self, parts.abandon).atexit = False
        return parts


def _nothing(_: Connection) -> None:
    """A job that is done when all before it are."""


class _Parts:
    """What one process has of a store: the worker, and who may write."""

    __slots__ = ("locks", "process", "turnstile", "worker", "written")

    def __init__(self, path: str, busy_timeout: float) -> None:
        self.process = os.getpid()
        self.worker = Worker(path, busy_timeout)
        self.turnstile = Turnstile()
        self.written = [""] * _WRITTEN
        """What was just written is in memory: reading it keeps an event loop shorter than waking a thread does."""
        self.locks: FileLocks = NoLocks() if path == MEMORY else locks_beside(Path(path))

    def abandon(self) -> None:
        """The store was dropped without `close`: end the thread, close the files, wait for nothing."""
        if self.process == os.getpid():
            self.worker.stop()
            self.locks.close()
