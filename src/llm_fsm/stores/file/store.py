"""Conversations as files in one folder, for a few hundred that should be readable and backed up as files.

Every turn is on the disk before `save` returns, and costs the same at turn 10 and at turn 500. Listings, due rows and
the outbox read the last commit of every conversation. Operating-system locks ensure one writer per conversation across
processes (see `locks.file_locks`), as with SQLite. It is not for network file systems.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from llm_fsm.stores.file.folder import Folder
from llm_fsm.stores.forwarding import ForwardingStore
from llm_fsm.stores.locks.conversation_lock import finished, local_lock
from llm_fsm.stores.locks.file_locks import locks_beside
from llm_fsm.stores.locks.keyed_queue import KeyedQueue
from llm_fsm.stores.worker_thread import WorkerThread

T = TypeVar("T")


class FileStore(ForwardingStore):
    """A `Store` in the folder `path`. Construction touches nothing. The folder is made on first use.

    May be used from several event loops and threads.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        place = os.fspath(path)
        if "\0" in place:
            raise ValueError("the path of a file store cannot contain a NUL character")
        self._path = os.path.abspath(place)
        self._parts = self._new_parts()

    @property
    def path(self) -> str:
        """The folder, as an absolute path."""
        return self._path

    def lock(self, conversation_id: str, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        parts = self._own()
        parts.thread.check_running()
        return local_lock(self, parts.queue, parts.locks, conversation_id, timeout)

    async def unlisted(self) -> Sequence[str]:
        """Find faults of conversations that listings leave out, in sentences."""
        return await self.faults()

    async def faults(self) -> Sequence[str]:
        """Find faults of the folder as a whole, in sentences."""
        return await self._read(Folder.faults)

    async def close(self) -> None:
        """Finish waiting requests, then free the files. May be called twice."""
        parts = self._parts
        if parts.process == os.getpid():
            if not parts.thread.is_stopped:
                await parts.thread.call(parts.close)
            parts.thread.stop(parts.close)

    async def _read(self, work: Callable[[Any], T]) -> T:
        parts = self._own()
        return await finished(parts.thread.call(lambda: work(parts.folder)))

    _write = _read

    def _own(self) -> _Parts:
        """Return the parts of this process, because threads do not survive a fork."""
        if self._parts.process != os.getpid():
            self._parts = self._new_parts()
        return self._parts

    def _new_parts(self) -> _Parts:
        parts = _Parts(Path(self._path))
        weakref.finalize(self, parts.thread.stop, parts.close).atexit = False
        return parts


class _Parts:
    """The parts of a store that belong to one process."""

    def __init__(self, path: Path) -> None:
        self.process = os.getpid()
        self.folder = Folder(path)
        self.thread = WorkerThread("llm-fsm-file", str(path))
        self.queue = KeyedQueue()
        self.locks = locks_beside(path / "conversations")

    def close(self) -> None:
        self.folder.close()
        self.locks.close()
