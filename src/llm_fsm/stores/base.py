"""The port to stores: documents of text in, the same documents out. This is version 1 of the contract.

A store knows nothing of machines. It keeps, per conversation: one session document with a version,
turn records (appended once, numbered from 1), the inbox (request id to record number), the outbox (what sinks have
still to be told), the rows of the due table and the journal of the turn under way; besides, one copy of every
definition that a conversation is pinned to. All documents are JSON text that is valid in UTF-8, with escapes for what
is not, so that every string that Python can hold survives in every store. Conversation ids, request ids and the names
for listings are text without NUL and lone surrogates (see `storable`), ids of at most 200 characters; they may be
anything else.

Errors: ConversationConflict where the version does not fit, StoreError for everything else
(locked, unreachable, read-only, full, newer version, damaged, a lock that was lost), with a message that names the
place. `docs/stores.md` says it for the author of a store; `llm_fsm.testing.store_suite` holds a store against it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from llm_fsm.errors import UnreadableError

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def storable(name: str) -> str:
    r"""A name for listings as every store can keep it: NUL and lone surrogates as `\x00` and `\ud800`."""
    if _UNSTORABLE.search(name) is None:
        return name
    return name.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


class Loaded(NamedTuple):
    """A conversation as stored. `recorded` is the record that already answers the request id asked for.

    `definition_sha`: the definition that it is pinned to, as its last commit said.
    """

    session: str
    version: int
    recorded: str | None = None
    definition_sha: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """An event on its way to the sink named `sink`: JSON text, under a key by which the sink knows it again."""

    sink: str
    key: str
    text: str


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class Commit:
    """All that one turn writes, in one transaction.

    `expected` is the version that was loaded (0: the conversation must not exist yet); the new version is
    `expected + 1`, and `record` is stored under that number. `request_id` goes to the inbox. The journal of
    the conversation is emptied. `state`, `ended`, `definition` and `time` (seconds since the epoch) are for
    listings. `due`: when (seconds since the epoch) something is to happen by itself, and of what kind; these rows
    replace those of the conversation in the due table. `outbox`: what sinks are to be told, in this order, after
    all that they have still to be told of this conversation.

    `definition_sha` pins the conversation to a definition, from this commit on. `definition_text` is its canonical
    JSON, given where the pin is new to the conversation: the store keeps one copy of each, until no conversation is
    pinned to it.

    For conversations that come from elsewhere, where `expected` is 0: `earlier` are the records before `record`,
    each with its request id or None, so that the version becomes `len(earlier) + 1`; `created` is when the
    conversation began (None: `time`).
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
    outbox: tuple[Outgoing, ...] = ()
    definition_sha: str | None = None
    definition_text: str | None = None
    earlier: tuple[tuple[str, str | None], ...] = ()
    created: float | None = None

    @property
    def number(self) -> int:
        """The number of `record`, which is the new version."""
        return self.expected + len(self.earlier) + 1

    @property
    def began(self) -> float:
        """When the conversation began, if this commit begins it."""
        return self.time if self.created is None else self.created

    @property
    def numbered(self) -> Sequence[tuple[int, str, str | None]]:
        """Number, record and request id of all that this commit appends."""
        if not self.earlier:
            return ((self.expected + 1, self.record, self.request_id),)
        appended = (*self.earlier, (self.record, self.request_id))
        return [(self.expected + place, *item) for place, item in enumerate(appended, 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A row of the outbox: the event number `index` (from 0) of record `number`, for one sink."""

    conversation_id: str
    number: int
    index: int
    sink: str
    key: str
    text: str


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
    definition_sha: str | None = None


class Store(Protocol):
    """What the engine needs of a store."""

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        """The conversation, with the record that answered `request_id` if there is one; None if unknown."""

    async def save(self, commit: Commit) -> None:
        """Write one turn, all or nothing, durably before it returns. Raises ConversationConflict.

        StoreError where `definition_sha` names a definition that the store has not got, and
        StoreError(retryable=True) where the conversation's lock was lost since it was taken.
        """

    async def records(self, conversation_id: str, after: int = 0, limit: int | None = None) -> Sequence[str]:
        """The turn records with numbers above `after`, in order, at most `limit`."""

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        """Keep the result of one step of the turn under way, durably. Works before the first save, too.

        A step is written once: ConversationConflict when it is there already, and the first result stays.
        A lock that was lost is an error here as in `save`.
        """

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        """The results of the turn under way, in order of their steps."""

    async def forget_journal(self, conversation_id: str) -> None:
        """Drop the journal of a turn that will not be finished. A lock that was lost is an error here as in `save`."""

    def lock(self, conversation_id: str, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        """Be the one writer of a conversation, in order of asking.

        Waits at most `timeout` seconds (None: for ever), then raises StoreError(retryable=True).
        The lock ends with its owner, however that ends. Where it can be lost before, because it rests on a
        connection or on a lease, the store that lost it writes nothing any more for that conversation until it has
        taken the lock again.
        """

    async def list(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        definition: str | None = None,
        state: str | None = None,
        ended: bool | None = None,
    ) -> Sequence[Listed]:
        """Conversations in order of their ids (by code points), those after `after`.

        `definition`, `state`, `ended`: only those whose last commit said so; None: all.
        """

    async def definition(self, sha: str) -> str | None:
        """The definition that a conversation is pinned to, as its commit gave it; None if there is none."""

    async def due(self, now: float, limit: int = 100, definition: str | None = None) -> Sequence[Due]:
        """Rows of the due table up to the time `now`, in order of time, then of ids, at most `limit`.

        `definition`: only those of conversations that were last saved with this name of a definition.
        """

    async def outbox(
        self,
        sink: str | None,
        *,
        after: str | None = None,
        limit: int = 100,
        conversation_id: str | None = None,
        definition: str | None = None,
    ) -> Sequence[Posted]:
        """What a sink has still to be told: by conversation id, in each in order of the commits, at most `limit`.

        `sink` None: what all sinks have, for whoever examines the store.
        `after`: only of conversations with ids after it. `conversation_id`: only of this one. `definition`: only of
        those that were last saved with this name of a definition.
        """

    async def acknowledge(self, posted: Posted) -> None:
        """Drop a row of the outbox, and those of the same sink and conversation before it. Once or more is the same."""

    async def delete(self, conversation_id: str) -> bool:
        """Remove everything about a conversation, and its definition if nobody else is pinned to it.

        False if there was no such conversation; a journal without one is removed all the same.
        """

    async def close(self) -> None:
        """Free files and connections; the store cannot be used afterwards."""


async def kept_definition(store: Store, sha: str) -> str | None:
    """The definition of this SHA-256 that a store keeps; None if there is none.

    Raises UnreadableError where its text is another one.
    """
    text = await store.definition(sha)
    if text is not None and hashlib.sha256(text.encode()).hexdigest() != sha:
        raise UnreadableError(
            f"the definition {sha[:12]} that the store keeps for its conversations is damaged: it is not the one that "
            "they were begun with; restore the store from a backup"
        )
    return text
