"""The shell of a turn: it locks, loads, performs what the core wishes, and commits once.

Everything that touches the world is here or behind a port. Whatever fails before the commit leaves no
trace but the journal; what was committed is given out, and given out again for the same request id.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

from llm_fsm import events as ev
from llm_fsm.context import ValueFault, to_json_value
from llm_fsm.course import MAX_MESSAGE_CHARS, Heard, Opening
from llm_fsm.definition import Definition
from llm_fsm.effects import AskModel, HandlerResult, HandlerResults, Point, Result, RunHandlers
from llm_fsm.errors import (
    ConversationConflict,
    ConversationEnded,
    ConversationNotFound,
    DefinitionError,
    HandlerError,
    LLMFSMError,
    ModelError,
)
from llm_fsm.handlers import ErrorMode, Handler, occasion_of, run
from llm_fsm.journal import Journal, entry_reply, entry_result, reply_entry, result_entry
from llm_fsm.llm.base import LLM
from llm_fsm.messages import LLMRequest, ModelReply, Usage
from llm_fsm.program import Program, not_yet_runnable
from llm_fsm.records import TurnRecord, dump, dump_session, parse, parse_session, replay, standing
from llm_fsm.session import Session, fold
from llm_fsm.session import to_dict as session_document
from llm_fsm.stores.base import Commit, Store
from llm_fsm.turn import Means, Step, advance, apologise, begin, begin_start

_UNSTORABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

Publish = Callable[[str, ev.Event], None]

_ENDED = {
    "final": "This conversation has ended; please start a new one.",
    "host": "This conversation has been closed; please start a new one.",
    "stuck": "This conversation could not be continued; please start a new one.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One turn as it was committed, and the session after it."""

    record: TurnRecord
    session: Session


def checked_id(text: object, what: str) -> str:
    """An id that a caller gave. Raises ValueError for what no store could keep."""
    if not isinstance(text, str) or not text or len(text) > 200:
        raise ValueError(f"a {what} is a text of 1 to 200 characters")
    if _UNSTORABLE.search(text):
        raise ValueError(f"a {what} must not contain control characters or halves of surrogate pairs")
    return text


def checked_message(text: object) -> str:
    """A user's message. Raises ValueError when it is empty or too long."""
    if not isinstance(text, str):
        raise ValueError(f"a message is text, not {type(text).__name__}")  # noqa: TRY004 - the documented error
    if not text.strip():
        raise ValueError("the message is empty")
    if len(text) > MAX_MESSAGE_CHARS:
        raise ValueError(f"the message is {len(text)} characters long; at most {MAX_MESSAGE_CHARS} are read")
    return text


class Engine:
    """Runs turns of one machine. Cheap to make; holds no conversation."""

    def __init__(
        self,
        *,
        program: Program,
        llm: Callable[[], LLM],
        store: Store,
        timeout: float | None,
        error_mode: ErrorMode,
        publish: Publish,
    ) -> None:
        self.program = program
        self.store = store
        self._llm = llm
        self._timeout = timeout
        self._error_mode = error_mode
        self._publish = publish
        self._handlers: tuple[Handler, ...] = ()
        self._points: frozenset[Point] = frozenset()
        self._means = Means()

    def add_handler(self, handler: Handler) -> None:
        """Register a handler; it runs from the next turn on."""
        self._handlers = tuple(sorted((*self._handlers, handler), key=lambda item: item.priority))
        self._points = frozenset(point for item in self._handlers for point in item.points)
        self._means = replace(self._means, points=self._points)

    # -- what callers ask for

    async def start(self, opening: Opening) -> Outcome:
        """Begin a conversation. Raises ConversationConflict for an id that exists."""
        refused = list(not_yet_runnable(self.program.definition))
        if refused:
            raise DefinitionError(refused)
        checked_id(opening.conversation_id, "conversation id")
        if opening.state is not None and opening.state not in self.program.states:
            known = ", ".join(self.program.states)
            raise ValueError(f"there is no state {opening.state!r} to start in; the states are {known}")
        turn = _Running(self, opening.conversation_id)
        async with turn.lock():
            if await self.store.load(opening.conversation_id) is not None:
                raise ConversationConflict(
                    f"a conversation with the id {opening.conversation_id!r} exists already"
                )
            heard = Heard(text="", time=opening.time)
            heard = await turn.open(heard)
            step = begin_start(self.program, replace(opening, time=heard.time), self._means)
            step = await turn.play(step)
            outcome = await turn.commit("start", step.session, 0, step.usage, None)
        await self._after(outcome)
        return outcome

    async def send(
        self, conversation_id: str, text: str, request_id: str | None, sink: Publish | None
    ) -> Outcome:
        """Take one message. The same request id gives the recorded turn."""
        heard = Heard(text=checked_message(text), time=time.time(), request_id=request_id)
        if request_id is not None:
            checked_id(request_id, "request id")
        turn = _Running(self, checked_id(conversation_id, "conversation id"), sink)
        async with turn.lock():
            loaded = await self.store.load(conversation_id, request_id)
            if loaded is None:
                raise ConversationNotFound(f"there is no conversation {conversation_id!r} in this store")
            session = parse_session(loaded.session)
            if loaded.recorded is not None:
                return await self._recorded(heard, session, loaded.recorded)
            self.check(session)
            heard = await turn.open(heard)
            try:
                step = await turn.play(begin(self.program, session, heard, self._means))
                after, usage = step.session, step.usage
            except (ModelError, HandlerError) as error:
                words = await self._words_for(error, session, turn)
                if words is None:
                    raise
                after, happened = apologise(session, heard, error, words)
                turn.events, usage = list(happened), Usage()
            outcome = await turn.commit("message", after, loaded.version, usage, request_id)
        await self._after(outcome)
        return outcome

    async def end(self, conversation_id: str) -> Outcome:
        """Close a conversation for good; closing it twice is the same as once."""
        turn = _Running(self, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            session, version = await self.load(conversation_id)
            if session.ended:
                return Outcome(
                    record=TurnRecord(kind="end", turn=session.turn, usage=Usage(), events=()),
                    session=session,
                )
            turn.take((ev.Ended(outcome="host"),))
            session = fold(session, turn.events)
            outcome = await turn.commit("end", session, version, Usage(), None)
        await self._after(outcome)
        return outcome

    async def undo(self, conversation_id: str) -> Outcome:
        """Take the last turn back. Raises ConversationConflict when there is none."""
        turn = _Running(self, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            _, version = await self.load(conversation_id)
            kept = standing(await self.records(conversation_id))
            if len(kept) < 2:
                raise ConversationConflict("there is no turn to take back")
            number, _ = kept[-1]
            session = replay(conversation_id, [record for _, record in kept[:-1]])
            turn.take((ev.TurnUndone(record=number, session=session_document(session)),))
            return await turn.commit("undo", session, version, Usage(), None)

    async def load(self, conversation_id: str) -> tuple[Session, int]:
        """A conversation's session and version. Raises ConversationNotFound."""
        loaded = await self.store.load(conversation_id)
        if loaded is None:
            raise ConversationNotFound(f"there is no conversation {conversation_id!r} in this store")
        return parse_session(loaded.session), loaded.version

    async def records(self, conversation_id: str) -> Sequence[TurnRecord]:
        """All turn records of a conversation, in order."""
        return [parse(text) for text in await self.store.records(conversation_id)]

    def check(self, session: Session) -> None:
        """Raise where a conversation cannot take a message on this machine."""
        if session.ended:
            raise ConversationEnded(_ENDED.get(session.outcome or "final", _ENDED["final"]))
        if session.state not in self.program.states:
            raise ConversationConflict(
                f"conversation {session.conversation_id!r} is in state {session.state!r}, which the definition "
                f"{self.program.definition.name!r} does not have; open it with the definition it was started with"
            )

    # -- behind them

    async def _recorded(self, heard: Heard, session: Session, text: str) -> Outcome:
        record = parse(text)
        before = record.heard
        if before is not None and before.text != heard.text:
            raise ConversationConflict(
                f"request id {heard.request_id!r} was already used for another message; use a new id for each message"
            )
        if record.turn != session.turn:
            records = await self.records(session.conversation_id)
            number = next((n for n, item in enumerate(records, 1) if item.heard == before), len(records))
            session = replay(session.conversation_id, records[:number])
        return Outcome(record=record, session=session)

    async def _words_for(self, error: LLMFSMError, session: Session, turn: _Running) -> str | None:
        if Point.ERROR not in self._points:
            return None
        effect = RunHandlers(point=Point.ERROR, session=session, error=error)
        results = await turn.handlers(effect)
        return next((result.text for result in reversed(results.results) if result.text), None)

    async def _after(self, outcome: Outcome) -> None:
        """END_CONVERSATION runs when the end is on record; what it returns is not stored any more."""
        if outcome.session.ended and Point.END_CONVERSATION in self._points:
            effect = RunHandlers(
                point=Point.END_CONVERSATION, session=outcome.session, text=outcome.record.text
            )
            await self.run_handlers(effect, None)

    async def run_handlers(
        self, effect: RunHandlers, left: Callable[[], float | None] | None, journal: Journal | None = None
    ) -> HandlerResults:
        """Run the handlers of one point in order; each sees what those before it changed."""
        context: dict[str, Any] = dict(effect.session.context)
        results: list[HandlerResult] = []
        for handler in self._handlers:
            occasion = occasion_of(effect, context)
            if not handler.wants(occasion):
                continue

            async def perform(handler: Handler = handler, occasion: Any = occasion) -> Mapping[str, Any]:
                timeout = None if left is None else left()
                return result_entry(
                    _plain(await run(handler, occasion, mode=self._error_mode, timeout=timeout))
                )

            kind = f"{effect.point.value}:{handler.name}"
            entry = await perform() if journal is None else await journal.once(kind, perform)
            result = entry_result(entry)
            results.append(result)
            _overlay(context, result.changes)
            if result.veto is not None:
                break
        return HandlerResults(results=tuple(results))

    async def ask(self, effect: AskModel, left: float | None) -> ModelReply:
        """Call the model within what is left of the turn's time."""
        llm = self._llm()
        request: LLMRequest = replace(effect.request, timeout=left) if left is not None else effect.request
        if getattr(llm, "reads_view", False):
            request = replace(request, view=effect.view())
        if left is None:
            return await llm.complete(request)
        try:
            async with asyncio.timeout(left):
                return await llm.complete(request)
        except TimeoutError as error:
            raise ModelError(
                f"the model did not answer within {self._timeout:g} seconds", retryable=True
            ) from error

    @property
    def points(self) -> frozenset[Point]:
        """The points that have handlers."""
        return self._points

    @property
    def definition(self) -> Definition:
        """The definition that this engine runs."""
        return self.program.definition

    def deadline(self) -> float | None:
        """When a turn that begins now must be over, on the monotonic clock."""
        return None if self._timeout is None else time.monotonic() + self._timeout

    def publish(self, conversation_id: str, event: ev.Event) -> None:
        """Tell whoever observes."""
        self._publish(conversation_id, event)


def _plain(result: HandlerResult) -> HandlerResult:
    """A handler's result with its changes as JSON values; what has no JSON form becomes its error."""
    changes: dict[str, Any] = {}
    faults: list[str] = []
    for key, value in result.changes.items():
        try:
            changes[str(key)] = to_json_value(value)
        except ValueFault as fault:
            faults.append(f"key {key!r}: {fault}")
    return replace(result, changes=changes, error="; ".join(faults) or result.error)


def _overlay(context: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            context.pop(key, None)
        elif not key.startswith("_"):
            context[key] = value


class _Running:
    """One turn while it runs: its deadline, its journal, and what happened so far."""

    def __init__(self, engine: Engine, conversation_id: str, sink: Publish | None = None) -> None:
        self.engine = engine
        self.id = conversation_id
        self.deadline = engine.deadline()
        self.events: list[ev.Event] = []
        self.journal: Journal | None = None
        self._sink = sink

    def left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def lock(self) -> AbstractAsyncContextManager[None]:
        return self.engine.store.lock(self.id, self.left())

    async def open(self, heard: Heard) -> Heard:
        if not self.engine.points:
            return heard
        self.journal = Journal(self.engine.store, self.id)
        return await self.journal.open(heard)

    def take(self, happened: Sequence[ev.Event]) -> None:
        self.events.extend(happened)
        for event in happened:
            self.engine.publish(self.id, event)
            if self._sink is not None:
                if isinstance(event, ev.BotSaid):
                    self._sink(self.id, ev.MessageDelta(text=event.text))
                self._sink(self.id, event)

    async def play(self, step: Step) -> Step:
        """Perform effects until the turn is over."""
        self.take(step.events)
        while step.effect is not None:
            result: Result
            if isinstance(step.effect, AskModel):
                result = await self.model(step.effect)
            else:
                result = await self.handlers(step.effect)
            step = advance(step, result)
            self.take(step.events)
        return step

    async def model(self, effect: AskModel) -> ModelReply:
        async def perform() -> Mapping[str, Any]:
            return reply_entry(await self.engine.ask(effect, self.left()))

        if self.journal is None:
            return await self.engine.ask(effect, self.left())
        return entry_reply(await self.journal.once("model", perform))

    async def handlers(self, effect: RunHandlers) -> HandlerResults:
        return await self.engine.run_handlers(effect, self.left, self.journal)

    async def commit(
        self, kind: Any, session: Session, expected: int, usage: Usage, request_id: str | None
    ) -> Outcome:
        record = TurnRecord(kind=kind, turn=session.turn, usage=usage, events=tuple(self.events))
        await self.engine.store.save(
            Commit(
                conversation_id=self.id,
                expected=expected,
                session=dump_session(session),
                record=dump(record),
                request_id=request_id,
                definition=self.engine.definition.name,
                state=session.state,
                ended=session.ended,
                time=time.time(),
            )
        )
        return Outcome(record=record, session=session)
