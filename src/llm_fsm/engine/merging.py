"""Merge messages of one conversation that come close together into one turn.

People send "hello", "I need a room" and "for two" within seconds. One turn answers all of them.
Only messages that reach the same process and event loop are merged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from llm_fsm.engine.observers import Observer
from llm_fsm.engine.turn_runner import TurnResult
from llm_fsm.errors import ConversationConflict
from llm_fsm.session.events import Event
from llm_fsm.turn.pipeline import UserMessage

Answer = Callable[[str, UserMessage, Observer | None], Awaitable[TurnResult]]
"""Answers a message of a conversation."""


@dataclass(slots=True)
class _Batch:
    messages: list[UserMessage] = field(default_factory=list)
    sinks: list[Observer] = field(default_factory=list)
    task: asyncio.Task[TurnResult] | None = None

    def merged(self) -> UserMessage:
        """Return one message with the texts of all."""
        first = self.messages[0]
        if len(self.messages) == 1:
            return first
        request_id = next(
            (message.request_id for message in self.messages if message.request_id is not None),
            None,
        )
        text = "\n".join(message.text for message in self.messages)
        merged = tuple((message.request_id, message.text) for message in self.messages)
        return UserMessage(text=text, time=first.time, request_id=request_id, merged=merged)

    def tell(self, conversation_id: str, event: Event) -> None:
        for sink in self.sinks:
            sink(conversation_id, event)


class Merger:
    """Messages that wait for others of their conversation, for a number of seconds from the first
    one."""

    def __init__(self, seconds: float, answer: Answer) -> None:
        self._seconds = seconds
        self._answer = answer
        self._waiting: dict[tuple[asyncio.AbstractEventLoop, str], _Batch] = {}
        self._under_way: dict[tuple[asyncio.AbstractEventLoop, str], _Batch] = {}

    async def send(
        self, conversation_id: str, message: UserMessage, sink: Observer | None
    ) -> TurnResult:
        """Wait for other messages, and return the turn that answers all. A caller who leaves takes
        no message along.

        Raises:
            ConversationConflict: The request id just arrived with another text.
        """
        place = (asyncio.get_running_loop(), conversation_id)
        batch = self._under_way.get(place)
        if batch is None or not _repeats(batch.messages, message):
            # A turn under way takes no more messages: they wait for the next one.
            batch = self._waiting.setdefault(place, _Batch())
            if not _repeats(batch.messages, message):
                batch.messages.append(message)
        if sink is not None:
            batch.sinks.append(sink)
        if batch.task is None:
            batch.task = asyncio.create_task(self._turn(place, batch))
        # Others wait for the same turn, so one caller who leaves must not cancel it.
        return await asyncio.shield(batch.task)

    async def _turn(
        self, place: tuple[asyncio.AbstractEventLoop, str], batch: _Batch
    ) -> TurnResult:
        await asyncio.sleep(self._seconds)
        while (before := self._under_way.get(place)) is not None and before.task is not None:
            await asyncio.wait([before.task])  # later messages join the waiting ones
        # Both in one step, without an await: no message can fall between the two tables.
        self._under_way[place] = self._waiting.pop(place)
        try:
            return await self._answer(place[1], batch.merged(), batch.tell if batch.sinks else None)
        finally:
            del self._under_way[place]


def _repeats(waiting: Sequence[UserMessage], message: UserMessage) -> bool:
    """Return true for a message that waits already, because it was sent twice."""
    if message.request_id is None:
        return False
    same = [item for item in waiting if item.request_id == message.request_id]
    if any(item.text != message.text for item in same):
        raise ConversationConflict(
            f"request id {message.request_id!r} was already used for another message; "
            "use a new id for each message"
        )
    return bool(same)
