"""Conversations in one SQLite file, with the standard library only.

Every turn is one transaction that is on the disk before `save` returns (write-ahead log,
`synchronous=FULL`). One thread owns the connection of the turns and commits waiting ones together.
Another thread with its own connection reads lists beside them. Operating-system locks ensure one
writer per conversation across processes (see `locks.file_locks`). On Windows, only the version
check of `save` protects against a second process. Waiters of one process are served in order.
Between processes, the first that asks after the release is next.

After a fork, the child opens its own connection. A `:memory:` database stays with the parent, and
the child begins with an empty one.
"""

from __future__ import annotations

import os
from pathlib import Path

from llm_fsm.stores.base import Commit, Loaded
from llm_fsm.stores.local import LocalStore
from llm_fsm.stores.locks.conversation_lock import finished
from llm_fsm.stores.sqlite.connection import Database
from llm_fsm.stores.sqlite.schema import MEMORY


class SQLiteStore(LocalStore[Database]):
    """A `Store` in the file `path`, or in memory for ":memory:".

    Construction touches nothing. Folder and file are made on first use. `busy_timeout`: seconds
    that a statement waits for other programs that lock the whole database. May be used from several
    event loops and threads.
    """

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout: float = 5.0) -> None:
        self._busy_timeout = busy_timeout
        place = os.fspath(path)
        if place == MEMORY:
            super().__init__(MEMORY, "an SQLite", locked=None)
        else:
            place = os.path.abspath(place)
            super().__init__(place, "an SQLite", locked=Path(place))

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        turns = self._own().turns
        return await turns.thread.ask(turns.files.load, (conversation_id, request_id))

    async def save(self, commit: Commit) -> None:
        turns = self._own().turns
        await finished(turns.thread.ask(turns.files.save, commit))

    def _files(self) -> Database:
        return Database(self._path, self._busy_timeout)

    def _files_to_list(self) -> Database | None:
        # Another connection to ":memory:" would open another, empty database.
        return None if self._path == MEMORY else self._files()
