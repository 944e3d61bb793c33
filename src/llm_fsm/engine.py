"""The shell: it locks, loads, has turns performed, and commits each of them once.

Everything that touches the world is here, in `running`, or behind a port. Whatever fails before the commit
leaves no trace but the journal; what was committed is given out, and given out again for the same request id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_fsm import events as ev
from llm_fsm.admission import admit, checked_id, checked_message, expected, fitting
from llm_fsm.asking import ask
from llm_fsm.course import Answer, Heard, Opening
from llm_fsm.definition import Definition
from llm_fsm.effects import AskModel, Execute, Executed, HandlerResults, Point, RunHandlers
from llm_fsm.errors import (
    ConversationConflict,
    ConversationNotFound,
    DefinitionError,
    HandlerError,
    LLMFSMError,
    ModelError,
)
from llm_fsm.execution import execute
from llm_fsm.folding import fold
from llm_fsm.functions import Functions
from llm_fsm.handlers import ErrorMode, Handler
from llm_fsm.journal import Journal
from llm_fsm.kit import Kit
from llm_fsm.llm.base import LLM
from llm_fsm.messages import ModelReply, Usage
from llm_fsm.observers import Observer
from llm_fsm.outputs import agrees
from llm_fsm.points import run_point
from llm_fsm.program import Program, not_yet_runnable
from llm_fsm.records import TurnRecord, parse, parse_session, replay, standing
from llm_fsm.recovery import begin_again, identity, is_same, said, under_way
from llm_fsm.running import Outcome, Running, is_due
from llm_fsm.session import Session, to_dict
from llm_fsm.stores.base import Loaded, Store, storable
from llm_fsm.toolbox import Toolbox
from llm_fsm.turn import Means, apologise, begin, begin_answer, begin_due, begin_run, begin_start


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
        publish: Observer,
        toolbox: Toolbox,
        functions: Functions,
        now: Callable[[], float],
        summaries: bool = True,
    ) -> None:
        self.program = program
        self.now = now
        self.store = store
        self.toolbox = toolbox
        self.functions = functions
        self.timeout = timeout
        self.means = Means(summaries=summaries)
        self._llm = llm
        self._error_mode = error_mode
        self._publish = publish
        self._handlers: tuple[Handler, ...] = ()
        self._ready = not (program.works or program.definition.tools)

    def add_handler(self, handler: Handler) -> None:
        """Register a handler; it runs from the next turn on."""
        self._handlers = tuple(sorted((*self._handlers, handler), key=lambda item: item.priority))
        points = frozenset(point for item in self._handlers for point in item.points)
        self.means = replace(self.means, points=points)

    async def prepare(self) -> None:
        """Find every tool and function that the definition names, once. Raises ConfigurationError."""
        if self._ready:
            return
        self.functions.check(self.program)
        terms = await self.toolbox.terms(self.program.definition)
        states = {name: tuple(plan.state.tools) for name, plan in self.program.states.items()}
        self.means = replace(self.means, kit=Kit(terms, states))
        self._ready = True

    # -- what callers ask for

    async def start(self, opening: Opening) -> Outcome:
        """Begin a conversation. Raises ConversationConflict for an id that exists."""
        if refused := list(not_yet_runnable(self.program.definition)):
            raise DefinitionError(refused)
        await self.prepare()
        checked_id(opening.conversation_id, "conversation id")
        if opening.state is not None and opening.state not in self.program.states:
            known = ", ".join(self.program.states)
            raise ValueError(f"there is no state {opening.state!r} to start in; the states are {known}")
        turn = Running(self, opening.conversation_id)
        async with turn.lock():
            if await self.store.load(opening.conversation_id) is not None:
                raise ConversationConflict(
                    f"a conversation with the id {opening.conversation_id!r} exists already"
                )
            began = opening.time
            if not opening.hold or self.means.points:
                began = await turn.open(said(Heard(text="", time=began)), began)
            step = begin_start(self.program, replace(opening, time=began), self.means)
            step = await turn.play(step)
            outcome = await turn.commit("start", step.session, 0, step.usage, None)
        await self._after(outcome)
        return outcome

    async def send(
        self, conversation_id: str, text: str, request_id: str | None, sink: Observer | None
    ) -> Outcome:
        """Take one message. The same request id gives the recorded turn."""
        heard = Heard(text=checked_message(text), time=self.now(), request_id=request_id)
        if request_id is not None:
            checked_id(request_id, "request id")
        await self.prepare()
        turn = Running(self, checked_id(conversation_id, "conversation id"), sink)
        async with turn.lock():
            loaded = await self._loaded(conversation_id, request_id)
            session, version = parse_session(loaded.session), loaded.version
            if loaded.recorded is not None:
                again = await self._recorded(heard, session, loaded.recorded)
                turn.tell_again(again.record.events)
                return again
            session, version = await self._settled(session, version, heard.time, said(heard))
            self.check(session)
            heard = replace(heard, time=await turn.open(said(heard), heard.time))
            try:
                step = await turn.play(begin(self.program, session, heard, self.means))
                after, usage = step.session, step.usage
            except (ModelError, HandlerError) as error:
                words = await self._words_for(error, session, turn)
                if words is None:
                    raise
                after, happened = apologise(session, heard, error, words)
                first, *rest = happened
                called = [item for item in turn.events if isinstance(item, ev.ToolReturned | ev.ToolRefused)]
                turn.events, usage = [first, *called, *rest], Usage()
            outcome = await turn.commit("message", after, version, usage, request_id)
        await self._after(outcome)
        return outcome

    async def go_on(self, conversation_id: str, sink: Observer | None = None) -> Outcome:
        """Play a run without a user as far as it goes: from its beginning, or from where a crash left it.

        A run that waits, for an answer or for a user, or is over stays as it is: its last turn is given again.
        """
        await self.prepare()
        turn = Running(self, checked_id(conversation_id, "conversation id"), sink, alone=True)
        async with turn.lock():
            session, version = await self.load(conversation_id)
            session, version = await self._settled(session, version, self.now(), {"kind": "run"})
            talks = session.state in self.program.states and session.previous_state is not None
            talks = talks and self.program.states[session.state].kind == "converse"
            if session.ended or session.pause is not None or talks:
                *_, last = await self.records(conversation_id)
                return Outcome(record=last, session=session)
            self.check(session)
            began = await turn.open({"kind": "run"}, self.now())
            step = await turn.play(begin_run(self.program, session, began, self.means))
            outcome = await turn.commit("run", step.session, version, step.usage, None)
        await self._after(outcome)
        return outcome

    async def answer(
        self,
        conversation_id: str,
        value: object,
        *,
        pause_id: str | None,
        request_id: str | None,
        sink: Observer | None = None,
    ) -> Outcome:
        """Answer what a run waits for; `pause_id` None: whatever that is now.

        Raises ValueError for an answer that does not fit, ConversationConflict when it is answered already, has
        expired, or waits for nothing.
        """
        if request_id is not None:
            checked_id(request_id, "request id")
        await self.prepare()
        alone = self.program.alone
        turn = Running(self, checked_id(conversation_id, "conversation id"), sink, alone=alone)
        async with turn.lock():
            now = self.now()
            loaded = await self._loaded(conversation_id, request_id)
            session, version = parse_session(loaded.session), loaded.version
            if loaded.recorded is not None:
                return await self._answered(value, session, loaded.recorded)
            asked = "" if session.pause is None else session.pause.id
            mine = {"kind": "answer", "id": asked, "value": value, "request_id": request_id}
            session, version = await self._settled(session, version, now, mine)
            pause = expected(session, pause_id)
            plain = fitting(pause, value)
            identity = {"kind": "answer", "id": pause.id, "value": plain, "request_id": request_id}
            given = Answer(value=plain, time=await turn.open(identity, now), request_id=request_id)
            step = await turn.play(begin_answer(self.program, session, given, self.means))
            outcome = await turn.commit("answer", step.session, version, step.usage, request_id)
        await self._after(outcome)
        return outcome

    async def fire(self, conversation_id: str, now: float) -> Outcome | None:
        """Do what a conversation has due at `now` (seconds since the epoch); None when that is nothing."""
        await self.prepare()
        async with self.store.lock(checked_id(conversation_id, "conversation id"), self.timeout):
            loaded = await self.store.load(conversation_id)
            if loaded is None:
                return None
            session = parse_session(loaded.session)
            if not is_due(session, now) or session.state not in self.program.states:
                return None
            return await self._finished(session, loaded.version, {}) or await self._fire(
                session, loaded.version, now
            )

    async def end(self, conversation_id: str) -> Outcome:
        """Close a conversation for good; closing it twice is the same as once."""
        turn = Running(self, checked_id(conversation_id, "conversation id"))
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
        turn = Running(self, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            _, version = await self.load(conversation_id)
            kept = standing(await self.records(conversation_id))
            if len(kept) < 2:
                raise ConversationConflict("there is no turn to take back")
            number, _ = kept[-1]
            session = replay(conversation_id, [record for _, record in kept[:-1]])
            turn.take((ev.TurnUndone(record=number, session=to_dict(session)),))
            return await turn.commit("undo", session, version, Usage(), None)

    async def load(self, conversation_id: str) -> tuple[Session, int]:
        """A conversation's session and version. Raises ConversationNotFound."""
        loaded = await self._loaded(checked_id(conversation_id, "conversation id"))
        return parse_session(loaded.session), loaded.version

    async def records(self, conversation_id: str) -> Sequence[TurnRecord]:
        """All turn records of a conversation, in order."""
        return [parse(text) for text in await self.store.records(conversation_id)]

    def check(self, session: Session) -> None:
        """Raise where a conversation cannot take a message on this machine."""
        admit(self.program, session)

    # -- behind them

    async def _loaded(self, conversation_id: str, request_id: str | None = None) -> Loaded:
        loaded = await self.store.load(conversation_id, request_id)
        if loaded is None:
            raise ConversationNotFound(f"there is no conversation {conversation_id!r} in this store")
        return loaded

    async def _settled(
        self, session: Session, version: int, now: float, turn: Mapping[str, Any]
    ) -> tuple[Session, int]:
        """The session after what was interrupted and what is due; a turn that is taken up finds all as it was."""
        if self.journals:
            first, _ = await under_way(self.store, session.conversation_id)
            if first is not None and is_same(first, turn):
                return session, version
            finished = await self._finished(session, version, turn)
            if finished is not None:
                session, version = finished.session, version + 1
        if session.pause is None or not is_due(session, now) or session.state not in self.program.states:
            return session, version
        outcome = await self._fire(session, version, now)
        return outcome.session, version + 1

    async def _finished(self, session: Session, version: int, turn: Mapping[str, Any]) -> Outcome | None:
        """The turn that was interrupted and must not be forgotten, played to its end; None when there is none."""
        first, must = await under_way(self.store, session.conversation_id)
        if first is None or not must or (turn and is_same(first, turn)):
            return None
        running = Running(self, session.conversation_id, alone=self.program.alone)
        began = await running.open(identity(first), first["time"])
        step = begin_again(self.program, session, first, began, self.means)
        if step is None:
            return None
        step = await running.play(step)
        outcome = await running.commit(
            first["kind"], step.session, version, step.usage, first.get("request_id")
        )
        await self._after(outcome)
        return outcome

    async def _fire(self, session: Session, version: int, now: float) -> Outcome:
        turn = Running(self, session.conversation_id, alone=True)
        asked = "" if session.pause is None else session.pause.id
        began = await turn.open({"kind": "due", "id": asked}, now)
        step = await turn.play(begin_due(self.program, session, began, self.means))
        outcome = await turn.commit("due", step.session, version, step.usage, None)
        await self._after(outcome)
        return outcome

    async def _answered(self, value: object, session: Session, text: str) -> Outcome:
        record = parse(text)
        given = next((event for event in record.events if isinstance(event, ev.Answered)), None)
        if given is None or not agrees(given.value, value):
            raise ConversationConflict(
                "this request id was already used for something else; use a new id for each answer"
            )
        return Outcome(record=record, session=await self._session_after(record, session), again=True)

    async def _session_after(self, record: TurnRecord, session: Session) -> Session:
        records = await self.records(session.conversation_id)
        number = next((n for n, item in enumerate(records, 1) if item == record), len(records))
        return session if number == len(records) else replay(session.conversation_id, records[:number])

    async def execute(self, effect: Execute, running: Running) -> Executed:
        """Run the function of a task."""
        return await execute(self, self.program, effect, running)

    async def _recorded(self, heard: Heard, session: Session, text: str) -> Outcome:
        record = parse(text)
        before = record.heard
        if before is not None and before.text != heard.text:
            raise ConversationConflict(
                f"request id {heard.request_id!r} was already used for another message; use a new id for each message"
            )
        return Outcome(record=record, session=await self._session_after(record, session), again=True)

    async def _words_for(self, error: LLMFSMError, session: Session, turn: Running) -> str | None:
        if Point.ERROR not in self.means.points:
            return None
        effect = RunHandlers(point=Point.ERROR, session=session, error=error)
        results = await self.run_handlers(effect, turn.left, turn.journal)
        return next((result.text for result in reversed(results.results) if result.text), None)

    async def _after(self, outcome: Outcome) -> None:
        """END_CONVERSATION runs when the end is on record; what it returns is not stored any more."""
        if outcome.session.ended and Point.END_CONVERSATION in self.means.points:
            effect = RunHandlers(
                point=Point.END_CONVERSATION, session=outcome.session, text=outcome.record.text
            )
            await self.run_handlers(effect, None)

    async def run_handlers(
        self, effect: RunHandlers, left: Callable[[], float | None] | None, journal: Journal | None = None
    ) -> HandlerResults:
        """Run the handlers of one point in order."""
        return await run_point(self._handlers, effect, self._error_mode, left, journal)

    async def ask(self, effect: AskModel, left: float | None) -> ModelReply:
        """Call the model within what is left of the turn's time."""
        return await ask(self._llm(), effect, left, self.timeout)

    @property
    def name(self) -> str:
        """The name of the definition, as stores keep it."""
        return storable(self.program.definition.name)

    @property
    def journals(self) -> bool:
        """True when turns may do more than talk."""
        return self.program.works or bool(self.means.points)

    @property
    def definition(self) -> Definition:
        """The definition that this engine runs."""
        return self.program.definition

    def publish(self, conversation_id: str, event: ev.Event) -> None:
        """Tell whoever observes."""
        self._publish(conversation_id, event)
