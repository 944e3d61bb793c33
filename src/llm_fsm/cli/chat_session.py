"""One conversation, for a program that waits: each call runs on one event loop and returns when it
is done.

An interrupt during a call cancels it and leaves the conversation as it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal

from llm_fsm._json import JsonDict
from llm_fsm.definition.models import Definition
from llm_fsm.engine.conversation import AsyncConversation, Turn, TurnStream
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.engine.recovery import under_way
from llm_fsm.session.events import MessageDelta, PromptRead
from llm_fsm.session.messages import Paused
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, parse, replay, without_undone
from llm_fsm.turn.choices import Choice
from llm_fsm.turn.compiled import CompiledMachine

Hear = Callable[[MessageDelta | PromptRead], None]
"""Is told words while they arrive, and how much of the prompt was read."""


class Talk:
    """A machine's conversation and the event loop that it is held on. `path`: the definition's
    file.
    """

    def __init__(
        self,
        runner: asyncio.Runner,
        machine: AsyncMachine,
        conversation: AsyncConversation,
        path: Path | None = None,
    ) -> None:
        self.path = path
        self._runner = runner
        self._machine = machine
        self._conversation = conversation

    @property
    def id(self) -> str:
        """The conversation's id."""
        return self._conversation.id

    @property
    def definition(self) -> Definition:
        """The definition that the conversation follows: the one it was begun with."""
        return self._runner.run(self._machine.definition_of(self.id))

    @property
    def greeting(self) -> str:
        """The text that was said first."""
        return self._conversation.greeting

    @property
    def ended(self) -> bool:
        """True when no further message can be sent."""
        return self._conversation.ended

    @property
    def paused(self) -> Paused | None:
        """The pause that waits for something beside messages; None: the conversation waits for
        nothing else.
        """
        return self._conversation.paused

    @property
    def choices(self) -> Sequence[Choice]:
        """The choices that the user has now."""
        return self._conversation.choices

    def send(self, text: str | Choice, hear: Hear | None = None) -> Turn:
        """Take a message or a choice; errors as of AsyncConversation.send. `hear` is told the words
        as they come.
        """
        if hear is None:
            return self._runner.run(self._conversation.send(text))
        return self._runner.run(_streamed(self._conversation.stream(text), hear))

    def answer(self, value: object, hear: Hear | None = None) -> Turn:
        """Answer what the conversation waits for; errors as of AsyncConversation.answer."""
        if hear is None:
            return self._runner.run(self._conversation.answer(value))
        return self._runner.run(_streamed(self._conversation.stream_answer(value), hear))

    def data(self) -> JsonDict:
        """Return the values that conditions read. Every turn changes them."""
        return self._conversation.data()

    def left_by_interrupt(self, before: JsonDict) -> Literal["kept", "begun", "gone"]:
        """Return what became of a turn that was interrupted.

        Args:
            before: `data` as it was before the turn.

        Returns:
            "kept": the turn is kept. "begun": it is finished when the conversation goes on. "gone":
            nothing is kept.
        """
        self.refresh()
        if self.data() != before:
            return "kept"
        return "begun" if self._runner.run(under_way(self._machine.store, self.id)).must else "gone"

    def is_idle(self) -> bool:
        """Return True if no turn is under way in this process."""
        return not asyncio.all_tasks(self._runner.get_loop())

    def seconds_left(self) -> float | None:
        """Seconds until something happens by itself; None: never."""
        due = self._conversation.due
        return None if due is None else max(0.0, due - time.time())

    def due(self) -> list[str]:
        """Do what is due, and return the texts that are said because nobody said anything."""
        turns = self._runner.run(self._machine.run_due())
        self.refresh()
        return [turn.text for turn in turns if turn.conversation_id == self.id and turn.text]

    def undo(self) -> None:
        """Take the last turn back. Raises ConversationConflict when there is none."""
        self._runner.run(self._conversation.undo())

    def refresh(self) -> None:
        """Read what other processes may have done."""
        self._runner.run(self._conversation.refresh())

    def records(self) -> Records:
        """Every turn on record."""
        return [parse(text) for text in self._runner.run(self._stored())]

    def session(self) -> Session:
        """The conversation as it is now, folded from its records."""
        return replay(self.id, self.records())

    def last_words(self) -> str:
        """Return the text that was said last, in turns that were not taken back."""
        return next(
            (record.text for _, record in reversed(without_undone(self.records())) if record.text),
            "",
        )

    def program(self) -> CompiledMachine:
        """The definition, compiled."""
        return self._machine.program

    async def _stored(self) -> Sequence[str]:
        return await self._machine.store.records(self.id)


async def _streamed(stream: TurnStream, hear: Hear) -> Turn:
    async with aclosing(aiter(stream)) as events:
        async for event in events:
            if isinstance(event, MessageDelta | PromptRead):
                hear(event)
    if stream.turn is None:
        raise RuntimeError("the stream of a turn ended without the turn")
    return stream.turn
