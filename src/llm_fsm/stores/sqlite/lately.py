"""What a connection to an SQLite file committed last, given again as long as no other one has written to the file.

Whether that is so, SQLite says: its `data_version` changes with every commit of another connection, in this process
or in another one, and with none of this connection. Asking takes half as long as reading a conversation.
"""

from __future__ import annotations

import sqlite3

from llm_fsm.stores.base import Commit, Loaded

_MOST = 8
"""Conversations that are kept, at most."""


class Connection(sqlite3.Connection):
    """A connection with what it committed last."""

    def __init__(self, path: str, *, timeout: float, cached_statements: int) -> None:
        super().__init__(
            path,
            timeout=timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=cached_statements,
        )
        self.lately = Lately()


class Lately:
    """Conversations as the last transactions of a connection left them. To be used by whoever uses that one.

    `write` and `forget` are called in a transaction, `committed` once it is.
    """

    __slots__ = ("_kept", "_seen", "_written")

    def __init__(self) -> None:
        self._kept: dict[str, Loaded] = {}
        self._written: dict[str, Loaded] = {}
        self._seen = -1
        """The data_version at which all that is kept stood in the file, or will once it is written."""

    def of(self, conversation_id: str, db: sqlite3.Connection) -> Loaded | None:
        """The conversation, if it is kept and stands so in the file. Not to be asked in a transaction."""
        found = self._kept.get(conversation_id)
        if found is None:
            return None
        (version,) = db.execute("PRAGMA data_version").fetchone()
        if version == self._seen:
            return found
        self._seen = version
        self._kept.clear()
        return None

    def write(self, commit: Commit) -> None:
        """A conversation is being written."""
        self._kept.pop(commit.conversation_id, None)
        self._written[commit.conversation_id] = Loaded(commit.session, commit.number, None, commit.definition_sha)

    def committed(self) -> None:
        """What was written stands."""
        if self._written:
            self._kept.update(self._written)
            self._written.clear()
            while len(self._kept) > _MOST:
                del self._kept[next(iter(self._kept))]

    def forget(self) -> None:
        """What stands in the file is to be read again."""
        self._kept.clear()
        self._written.clear()
