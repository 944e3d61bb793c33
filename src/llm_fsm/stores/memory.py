"""Conversations in the memory of this process: for tests, for trying things out, and as the pattern to copy.

Documents stay text, as in every store, so nobody can change what is stored by changing a loaded value.
Everything is lost with the process.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit, Due, Listed, Loaded
from llm_fsm.stores.conflict import answered_already, step_exists, wrong_version
from llm_fsm.stores.turnstile import Turnstile


class _Conversation:
    """What is kept of one conversation; record number n is `records[n - 1]`."""

    __slots__ = ("created", "inbox", "last", "records")

    def __init__(self, created: float) -> None:
        self.created = created
        self.last: Commit | None = None
        self.records: list[str] = []
        self.inbox: dict[str, int] = {}


class MemoryStore:
    """A `Store` without a place. May be used from several event loops and threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._conversations: dict[str, _Conversation] = {}
        self._journals: dict[str, dict[int, str]] = {}
        self._due: dict[str, Commit] = {}
        self._turnstile = Turnstile()
        self._closed = False

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        """See `Store.load`."""
        self._check_open()
        with self._guard:
            found = self._conversations.get(conversation_id)
            if found is None or found.last is None:
                return None
            number = None if request_id is None else found.inbox.get(request_id)
            recorded = None if number is None else found.records[number - 1]
            return Loaded(session=found.last.session, version=len(found.records), recorded=recorded)

    async def save(self, commit: Commit) -> None:
        """See `Store.save`. Durable only as long as this process."""
        self._check_open()
        with self._guard:
            found = self._conversations.get(commit.conversation_id)
            version = 0 if found is None else len(found.records)
            if version != commit.expected:
                raise wrong_version(commit, version)
            if found is None:
                found = self._conversations[commit.conversation_id] = _Conversation(commit.time)
            if commit.request_id is not None:
                if commit.request_id in found.inbox:
                    raise answered_already(commit)
                found.inbox[commit.request_id] = commit.expected + 1
            found.records.append(commit.record)
            found.last = commit
            if commit.due:
                self._due[commit.conversation_id] = commit
            else:
                self._due.pop(commit.conversation_id, None)
            self._journals.pop(commit.conversation_id, None)

    async def records(self, conversation_id: str, after: int = 0, limit: int | None = None) -> Sequence[str]:
        """See `Store.records`."""
        self._check_open()
        start = max(after, 0)
        with self._guard:
            found = self._conversations.get(conversation_id)
            stored = [] if found is None else found.records
            return tuple(stored[start:] if limit is None else stored[start : start + max(limit, 0)])

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        """See `Store.journal`."""
        self._check_open()
        with self._guard:
            steps = self._journals.setdefault(conversation_id, {})
            if step in steps:
                raise step_exists(conversation_id, step)
            steps[step] = text

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        """See `Store.journalled`."""
        self._check_open()
        with self._guard:
            return tuple(text for _, text in sorted(self._journals.get(conversation_id, {}).items()))

    async def forget_journal(self, conversation_id: str) -> None:
        """See `Store.forget_journal`."""
        self._check_open()
        with self._guard:
            self._journals.pop(conversation_id, None)

    def lock(self, conversation_id: str, timeout: float | None = None) -> AbstractAsyncContextManager[None]:
        """See `Store.lock`."""
        self._check_open()
        return self._turnstile.lock(conversation_id, timeout)

    async def list(self, after: str | None = None, limit: int = 100) -> Sequence[Listed]:
        """See `Store.list`."""
        self._check_open()
        with self._guard:
            known = self._conversations
            ids = heapq.nsmallest(max(limit, 0), (key for key in known if after is None or key > after))
            return tuple(
                Listed(
                    conversation_id=key,
                    definition=last.definition,
                    state=last.state,
                    ended=last.ended,
                    turns=len(known[key].records),
                    created=known[key].created,
                    updated=last.time,
                )
                for key in ids
                if (last := known[key].last) is not None
            )

    async def due(self, now: float, limit: int = 100, definition: str | None = None) -> Sequence[Due]:
        """See `Store.due`."""
        self._check_open()
        with self._guard:
            rows = (
                (time, name, kind)
                for name, commit in self._due.items()
                if definition is None or commit.definition == definition
                for time, kind in commit.due
                if time <= now
            )
            return tuple(
                Due(conversation_id=name, time=time, kind=kind)
                for time, name, kind in heapq.nsmallest(max(limit, 0), rows)
            )

    async def delete(self, conversation_id: str) -> bool:
        """See `Store.delete`."""
        self._check_open()
        with self._guard:
            self._due.pop(conversation_id, None)
            self._journals.pop(conversation_id, None)
            return self._conversations.pop(conversation_id, None) is not None

    async def close(self) -> None:
        """See `Store.close`."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the memory store is closed; open a new one")
