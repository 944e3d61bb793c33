"""The index of transcripts: from the digest of messages to the turns that they led to, in the
store.

Every process of a server and every later one reads the same entries. They lie in the store as the
journal of an id that no conversation can have, so that every store can hold them. They hold digests
and ids, but no text.

A key has few entries. If a transcript fits several conversations, the server forks one, and never
needs them all.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llm_fsm.errors import ConversationConflict
from llm_fsm.stores.base import Store

_PREFIX = "\x1ftranscript-"
"""Ids of conversations are printable, so no conversation has this prefix."""
_KEPT = 8
_MOST = 16
"""The most entries of a key. Then the newest `_KEPT` stay: a frequent greeting fits thousands of
conversations.
"""
_WRITERS = 20
"""The most writers of one key at the same moment."""


class Entry(NamedTuple):
    """A turn that a transcript led to.

    `conversation`: the id by which the caller knows it; `request_id`: of the turn; `time`: when it
    was asked, in seconds since the epoch; `joined`: places of earlier messages that were sent along
    with the last one.
    """

    conversation: str
    request_id: str
    time: float
    joined: tuple[int, ...] = ()


async def entries(store: Store, key: str) -> list[Entry]:
    """Return the entries of a key, oldest first."""
    found = []
    for text in await store.journalled(_PREFIX + key):
        conversation, request_id, asked, joined = json.loads(text)
        found.append(Entry(conversation, request_id, asked, tuple(joined)))
    return found


async def add(store: Store, key: str, entry: Entry) -> None:
    """Add an entry to a key."""
    known = await entries(store, key)
    if len(known) >= _MOST:
        await _replace(store, key, known[-_KEPT:])
        known = known[-_KEPT:]
    await _append(store, key, len(known), entry)


async def remove(store: Store, keys: Iterable[str], conversation: str) -> None:
    """Remove the entries of a conversation from keys."""
    for key in keys:
        known = await entries(store, key)
        others = [entry for entry in known if entry.conversation != conversation]
        if len(others) < len(known):
            await _replace(store, key, others)


async def _replace(store: Store, key: str, kept: Sequence[Entry]) -> None:
    await store.forget_journal(_PREFIX + key)
    for place, entry in enumerate(kept):
        await _append(store, key, place, entry)


async def _append(store: Store, key: str, place: int, entry: Entry) -> None:
    text = json.dumps(entry, separators=(",", ":"))
    for step in range(place, place + _WRITERS):
        try:
            await store.journal(_PREFIX + key, step, text)
        except ConversationConflict:  # another process wrote this step just now
            continue
        return


def entry_of(conversation: str, request_id: str, joined: Sequence[int] = ()) -> Entry:
    """Return an entry for a turn that is asked now."""
    return Entry(conversation, request_id, time.time(), tuple(joined))
