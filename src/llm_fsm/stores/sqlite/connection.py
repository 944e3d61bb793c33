"""The connection to an SQLite file. It is opened on first use, after a fault, and after the file
was replaced.

Simultaneous requests of many conversations are one transaction, so that they share the costly sync
to disk. If one fails, the transaction is rolled back and each is tried alone, so that it affects no
other.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit, Loaded
from llm_fsm.stores.forwarding import Calls
from llm_fsm.stores.locks.forks import around_forks
from llm_fsm.stores.sqlite import statements
from llm_fsm.stores.sqlite.errors import fault, is_busy, is_lasting, is_unsettled
from llm_fsm.stores.sqlite.schema import MEMORY, inode, open_database, transaction

Together = Callable[[Sequence[Any], sqlite3.Connection], Sequence[Any]]
"""Serves values on the connection, and returns an outcome for each. An Exception refuses only that
one.
"""


class Database:
    """One connection, for one thread at a time."""

    def __init__(self, path: str, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self._using = threading.Lock()
        """Held by the thread that uses the connection."""
        self._db: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        if path != MEMORY:
            around_forks(self, Database._closed_in_forks)

    def load(self, asked: Sequence[tuple[str, str | None]]) -> Sequence[Loaded | None]:
        return self.serve(statements.load, asked, writes=False)

    def save(self, commits: Sequence[Commit]) -> Sequence[Exception | None]:
        return self.serve(statements.save, commits, writes=True)

    def read(self, calls: Calls) -> Sequence[Any]:
        return self.serve(statements.each, calls, writes=False)

    def write(self, calls: Calls) -> Sequence[Any]:
        return self.serve(statements.each, calls, writes=True)

    def serve(self, together: Together, values: Sequence[Any], *, writes: bool) -> Sequence[Any]:
        """Serve requests of one kind. Requests that write share one transaction.

        Returns:
            The result of each request, or the error to raise.
        """
        with self._using:
            return self._serve(together, values, writes)

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self._using:
            self._disconnect()

    def _serve(self, together: Together, values: Sequence[Any], writes: bool) -> Sequence[Any]:
        try:
            db = self._connection()
            if not writes:
                return together(values, db)
            with transaction(db, "BEGIN IMMEDIATE"):
                return together(values, db)
        except Exception as error:
            self._recover(error)
            # repeated, it might conflict with itself
            # One alone has nobody else to blame. A busy file would be busy again, and an unsettled
            # commit may be there.
            if len(values) == 1 or is_busy(error) or is_unsettled(error):
                return [self._translated(error) for _ in values]
        # Each alone, so that only the one with the fault fails.
        outcomes: list[Any] = []
        for place, value in enumerate(values):
            outcomes += self._serve(together, [value], writes)
            # the others need not wait in vain
            if isinstance(outcomes[-1], StoreError) and outcomes[-1].retryable:
                return [
                    *outcomes,
                    *(StoreError(str(outcomes[-1]), retryable=True) for _ in values[place + 1 :]),
                ]
        return outcomes

    def _connection(self) -> sqlite3.Connection:
        if self._db is not None and self._path != MEMORY and self._inode != inode(self._path):
            # the file was removed or replaced, so writing to the old one would lose the turn
            self._disconnect()
        if self._db is None:
            self._db = open_database(self._path, self._busy_timeout)
            self._inode = inode(self._path)
        return self._db

    def _recover(self, error: Exception) -> None:
        """Drop a connection that would fail for ever."""
        is_broken = self._db is not None and self._db.in_transaction
        if is_broken or (is_lasting(error) and self._path != MEMORY):
            self._disconnect()

    def _translated(self, error: Exception) -> Exception:
        if not isinstance(error, sqlite3.Error | UnicodeDecodeError):
            return error
        translated = fault(self._path, error)
        translated.__cause__ = error
        return translated

    @contextmanager
    def _closed_in_forks(self) -> Iterator[None]:
        """Close the connection while the process forks, because SQLite's state of the file's locks
        would be copied.

        The child would find the file locked for ever, or would write into a log that its parent has
        removed.
        """
        # otherwise a fork would wait for another program
        rests = self._using.acquire(timeout=self._busy_timeout + 1)
        try:
            if rests:
                self._disconnect()
            yield
        finally:
            if rests:
                self._using.release()

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()
