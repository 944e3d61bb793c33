"""The methods of a store that reads and writes elsewhere: in a thread, or over a connection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, TypeVar

from llm_fsm.stores.base import (
    AcceptedMessage,
    AcceptedQuery,
    Commit,
    DueRow,
    FindsJournals,
    JournalQuery,
    Listed,
    ListQuery,
    Loaded,
    OutboxQuery,
    Posted,
)

T = TypeVar("T")
Work: TypeAlias = Callable[[Any], T]
"""A call of an object with the methods of `Store`."""
Calls: TypeAlias = Sequence[Work[Any]]


class ForwardingStore(FindsJournals):
    """Each method of `Store` is called there, on an object with the same methods."""

    @abstractmethod
    async def _read(self, work: Work[T]) -> T:
        """Call `work` there with the object."""

    async def _list(self, work: Work[T]) -> T:
        """Call `work`, which reads of many conversations, there with the object.

        A store that can answer it beside its turns does so, because such work may take long.
        """
        return await self._read(work)

    @abstractmethod
    async def _write(self, work: Work[T]) -> T:
        """Call `work` there with the object. A cancelled caller waits until it is finished."""

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        return await self._read(lambda kept: kept.load(conversation_id, request_id))

    async def save(self, commit: Commit) -> None:
        await self._write(lambda kept: kept.save(commit))

    async def records(
        self, conversation_id: str, after: int = 0, limit: int | None = None
    ) -> Sequence[str]:
        return await self._read(lambda kept: kept.records(conversation_id, after, limit))

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        await self._write(lambda kept: kept.journal(conversation_id, step, text))

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        return await self._read(lambda kept: kept.journalled(conversation_id))

    async def forget_journal(self, conversation_id: str) -> None:
        await self._write(lambda kept: kept.forget_journal(conversation_id))

    async def _unfinished(self, query: JournalQuery) -> Sequence[str]:
        return await self._list(lambda kept: kept.unfinished(query, self._is_held))

    def _is_held(self, _conversation_id: str) -> bool:
        """Return true if this process holds the lock of a conversation, as far as that is known at
        once.
        """
        return False

    async def accept(self, message: AcceptedMessage) -> AcceptedMessage:
        return await self._write(lambda kept: kept.accept(message))

    async def accepted(self, query: AcceptedQuery) -> Sequence[AcceptedMessage]:
        if query.conversation_id is not None:
            return await self._read(lambda kept: kept.accepted(query))
        return await self._list(lambda kept: kept.accepted(query))

    async def mark_accepted(
        self, conversation_id: str, request_id: str, state: str, before: Collection[str]
    ) -> str | None:
        return await self._write(
            lambda kept: kept.mark_accepted(conversation_id, request_id, state, before)
        )

    async def drop_accepted(self, conversation_id: str, request_id: str) -> None:
        await self._write(lambda kept: kept.drop_accepted(conversation_id, request_id))

    async def list(self, query: ListQuery) -> Sequence[Listed]:
        return await self._list(lambda kept: kept.listed(query))

    async def count(self, query: ListQuery) -> int:
        return await self._list(lambda kept: kept.counted(query))

    async def definition(self, sha: str) -> str | None:
        return await self._read(lambda kept: kept.definition(sha))

    async def due(
        self, now: float, limit: int = 100, definition: str | None = None
    ) -> Sequence[DueRow]:
        return await self._list(lambda kept: kept.due(now, limit, definition))

    async def outbox(self, query: OutboxQuery) -> Sequence[Posted]:
        if query.conversation_id is not None:
            return await self._read(lambda kept: kept.outbox(query))
        return await self._list(lambda kept: kept.outbox(query))

    async def acknowledge(self, posted: Posted) -> None:
        await self._write(lambda kept: kept.acknowledge(posted))

    async def delete(self, conversation_id: str) -> bool:
        return await self._write(lambda kept: kept.delete(conversation_id))
