"""One conversation and its turns, as a caller sees them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from llm_fsm._json import JsonDict, JsonMap, copied
from llm_fsm._text import cut
from llm_fsm.definition.names import Kind
from llm_fsm.engine import edits
from llm_fsm.engine.engine import Engine
from llm_fsm.engine.kept_turns import KeptTurns
from llm_fsm.engine.observers import Observer
from llm_fsm.engine.turn_runner import TurnResult
from llm_fsm.engine.validation import checked_message, checked_speaker, checked_values
from llm_fsm.errors import ConversationConflict
from llm_fsm.session.deadlines import due_rows
from llm_fsm.session.events import (
    Answered,
    Event,
    FlowPushed,
    FlowReturned,
    LimitReached,
    StateEntered,
    Updated,
    UserSaid,
)
from llm_fsm.session.messages import Message, Paused, Usage
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, transcript
from llm_fsm.turn.available import Ahead, ahead
from llm_fsm.turn.choices import Choice
from llm_fsm.turn.pipeline import Update

if TYPE_CHECKING:
    from llm_fsm.records.explain import Explanation

_SHOWN = 60  # characters of a turn's text in its `repr`


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn as its caller sees it.

    Attributes:
        text: The text that the user sees.
        state: Id of the state after the turn.
        previous_state: Id of the state in which the message arrived.
        moved: True if a transition was made.
        ended: True if the conversation is over.
        paused: The pause, if the run waits for an answer.
        request_id: The caller's id of the message.
        number: 0 for the greeting, then 1, 2, and so on.
        usage: Model calls, tokens, time and cost.
        events: All events of the turn.
        output: The output of the last task, or the last answer to a state that waits.
        outcome: The result of the run: passed, paused, exhausted, limited, failed, cancelled,
            handover, closed. Or it is the `outcome` of the final state; one without it passes.
            A run fails that is stuck, given up, or has no answer in time. `end` and silence close
            it. While the conversation goes on, it is limited if `limits.per` allowed no call of a
            model, else "".
        conversation_id: Id of the conversation.
        choices: The choices that the user has now, for buttons; `send` takes one of them. Turns
            that are read from the record have none.
    """

    text: str
    state: str
    previous_state: str
    moved: bool
    _context: JsonMap = field(repr=False)
    ended: bool
    paused: Paused | None
    request_id: str | None
    number: int
    usage: Usage
    events: tuple[Event, ...]
    output: Any = None
    outcome: str = ""
    conversation_id: str = ""
    choices: tuple[Choice, ...] = ()

    @property
    def context(self) -> JsonDict:
        """A copy of the outermost context after the turn."""
        found: JsonDict = copied(self._context)
        return found

    def __repr__(self) -> str:
        """Show number, state and text, but no value of the context, which may be secret."""
        how = f", {self.outcome or 'ended'}" if self.ended or self.paused is not None else ""
        name, text = type(self).__name__, cut(self.text, _SHOWN)
        return f"<{name} {self.number} in state {self.state!r}{how}: {text!r}>"


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
"""Event to the state that it leaves."""


def turn_of(result: TurnResult) -> Turn:
    """Return the public view of a committed turn."""
    record, session = result.record, result.session
    left: str | None = None
    request_id: str | None = None
    outcome = ""
    for event in record.events:
        match event:
            case UserSaid() | Answered() | Updated():
                request_id = event.request_id
            case LimitReached() if event.per:
                outcome = "limited"
            case _ if left is None and type(event) in _LEFT:
                left = _LEFT[type(event)](event)
    if session.pause is not None:
        outcome = "paused"
    elif session.outcome is not None:
        outcome = _OUTCOMES.get(session.outcome, session.outcome)
    return Turn(
        text=record.text,
        state=session.state,
        previous_state=session.state if left is None else left,
        moved=left is not None,
        _context=session.root_context(),
        ended=session.ended,
        paused=session.pause,
        request_id=request_id,
        number=record.turn,
        usage=record.usage,
        events=record.events,
        output=session.input,
        outcome=outcome,
        conversation_id=session.conversation_id,
        choices=result.choices,
    )


def turns_of(conversation_id: str, records: Iterable[TurnRecord]) -> Iterator[Turn]:
    """Yield the public views of all records of a conversation, oldest first."""
    session = Session(conversation_id=conversation_id)
    for record in records:
        session = fold(session, record.events)
        yield turn_of(TurnResult(record=record, session=session))


class TurnStream:
    """The events of one turn as they happen. After the last event, the turn is saved and `turn` is
    set.

    Text arrives as `MessageDelta`, and is provisional until then. Leaving the loop early cancels
    the turn, unless it is saved already or the stream was made with `keep=True`; `refresh` shows
    which. You can iterate over a stream once, because it is one message.

    Raises:
        RuntimeError: You iterate a second time.
    """

    def __init__(self, run: Callable[[Observer], Any], kept: KeptTurns | None = None) -> None:
        self._run = run
        self._kept = kept
        self._begun = False
        self._task: asyncio.Task[Turn] | None = None
        self._waiting: deque[Event] = deque()
        self.turn: Turn | None = None

    def __repr__(self) -> str:
        if self.turn is not None:
            how = repr(self.turn)
        elif self._begun:
            how = "under way"
        else:
            how = "not begun"
        return f"<{type(self).__name__}: {how}>"

    async def play(self, observer: Callable[[Event], None]) -> Turn:
        """Send the message, and call a function with each event as it happens.

        It costs less than a loop over the stream, because no task is woken for each event.

        Args:
            observer: A plain function of an event. If it raises, the turn is not saved.

        Returns:
            The turn.

        Raises:
            RuntimeError: The stream was used before.
        """
        self._begin()
        run = self._run(lambda _, event: observer(event))
        self.turn = await (run if self._kept is None else asyncio.shield(self._started(run)))
        return self.turn

    async def finish(self) -> Turn:
        """Wait until the turn is saved, after its reader left. A stream that was not read is sent.

        Returns:
            The turn.

        Raises:
            CancelledError: The reader left, and the stream was not made with `keep=True`.
            LLMFSMError: The errors of `send`.
        """
        if not self._begun:
            return await self.play(lambda _: None)
        if self._task is not None:
            self.turn = await asyncio.shield(self._task)
        if self.turn is None:
            raise asyncio.CancelledError
        return self.turn

    def _begin(self) -> None:
        if self._begun:
            raise RuntimeError(
                "a stream is gone through once, and this one was; `turn.events` has its events"
            )
        self._begun = True

    def _started(self, run: Coroutine[Any, Any, Turn]) -> asyncio.Task[Turn]:
        """Return the task of the turn, which is held if it is to be kept."""
        task = self._task = asyncio.create_task(run)
        if self._kept is not None:
            self._kept.add(task)
        return task

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        self._begin()
        waiting, came = self._waiting, asyncio.Event()
        left = False

        def receive(_: str, event: Event) -> None:
            if not left:
                waiting.append(event)
                came.set()

        task = self._started(self._run(receive))
        # The end of the turn wakes the reader, too, because it may come without an event.
        task.add_done_callback(lambda _: came.set())
        try:
            # Events may still wait when the task is done, so both must be asked.
            while waiting or not task.done():
                if waiting:
                    yield waiting.popleft()
                else:
                    # Cleared before waiting: an event between the two is not lost, because nothing
                    # is awaited here.
                    came.clear()
                    await came.wait()
            self.turn = await task
        finally:
            left = True
            if self._kept is None and not task.done():
                task.cancel()
                await asyncio.wait([task])
            if task.done() and not task.cancelled():
                task.exception()  # nobody waits for it, and asyncio would log it as never retrieved


class AsyncConversation:
    """One conversation with a user: send messages, and read its state.

    `state`, `context` and the other properties show the last turn made here, or the last `refresh`.
    `AsyncMachine.start` and `AsyncMachine.resume` make conversations.
    """

    __slots__ = ("__weakref__", "_engine", "_session", "choices", "greeting", "is_new")

    def __init__(
        self,
        engine: Engine,
        session: Session,
        greeting: str,
        choices: tuple[Choice, ...] = (),
        *,
        is_new: bool = False,
    ) -> None:
        self.is_new = is_new
        """True if the call that gave this object began the conversation."""
        self._engine = engine
        self._session = session
        self.greeting = greeting
        self.choices = choices
        """The choices that the user has after the last turn made here, or after `refresh`."""

    def __repr__(self) -> str:
        return self._described(type(self).__name__)

    def _described(self, kind: str) -> str:
        """Return the `repr` of this conversation, with the name of a class."""
        if self.ended:
            how = ", ended"
        elif self.paused is not None:
            how = ", waits for an answer"
        else:
            how = ""
        return f"<{kind} {self.id!r} in state {self.state!r}{how}>"

    @property
    def id(self) -> str:
        """The id under which the conversation can be resumed. It never changes."""
        return self._session.conversation_id

    @property
    def state(self) -> str:
        """The id of the current state."""
        return self._session.state

    @property
    def due(self) -> float | None:
        """Time of the next time-out or reminder, in seconds since the epoch; None: there is
        none."""
        return min((at for at, _ in due_rows(self._session)), default=None)

    @property
    def kind(self) -> Kind | None:
        """The kind of the current state; None if this machine does not have the state."""
        session = self._session
        program = self._engine.program.at(session)
        plan = None if program is None else program.states.get(session.state)
        return None if plan is None else plan.kind

    @property
    def context(self) -> JsonDict:
        """A copy of the outermost context, with secrets and without system names."""
        found: JsonDict = copied(self._session.root_context())
        return found

    def data(self) -> JsonDict:
        """As `Conversation.data`."""
        found: JsonDict = copied(self._session.data())
        return found

    @property
    def ahead(self) -> Ahead:
        """The content of the next prompt: open moves, missing keys, and keys that the model
        sees."""
        return ahead(self._engine.program, self._session)

    @property
    def ended(self) -> bool:
        """True if no further message can be sent."""
        return self._session.ended

    @property
    def memory(self) -> JsonDict:
        """The working memory as JSON: bucket number to text, and `background`, without empty
        ones."""
        return dict(self._session.memory)

    @property
    def metadata(self) -> dict[str, str]:
        """The labels that it was begun with, as {key: text}."""
        return dict(self._session.metadata)

    @property
    def generation(self) -> int:
        """The number of its beginnings: `open(id, anew=True)` begins it again after an end."""
        return self._session.generation

    @property
    def paused(self) -> Paused | None:
        """The pause of the run; None if it waits for nothing but the user."""
        return self._session.pause

    async def history(self) -> tuple[Message, ...]:
        """Return all messages so far.

        Returns:
            The messages, oldest first. They are empty if the conversation was deleted.
        """
        return transcript(await self._engine.records(self.id))

    async def turns(self) -> tuple[Turn, ...]:
        """Return every turn on record, undone or not.

        Returns:
            The turns, oldest first, with their events. Each has the state, context and outcome
            after it.
        """
        return tuple(turns_of(self.id, await self._engine.records(self.id)))

    async def why(self, number: int | None = None) -> Explanation:
        """As `Conversation.why`, awaited."""
        from llm_fsm.records.explain import explain_turn  # noqa: PLC0415 - seldom used

        engine = self._engine
        session = await engine.load(self.id)
        deployment = await engine.versions.find(session.definition)
        program = engine.program if deployment is None else deployment.program
        found = explain_turn(program, self.id, await engine.records(self.id), number)
        if found is None:
            raise ValueError(f"there is no turn {number} in this conversation")
        return found

    async def refresh(self) -> None:
        """Load changes that other processes made.

        Raises:
            ConversationNotFound: The conversation was deleted.
        """
        self._session = await self._engine.load(self.id)
        self.choices = await self._engine.choices(self._session)

    async def send(
        self, text: str | Choice, *, request_id: str | None = None, durable: bool = False
    ) -> Turn:
        """As `Conversation.send`, awaited."""
        result = await self._send(text, request_id, None, durable=durable)
        if result.again:
            return await self._taken(result)
        self._saw(result)
        return turn_of(result)

    def _send(
        self,
        text: str | Choice,
        request_id: str | None,
        sink: Observer | None,
        *,
        durable: bool = False,
    ) -> Coroutine[Any, Any, TurnResult]:
        return self._engine.send(self.id, text, request_id, sink, durable=durable)

    def _saw(self, result: TurnResult) -> None:
        self._session = result.session
        self.choices = result.choices

    async def _taken(self, result: TurnResult) -> Turn:
        if result.again:  # an old turn does not show where the conversation is now
            await self.refresh()
        else:
            self._saw(result)
        return turn_of(result)

    def stream(
        self,
        text: str | Choice,
        *,
        request_id: str | None = None,
        keep: bool = False,
        durable: bool = False,
    ) -> TurnStream:
        """As `Conversation.stream`."""

        async def run(sink: Observer) -> Turn:
            return await self._taken(await self._send(text, request_id, sink, durable=durable))

        return TurnStream(run, self._engine.kept if keep else None)

    async def heard(self, number: int, text: str) -> None:
        """As `Conversation.heard`, awaited."""
        if not isinstance(text, str):
            raise TypeError(f"what was heard is a text, not a {type(text).__name__}")
        self._saw(await edits.heard(self._engine, self.id, number, text))

    async def answer(
        self, value: object, *, pause: str | None = None, request_id: str | None = None
    ) -> Turn:
        """As `Conversation.answer`, awaited. `pause` None is the one of the last turn made here, or
        of `refresh`."""
        return await self._answer(value, pause, request_id, None)

    def stream_answer(
        self, value: object, *, pause: str | None = None, request_id: str | None = None
    ) -> TurnStream:
        """As `Conversation.stream_answer`."""
        return TurnStream(lambda sink: self._answer(value, pause, request_id, sink))

    async def _answer(
        self, value: object, pause: str | None, request_id: str | None, sink: Observer | None
    ) -> Turn:
        if pause is None:
            pause = await self._seen_pause()
        try:
            result = await self._engine.answer(
                self.id, value, pause_id=pause, request_id=request_id, sink=sink
            )
        # Somebody else has answered. The caller sees the conversation as it is now.
        except ConversationConflict:
            await self.refresh()
            raise
        return await self._taken(result)

    async def _seen_pause(self) -> str | None:
        """Return the id of the pause that the caller can have seen; None for none."""
        session = self._session
        # This object may be older than the pause, so it looks once more before it says that there
        # is none.
        if session.pause is None and session.settled is None:
            await self.refresh()
        seen = self._session.pause
        return None if seen is None else seen.id

    async def update(
        self,
        context: JsonMap | None = None,
        state: str | None = None,
        *,
        request_id: str | None = None,
        agreed: bool = False,
    ) -> Turn:
        """As `Conversation.update`, awaited."""
        # An update that changes nothing would still be a turn on record.
        if not context and state is None:
            raise ValueError("an update has a context, a state, or both")
        given = Update(
            time=self._engine.now(),
            context=checked_values(context),
            state=state,
            request_id=request_id,
            agreed=agreed,
        )
        return await self._taken(await self._engine.update(self.id, given))

    async def say(self, text: str, *, by: str = "", request_id: str | None = None) -> Turn:
        """As `Conversation.say`, awaited."""
        given = Update(
            time=self._engine.now(),
            text=checked_message(text),
            request_id=request_id,
            by=checked_speaker(by),
        )
        return await self._taken(await self._engine.update(self.id, given))

    async def end(self) -> None:
        """As `Conversation.end`, awaited."""
        self._saw(await edits.end(self._engine, self.id))

    async def undo(self) -> None:
        """As `Conversation.undo`, awaited."""
        self._saw(await edits.undo(self._engine, self.id))
