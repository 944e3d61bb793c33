"""One conversation as its caller holds it, and the turns it takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from llm_fsm.definition.names import Kind
from llm_fsm.engine.engine import Engine
from llm_fsm.engine.turn_runner import Outcome, due_rows
from llm_fsm.errors import ConversationConflict
from llm_fsm.session.events import Answered, Event, FlowPushed, FlowReturned, StateEntered, UserSaid
from llm_fsm.session.messages import Message, Paused, Usage
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import transcript
from llm_fsm.turn.available import Ahead, ahead


@dataclass(frozen=True, kw_only=True)  # without slots, so that `copies.made` can make it
class Turn:
    """One turn as its caller sees it.

    `text`: what was said. `previous_state`: where the message was heard; `moved`: a transition was made.
    `number`: 0 for the greeting, then 1, 2, …. `paused`: what the run waits for, None unless it waits for an answer.
    `output`: what the last task put out, or the last answer to a state that waits. `outcome`: how the run stands:
    passed (also: reached a final state), paused, exhausted, limited, failed (stuck, given up, or an answer was waited
    for in vain), cancelled, handover, closed (by `end`, or because the user stayed silent), or "" while it goes on.
    """

    text: str
    state: str
    previous_state: str
    moved: bool
    context: Mapping[str, Any]
    ended: bool
    paused: Paused | None
    request_id: str | None
    number: int
    usage: Usage
    events: tuple[Event, ...]
    output: Any = None
    outcome: str = ""
    conversation_id: str = ""


_OUTCOMES = {
    "final": "passed",
    "passed": "passed",
    "exhausted": "exhausted",
    "limited": "limited",
    "stuck": "failed",
    "expired": "failed",
    "host": "closed",
    "cancelled": "cancelled",
    "handover": "handover",
    "given_up": "failed",
    "silent": "closed",
}


_LEFT: Mapping[type[Event], Callable[[Event], str]] = {
    StateEntered: attrgetter("previous"),
    FlowPushed: attrgetter("state"),
    FlowReturned: attrgetter("ended"),
}
"""The state that a move leaves."""


def turn_of(outcome: Outcome) -> Turn:
    """The public view of a committed turn."""
    record, session = outcome.record, outcome.session
    left: str | None = None
    request_id: str | None = None
    for event in record.events:
        if type(event) is UserSaid or type(event) is Answered:
            request_id = event.request_id
        elif left is None and type(event) in _LEFT:
            left = _LEFT[type(event)](event)
    return Turn(
        text=record.text,
        state=session.state,
        previous_state=session.state if left is None else left,
        moved=left is not None,
        context=dict(session.root_context()),
        ended=session.ended,
        paused=session.pause,
        request_id=request_id,
        number=record.turn,
        usage=record.usage,
        events=record.events,
        output=session.input,
        outcome="paused" if session.pause is not None else _OUTCOMES.get(session.outcome or "", ""),
        conversation_id=session.conversation_id,
    )


class TurnStream:
    """The events of one turn as they happen; after the last one the turn is saved and `turn` is set.

    Words come as `MessageDelta` and are provisional until then. Leaving the loop early cancels the
    turn, unless it is saved already: `refresh` tells. A stream is gone through once: it is one message.
    """

    def __init__(self, run: Callable[[Callable[[str, Event], None]], Any]) -> None:
        self._run = run
        self._begun = False
        self._waiting: deque[Event] = deque()
        self.turn: Turn | None = None

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        if self._begun:
            raise RuntimeError("a stream is gone through once, and this one was; `turn.events` has its events")
        self._begun = True
        waiting, came = self._waiting, asyncio.Event()

        def hear(_: str, event: Event) -> None:
            waiting.append(event)
            came.set()

        task: asyncio.Task[Turn] = asyncio.create_task(self._run(hear))
        task.add_done_callback(lambda _: came.set())
        try:
            while waiting or not task.done():
                if waiting:
                    yield waiting.popleft()
                else:
                    came.clear()
                    await came.wait()
            self.turn = await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # whoever left the loop has no use for it, and asyncio would log it as forgotten


class AsyncConversation:
    """One conversation. `state`, `context`, `ended` are as of the last turn made here, or of `refresh`."""

    __slots__ = ("__weakref__", "_engine", "_session", "greeting")

    def __init__(self, engine: Engine, session: Session, greeting: str) -> None:
        self._engine = engine
        self._session = session
        self.greeting = greeting

    @property
    def id(self) -> str:
        """The id under which the conversation can be resumed; it never changes."""
        return self._session.conversation_id

    @property
    def state(self) -> str:
        """The id of the current state."""
        return self._session.state

    @property
    def due(self) -> float | None:
        """When something happens by itself next, in seconds since the epoch; None: never."""
        return min((at for at, _ in due_rows(self._session)), default=None)

    @property
    def kind(self) -> Kind | None:
        """The kind of the current state; None where this machine does not have it."""
        session = self._session
        program = self._engine.program.at(session)
        plan = None if program is None else program.states.get(session.state)
        return None if plan is None else plan.kind

    @property
    def context(self) -> dict[str, Any]:
        """A copy of what was collected; secrets included, system names not. Inside a subflow: what is outside it."""
        return dict(self._session.root_context())

    def data(self) -> dict[str, Any]:
        """What conditions read: the context and the system names."""
        return self._session.data()

    @property
    def ahead(self) -> Ahead:
        """What the model is going to be asked with next: open moves, missing keys, and keys that it is shown."""
        return ahead(self._engine.program, self._session)

    @property
    def ended(self) -> bool:
        """True when no further message can be sent."""
        return self._session.ended

    @property
    def memory(self) -> dict[str, Any]:
        """The working memory as JSON: bucket number to text, and `background`; empty ones are left out."""
        return dict(self._session.memory)

    @property
    def paused(self) -> Paused | None:
        """What the run waits for; None while it waits for nothing but the user."""
        return self._session.pause

    async def history(self) -> tuple[Message, ...]:
        """The whole conversation so far; empty, as `turns`, when it was deleted."""
        return transcript(await self._engine.records(self.id))

    async def turns(self) -> tuple[Turn, ...]:
        """Every turn on record, taken back or not, with its events; contexts are those of now."""
        records, session = await self._engine.records(self.id), self._session
        return tuple(turn_of(Outcome(record=record, session=session)) for record in records)

    async def refresh(self) -> None:
        """Read what other processes may have done. Raises ConversationNotFound."""
        self._session = await self._engine.load(self.id)

    async def send(self, text: str, *, request_id: str | None = None) -> Turn:
        """Take one message and answer it.

        Raises ValueError (empty or too long), ConversationEnded, ConversationNotFound (it was deleted meanwhile),
        ConversationConflict, ModelError, HandlerError, StoreError; after any of them nothing has changed and the
        same message may be sent again. But for the HandlerError of a handler at END_CONVERSATION: it comes when the
        turn is kept, and the conversation over. And where a store's server is gone for good, nobody knows: with its
        `request_id` a message is taken once.
        """
        outcome = await self._send(text, request_id, None)
        if outcome.again:
            return await self._taken(outcome)
        self._saw(outcome)
        return turn_of(outcome)

    def _send(
        self, text: str, request_id: str | None, sink: Callable[[str, Event], None] | None
    ) -> Coroutine[Any, Any, Outcome]:
        return self._engine.send(self.id, text, request_id, sink)

    def _saw(self, outcome: Outcome) -> None:
        self._session = outcome.session

    async def _taken(self, outcome: Outcome) -> Turn:
        if outcome.again:  # an old turn tells nothing of where the conversation is now
            await self.refresh()
        else:
            self._saw(outcome)
        return turn_of(outcome)

    def stream(self, text: str, *, request_id: str | None = None) -> TurnStream:
        """Like `send`, as a stream of events."""

        async def run(sink: Callable[[str, Event], None]) -> Turn:
            return await self._taken(await self._send(text, request_id, sink))

        return TurnStream(run)

    async def answer(self, value: object, *, request_id: str | None = None) -> Turn:
        """Answer what the run waits for, as it was when last looked at, and go on there.

        Raises ValueError for an answer that does not fit the schema of `paused`, ConversationConflict when
        somebody else answered first, when it has expired, and when nothing is waited for.
        """
        return await self._answer(value, request_id, None)

    def stream_answer(self, value: object, *, request_id: str | None = None) -> TurnStream:
        """Like `answer`, as a stream of events."""
        return TurnStream(lambda sink: self._answer(value, request_id, sink))

    async def _answer(
        self, value: object, request_id: str | None, sink: Callable[[str, Event], None] | None
    ) -> Turn:
        session = self._session
        if session.pause is None and session.settled is None:
            await self.refresh()
        pause = self._session.pause
        try:
            outcome = await self._engine.answer(
                self.id,
                value,
                pause_id=None if pause is None else pause.id,
                request_id=request_id,
                sink=sink,
            )
        except ConversationConflict:
            await self.refresh()
            raise
        return await self._taken(outcome)

    async def end(self) -> None:
        """Close the conversation for good, when a turn is finished that was interrupted after it had acted.

        Raises as `send` where that cannot be finished: then the conversation is as it was.
        """
        self._saw(await self._engine.end(self.id))

    async def undo(self) -> None:
        """Take the last turn back, as an event on record: not what its tools and handlers did outside.

        A turn that was interrupted after it had acted is finished first, and is the last one. A conversation that had
        ended goes on: its END_CONVERSATION handlers have run, and run again when it ends again. The turn's `request_id`
        stays used: a message that comes twice gets the answer on record, and none anew. Raises ConversationConflict
        when there is no turn, and as `send` where the interrupted one cannot be finished.
        """
        self._saw(await self._engine.undo(self.id))
