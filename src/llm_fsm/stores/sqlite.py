"""Conversations in one SQLite file, with the standard library only.

Every turn is one transaction that is on the disk before `save` returns (write-ahead log,
`synchronous=FULL`). One thread owns the connection and commits together what waits together. One writer per
conversation holds across processes by operating-system locks (see `filelock`; on Windows only the version
check of `save` stands between two processes). In-process waiters are served in order; between processes the
next one is whoever asks first after the release.

After a fork the child opens its own connection; a `:memory:` database stays with the parent, the child
begins with an empty one.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from llm_fsm.stores.base import Commit, Due, Listed, Loaded
from llm_fsm.stores.conflict import answered_already, step_exists, wrong_version
from llm_fsm.stores.filelock import FileLocks, NoLocks, locks_beside
from llm_fsm.stores.sqlite_file import MEMORY
from llm_fsm.stores.sqlite_worker import Job, Worker
from llm_fsm.stores.turnstile import Turnstile, busy

T = TypeVar("T")

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05

_LOAD = "SELECT session, version, NULL FROM conversations WHERE id = ?"
_LOAD_WITH_REQUEST = """SELECT session, version,
    (SELECT record FROM inbox JOIN records USING (conversation, number)
     WHERE inbox.conversation = conversations.id AND request_id = ?)
    FROM conversations WHERE id = ?"""
_CREATE = """INSERT INTO conversations (session, definition, state, ended, updated, id, version, created)
    VALUES (?, ?, ?, ?, ?, ?, 1, ?) ON CONFLICT DO NOTHING"""
_UPDATE = """UPDATE conversations SET session = ?, definition = ?, state = ?, ended = ?, updated = ?,
    version = version + 1 WHERE id = ? AND version = ?"""


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
        """See `Store.load`."""
        return await self._run(partial(_load, conversation_id, request_id), writes=False)

    async def save(self, commit: Commit) -> None:
        """See `Store.save`."""
        await self._run(partial(_save, commit), writes=True)

    async def records(self, conversation_id: str, after: int = 0, limit: int | None = None) -> Sequence[str]:
        """See `Store.records`."""
        return await self._run(partial(_records, conversation_id, after, limit), writes=False)

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        """See `Store.journal`."""
        await self._run(partial(_journal, conversation_id, step, text), writes=True)

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        """See `Store.journalled`."""
        return await self._run(partial(_journalled, conversation_id), writes=False)

    async def forget_journal(self, conversation_id: str) -> None:
        """See `Store.forget_journal`."""
        await self._run(partial(_forget_journal, conversation_id), writes=True)

    def lock(self, conversation_id: str, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        """See `Store.lock`."""
        self._own().worker.check_open()
        return _OneWriter(self, self._parts, conversation_id, timeout)

    async def list(self, after: str | None = None, limit: int = 100) -> Sequence[Listed]:
        """See `Store.list`."""
        return await self._run(partial(_list, after, limit), writes=False)

    async def due(self, now: float, limit: int = 100, definition: str | None = None) -> Sequence[Due]:
        """See `Store.due`."""
        return await self._run(partial(_due, now, limit, definition), writes=False)

    async def delete(self, conversation_id: str) -> bool:
        """See `Store.delete`."""
        return await self._run(partial(_delete, conversation_id), writes=True)

    async def close(self) -> None:
        """Finish what waits, then free the file. May be called twice."""
        parts = self._own()
        thread = parts.worker.stop()
        while thread is not None and thread.is_alive():
            await asyncio.sleep(0.001)  # not in an executor's thread: none can be started any more at exit
        parts.locks.close()

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, writes: bool) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._own().worker.submit(Job(work=work, writes=writes, loop=loop, future=future))
        return await future

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


class _Parts:
    """What one process has of a store: the worker, and who may write."""

    __slots__ = ("locks", "process", "turnstile", "worker")

    def __init__(self, path: str, busy_timeout: float) -> None:
        self.process = os.getpid()
        self.worker = Worker(path, busy_timeout)
        self.turnstile = Turnstile()
        self.locks: FileLocks = NoLocks() if path == MEMORY else locks_beside(Path(path))

    def abandon(self) -> None:
        """The store was dropped without `close`: end the thread, close the files, wait for nothing."""
        if self.process == os.getpid():
            self.worker.stop()
            self.locks.close()


class _OneWriter:
    """`async with`: first the queue of this process, then the lock between processes."""

    __slots__ = ("_id", "_parts", "_store", "_timeout")

    def __init__(
        self, store: SQLiteStore, parts: _Parts, conversation_id: str, timeout: float | None
    ) -> None:
        self._store = store  # a store that is dropped closes its locks
        self._parts = parts
        self._id = conversation_id
        self._timeout = timeout

    async def __aenter__(self) -> None:
        asked = time.monotonic()
        await self._parts.turnstile.acquire(self._id, self._timeout)
        try:
            if not self._parts.locks.take(self._id):
                await self._poll(asked)
        except BaseException:  # a cancelled waiter gives its place in the process back
            self._parts.turnstile.release(self._id)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._parts.locks.give(self._id)
        finally:
            self._parts.turnstile.release(self._id)

    async def _poll(self, asked: float) -> None:
        pause = _FIRST_PAUSE
        while not self._parts.locks.take(self._id):
            waited = time.monotonic() - asked
            left = pause if self._timeout is None else self._timeout - waited
            if left <= 0:
                raise busy(self._id, waited, " in another process")
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)


def _load(conversation_id: str, request_id: str | None, db: sqlite3.Connection) -> Loaded | None:
    if request_id is None:
        row = db.execute(_LOAD, (conversation_id,)).fetchone()
    else:
        row = db.execute(_LOAD_WITH_REQUEST, (request_id, conversation_id)).fetchone()
    return None if row is None else Loaded(session=row[0], version=row[1], recorded=row[2])


def _save(commit: Commit, db: sqlite3.Connection) -> None:
    name, number = commit.conversation_id, commit.expected + 1
    row = (commit.session, commit.definition, commit.state, commit.ended, commit.time, name)
    if commit.expected:
        written = db.execute(_UPDATE, (*row, commit.expected)).rowcount
    else:
        written = db.execute(_CREATE, (*row, commit.time)).rowcount
    if written == 0:
        found = db.execute("SELECT version FROM conversations WHERE id = ?", (name,)).fetchone()
        raise wrong_version(commit, found[0] if found else 0)
    record = "INSERT INTO records (conversation, number, record) VALUES (?, ?, ?)"
    db.execute(record, (name, number, commit.record))
    if commit.request_id is not None:
        inbox = "INSERT INTO inbox (conversation, request_id, number) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        if db.execute(inbox, (name, commit.request_id, number)).rowcount == 0:
            raise answered_already(commit)
    if commit.expected:
        db.execute("DELETE FROM due WHERE conversation = ?", (name,))
    for at, kind in commit.due:
        insert = "INSERT OR IGNORE INTO due (conversation, time, kind) VALUES (?, ?, ?)"
        db.execute(insert, (name, at, kind))
    _forget_journal(name, db)


def _records(conversation_id: str, after: int, limit: int | None, db: sqlite3.Connection) -> Sequence[str]:
    query = "SELECT record FROM records WHERE conversation = ? AND number > ? ORDER BY number LIMIT ?"
    rows = db.execute(query, (conversation_id, after, -1 if limit is None else max(limit, 0)))
    return tuple(record for (record,) in rows)


def _journal(conversation_id: str, step: int, text: str, db: sqlite3.Connection) -> None:
    insert = "INSERT INTO journal (conversation, step, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    if db.execute(insert, (conversation_id, step, text)).rowcount == 0:
        raise step_exists(conversation_id, step)


def _journalled(conversation_id: str, db: sqlite3.Connection) -> Sequence[str]:
    query = "SELECT text FROM journal WHERE conversation = ? ORDER BY step"
    return tuple(text for (text,) in db.execute(query, (conversation_id,)))


def _forget_journal(conversation_id: str, db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM journal WHERE conversation = ?", (conversation_id,))


def _list(after: str | None, limit: int, db: sqlite3.Connection) -> Sequence[Listed]:
    columns = "id, definition, state, ended, version, created, updated"
    if after is None:
        rows = db.execute(f"SELECT {columns} FROM conversations ORDER BY id LIMIT ?", (max(limit, 0),))
    else:
        query = f"SELECT {columns} FROM conversations WHERE id > ? ORDER BY id LIMIT ?"
        rows = db.execute(query, (after, max(limit, 0)))
    return tuple(
        Listed(
            conversation_id=name,
            definition=definition,
            state=state,
            ended=bool(ended),
            turns=turns,
            created=created,
            updated=updated,
        )
        for name, definition, state, ended, turns, created, updated in rows
    )


def _due(now: float, limit: int, definition: str | None, db: sqlite3.Connection) -> Sequence[Due]:
    query = """SELECT conversation, time, kind FROM due JOIN conversations ON id = conversation
        WHERE time <= ? AND (? IS NULL OR definition = ?) ORDER BY time, conversation, kind LIMIT ?"""
    rows = db.execute(query, (now, definition, definition, max(limit, 0)))
    return tuple(Due(conversation_id=name, time=at, kind=kind) for name, at, kind in rows)


def _delete(conversation_id: str, db: sqlite3.Connection) -> bool:
    _forget_journal(conversation_id, db)
    return db.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,)).rowcount > 0
