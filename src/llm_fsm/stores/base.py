"""The port to stores: documents of text in, the same documents out.

A store knows nothing of machines. It keeps, per conversation: one session document with a version,
turn records (appended once, numbered from 1), the inbox (request id to record number) and the
journal of the turn under way. All documents are JSON text in ASCII, so that every string that Python
can hold survives in every store. Conversation ids and request ids are text of at most 200 characters
without control characters and lone surrogates; they may be anything else.

Errors: ConversationConflict where the version does not fit, StoreError for everything else
(locked, read-only, full, newer version, damaged), with a message that names the place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A conversation as stored. `recorded` is the record that already answers the request id asked for."""

    session: str
    version: int
    recorded: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """All that one turn writes, in one transaction.

    `expected` is the version that was loaded (0: the conversation must not exist yet); the new version is
    `expected + 1`, and `record` is stored under that number. `request_id` goes to the inbox. The journal of
    the conversation is emptied. `state`, `ended`, `definition` and `time` (seconds since the epoch) are for
    listings. `due`: when (seconds since the epoch) something is to happen by itself, and of what kind; these rows
    replace those of the conversation in the due table.
    """

    conversation_id: str
    expected: int
    session: str
    record: str
    request_id: str | None = None
    definition: str = ""
    state: str = ""
    ended: bool = False
    time: float = 0.0
    due: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A row of the due table: `kind` of what is to happen in a conversation at `time` (seconds since the epoch)."""

    conversation_id: str
    time: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A line of the listing. Times are seconds since the epoch; `turns` counts records."""

    conversation_id: str
    definition: str
    state: str
    ended: bool
    turns: int
    created: float
    updated: float


class Store(Protocol):
    """What the engine needs of a store."""

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        """The conversation, with the record that answered `request_id` if there is one; None if unknown."""
        ...

    async def save(self, commit: Commit) -> None:
        """Write one turn, all or nothing, durably before it returns. Raises ConversationConflict."""
        ...

    async def records(self, conversation_id: str, after: int = 0, limit: int | None = None) -> Sequence[str]:
        """The turn records with numbers above `after`, in order, at most `limit`."""
        ...

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        """Keep the result of one step of the turn under way, durably. Works before the first save, too.

        A step is written once: ConversationConflict when it is there already, and the first result stays.
        """
        ...

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        """The results of the turn under way, in order of their steps."""
        ...

    async def forget_journal(self, conversation_id: str) -> None:
        """Drop the journal of a turn that will not be finished."""
        ...

    def lock(self, conversation_id: str, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        """Be the one writer of a conversation, in order of asking.

        Waits at most `timeout` seconds (None: for ever), then raises StoreError(retryable=True).
        The lock ends with its owner, however that ends.
        """
        ...

    async def list(self, after: str | None = None, limit: int = 100) -> Sequence[Listed]:
        """Conversations in order of their ids, those after `after`."""
        ...

    async def due(self, now: float, limit: int = 100, definition: str | None = None) -> Sequence[Due]:
        """Rows of the due table up to the time `now`, in order of time, then of ids, at most `limit`.

        `definition`: only those of conversations that were last saved with this name of a definition.
        """
        ...

    async def delete(self, conversation_id: str) -> bool:
        """Remove everything about a conversation. False if there was none."""
        ...

    async def close(self) -> None:
        """Free files and connections; the store cannot be used afterwards."""
        ...
