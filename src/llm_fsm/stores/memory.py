"""Conversations in the memory of this process: for tests, for experiments, and as a pattern to
copy.

Documents stay text, as in every store, so nobody can change what is stored by changing a loaded
value. Everything is lost with the process.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count
from typing import Any

from llm_fsm.stores.base import (
    WAITING,
    AcceptedMessage,
    AcceptedQuery,
    Commit,
    DueRow,
    FindsJournals,
    JournalQuery,
    Listed,
    ListQuery,
    Loaded,
    LoadedWithJournal,
    OutboxQuery,
    Posted,
    Wake,
)
from llm_fsm.stores.errors import check, closed, step_exists
from llm_fsm.stores.locks.conversation_lock import KeyedQueue


@dataclass(slots=True)
class _Conversation:
    """One conversation: its first commit, and its last one. Record number n is `records[n - 1]`."""

    first: Commit
    last: Commit
    records: list[str] = field(default_factory=list)
    answered: dict[str, int] = field(default_factory=dict)
    outbox: list[Posted] = field(default_factory=list)


class MemoryStore(FindsJournals):
    """A `Store` in memory. May be used from several event loops and threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._conversations: dict[str, _Conversation] = {}
        self._journals: dict[str, dict[int, str]] = {}
        self._accepted: dict[str, dict[str, AcceptedMessage]] = {}
        self._places = count(1)
        self._listeners: list[Callable[[], Any]] = []
        self._due: dict[str, tuple[str, Sequence[tuple[float, str]]]] = {}
        self._posting: dict[str, _Conversation] = {}
        self._paused: set[str] = set()
        self._definitions: dict[str, str] = {}
        self._pins: Counter[str] = Counter()
        self._queue = KeyedQueue()
        self._closed = False

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        with self._open():
            found = self._conversations.get(conversation_id)
            if found is None:
                return None
            number = None if request_id is None else found.answered.get(request_id)
            recorded = None if number is None else found.records[number - 1]
            kind = LoadedWithJournal if 0 in self._journals.get(conversation_id, {}) else Loaded
            return kind(found.last.session, len(found.records), recorded, found.last.definition_sha)

    async def save(self, commit: Commit) -> None:
        """See `Store.save`. Durable only as long as this process."""
        name = commit.conversation_id
        with self._open():
            found = self._conversations.get(name)
            version = 0 if found is None else len(found.records)
            sha, answers = commit.definition_sha, dict(commit.answered)
            answered = found is not None and not answers.keys().isdisjoint(found.answered)
            # Everything is checked before the first change, so a refused commit changes nothing.
            check(commit, version, answered=answered, defined=sha in self._definitions)
            pinned = None if found is None else found.last.definition_sha
            self._pin(pinned, sha, commit.definition_text)
            if found is None:
                found = self._conversations[name] = _Conversation(commit, commit)
            found.last = commit
            found.records += [record for _, record, _ in commit.numbered]
            found.answered.update(answers)
            if commit.paused:
                self._paused.add(name)
            else:
                self._paused.discard(name)
            self._post(found, commit)
            if commit.due:
                self._due[name] = commit.definition, commit.due
            else:
                self._due.pop(name, None)
            # The turn is over, so what it had done step by step is in its record.
            self._journals.pop(name, None)

    def _lines(self, query: ListQuery) -> Iterator[Listed]:
        """Yield the lines of all conversations, or of those with the ids of a query."""
        names: Collection[str] = self._conversations if query.ids is None else query.ids
        if query.paused is not None and query.ids is None:
            names = self._paused
        for name in names:
            found = self._conversations.get(name)
            if found is not None:
                yield _line(name, found)

    def _pin(self, old: str | None, new: str | None, text: str | None = None) -> None:
        """Store the definition `new`, with its `text` if it may be new, and drop `old` with its
        last pin.
        """
        if new == old:
            return
        if new is not None:
            self._pins[new] += 1
            if text is not None:
                self._definitions.setdefault(new, text)
        if old is not None:
            self._pins[old] -= 1
            if not self._pins[old]:
                del self._pins[old]
                self._definitions.pop(old, None)

    def _post(self, found: _Conversation, commit: Commit) -> None:
        if not commit.outbox:
            return
        name = commit.conversation_id
        found.outbox += [
            Posted(name, commit.number, index, event.sink, event.key, event.text)
            for index, event in enumerate(commit.outbox)
        ]
        self._posting[name] = found

    async def records(
        self, conversation_id: str, after: int = 0, limit: int | None = None
    ) -> Sequence[str]:
        start = max(after, 0)
        with self._open():
            found = self._conversations.get(conversation_id)
            stored = [] if found is None else found.records
            wanted = stored[start:] if limit is None else stored[start : start + max(limit, 0)]
            return tuple(wanted)

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        with self._open():
            steps = self._journals.setdefault(conversation_id, {})
            if step in steps:
                raise step_exists(conversation_id, step)
            steps[step] = text

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        with self._open():
            return tuple(
                text for _, text in sorted(self._journals.get(conversation_id, {}).items())
            )

    async def forget_journal(self, conversation_id: str) -> None:
        with self._open():
            self._journals.pop(conversation_id, None)

    async def _unfinished(self, query: JournalQuery) -> Sequence[str]:
        with self._open():
            journals = sorted(self._journals.items())
            ends = ((name, steps[0], steps[max(steps)]) for name, steps in journals if 0 in steps)
            return query.page(ends, self._queue.holds)

    async def accept(self, message: AcceptedMessage) -> AcceptedMessage:
        with self._open():
            kept = self._accepted.setdefault(message.conversation_id, {})
            if message.request_id not in kept:
                fresh = replace(message, place=next(self._places), state=WAITING)
                kept[message.request_id] = fresh
                self._tell()
            return kept[message.request_id]

    def _tell(self) -> None:
        for tell in self._listeners:
            with suppress(RuntimeError):  # its event loop is closed
                tell()

    async def listen(self, wake: Wake) -> None:
        self._open()
        loop = asyncio.get_running_loop()
        tell = partial(loop.call_soon_threadsafe, wake)
        with self._guard:
            self._listeners.append(tell)
        # Once at the beginning: a message may have come before anybody listened.
        wake()
        try:
            await loop.create_future()
        finally:
            with self._guard:
                self._listeners.remove(tell)

    async def accepted(self, query: AcceptedQuery) -> Sequence[AcceptedMessage]:
        with self._open():
            if query.conversation_id is not None:
                return query.page(self._accepted.get(query.conversation_id, {}).values())
            kept = chain.from_iterable(each.values() for each in self._accepted.values())
            return query.page(kept)

    async def mark_accepted(
        self, conversation_id: str, request_id: str, state: str, before: Collection[str]
    ) -> str | None:
        with self._open():
            kept = self._accepted.get(conversation_id, {})
            if request_id not in kept:
                return None
            if kept[request_id].state in before:
                kept[request_id] = replace(kept[request_id], state=state)
            return kept[request_id].state

    async def drop_accepted(self, conversation_id: str, request_id: str) -> None:
        with self._open():
            kept = self._accepted.get(conversation_id, {})
            kept.pop(request_id, None)
            if not kept:
                self._accepted.pop(conversation_id, None)

    def lock(
        self, conversation_id: str, timeout: float | None = None
    ) -> AbstractAsyncContextManager[None]:
        self._open()
        return self._queue.lock(conversation_id, timeout)

    async def list(self, query: ListQuery) -> Sequence[Listed]:
        with self._open():
            return query.page(self._lines(query))

    async def count(self, query: ListQuery) -> int:
        with self._open():
            return sum(map(query.admits, self._lines(query)))

    async def definition(self, sha: str) -> str | None:
        with self._open():
            return self._definitions.get(sha)

    async def due(
        self, now: float, limit: int = 100, definition: str | None = None
    ) -> Sequence[DueRow]:
        with self._open():
            found = []
            for name, (of, rows) in self._due.items():
                if definition is None or of == definition:
                    found += [(time, name, kind) for time, kind in rows if time <= now]
            first = heapq.nsmallest(max(limit, 0), found)
            return tuple(DueRow(name, time, kind) for time, name, kind in first)

    async def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        with self._open():
            names = (
                name
                for name, found in self._posting.items()
                if query.admits(name, found.last.definition)
            )
            return query.page(chain.from_iterable(self._posting[n].outbox for n in sorted(names)))

    async def acknowledge(self, posted: Posted) -> None:
        with self._open():
            found = self._posting.get(posted.conversation_id)
            if found is None:
                return
            # All earlier rows of the sink go, too: it takes its events in order.
            last = (posted.number, posted.index)
            found.outbox = [
                row
                for row in found.outbox
                if row.sink != posted.sink or (row.number, row.index) > last
            ]
            if not found.outbox:
                del self._posting[posted.conversation_id]

    async def delete(self, conversation_id: str) -> bool:
        with self._open():
            self._due.pop(conversation_id, None)
            self._posting.pop(conversation_id, None)
            self._paused.discard(conversation_id)
            self._journals.pop(conversation_id, None)
            self._accepted.pop(conversation_id, None)
            found = self._conversations.pop(conversation_id, None)
            if found is not None:
                self._pin(found.last.definition_sha, None)
            return found is not None

    async def close(self) -> None:
        self._closed = True

    def _open(self) -> threading.Lock:
        """Return the lock that a caller holds while it uses the store. Refuse a closed store."""
        if self._closed:
            raise closed("memory")
        return self._guard


def _line(name: str, found: _Conversation) -> Listed:
    last = found.last
    return Listed(
        name,
        last.definition,
        last.state,
        last.ended,
        len(found.records),
        found.first.began,
        last.time,
        last.definition_sha,
        dict(found.first.metadata),
        last.paused,
    )
