"""Run one turn: perform its effects, journal their results, tell its events, and commit once."""

from __future__ import annotations

import math
import time
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace as copy_with
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from llm_fsm._async import DeadlineExceeded, in_time
from llm_fsm._json import JsonDict, JsonMap, plain, read
from llm_fsm.engine.advice import advise_on_keys
from llm_fsm.engine.exactly_once import fingerprint
from llm_fsm.engine.journal import (
    Entry,
    Journal,
    entry_executed,
    entry_reply,
    entry_tool,
    entry_unanswered,
    executed_entry,
    reply_entry,
    result_entry,
    without_kind,
)
from llm_fsm.engine.observers import (
    HostWork,
    Observer,
    TurnAborted,
    TurnSaved,
    around,
    is_observed,
    publish,
)
from llm_fsm.engine.streaming import MessageStream, ReplyListener, SoFar
from llm_fsm.errors import HandlerError, ModelError, StoreError, told
from llm_fsm.session import events as ev
from llm_fsm.session.deadlines import due_rows, pause_kind
from llm_fsm.session.large_values import LARGE, Located, without_large
from llm_fsm.session.messages import ModelReply, Usage
from llm_fsm.session.session import Reference, Session, dump_session
from llm_fsm.session.turn_record import Kind, TurnRecord, dump
from llm_fsm.stores.base import Commit, Outgoing, Store
from llm_fsm.tools.executor import Perform
from llm_fsm.tools.failures import log_failure
from llm_fsm.tools.task_functions import Functions
from llm_fsm.tools.toolbox import Toolbox
from llm_fsm.turn import failures
from llm_fsm.turn.choices import Choice, choices_of
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import (
    AskModel,
    CallTools,
    CheckKeyResults,
    Effect,
    Execute,
    Executed,
    HandlerResults,
    OutOfTime,
    PickRoute,
    PlannedCall,
    Point,
    Result,
    Routed,
    RunHandlers,
    ToolResult,
    ToolResults,
    Unanswered,
    Verdicts,
)
from llm_fsm.turn.pipeline import Trigger
from llm_fsm.turn.secrets import secrets_in
from llm_fsm.turn.steps import Step, advance, begin, rehearse
from llm_fsm.turn.turn_state import TICK, HostCapabilities

_TALK = ("turn", "greeting", "words")


class TurnResult(NamedTuple):
    """A committed turn, and the session after it."""

    record: TurnRecord
    session: Session
    again: bool = False
    """True if it was returned before: the answer to a known request id."""
    choices: tuple[Choice, ...] = ()
    """The choices that the user has after it."""
    located: tuple[Located, ...] = ()
    """Large values of the session that are on record."""


class LoadedSession(NamedTuple):
    """A conversation as loaded under its lock. `version` 0: it does not exist yet.

    `pinned` is the SHA-256 of the definition that the store keeps for it, if any. `blank`: its
    journal was read under the same lock, and is empty. `located` are large values of the session
    that are on record. `has_journal`: a turn of it may be unfinished.
    """

    session: Session
    version: int
    pinned: str | None = None
    blank: bool = False
    located: tuple[Located, ...] = ()
    has_journal: bool = False


class TurnHost(Protocol):
    """The parts of a deployment that a turn needs."""

    store: Store
    toolbox: Toolbox
    functions: Functions
    timeout: float | None
    """Seconds for a turn, or for one effect of a run."""

    @property
    def reached(self) -> Callable[[Session], Awaitable[ev.LimitReached | None]] | None:
        """Returns the limit of `limits.per` that is reached before a turn; None without any."""

    @property
    def capabilities(self) -> HostCapabilities:
        """The settings of every turn."""

    @property
    def program(self) -> CompiledMachine:
        """The definition, compiled."""

    @property
    def name(self) -> str:
        """The name of the definition."""

    @property
    def identity(self) -> str:
        """The SHA-256 that conversations are pinned to."""

    @property
    def document(self) -> str:
        """The definition as canonical JSON."""

    @property
    def journals(self) -> bool:
        """True if turns may act."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def outgoing(self, record: TurnRecord, session: Session, number: int) -> tuple[Outgoing, ...]:
        """Return the outbox rows of a turn."""

    def committed(self, conversation_id: str) -> None:
        """Deliver the outbox rows of a committed turn."""

    def ask(
        self, effect: AskModel, left: float | None, listener: ReplyListener | None
    ) -> Awaitable[ModelReply]:
        """Call the model. Await the result at once."""

    async def run_handlers(
        self, effect: RunHandlers, left: Any, journal: Journal | None, *, ahead: bool = False
    ) -> HandlerResults:
        """Run the handlers of a point."""

    async def execute(self, effect: Execute, running: TurnRunner) -> Executed:
        """Run the function of a task."""


class TurnRunner:
    """One turn. `alone`: no caller waits for it, so the time-out applies to each effect, not to the
    whole."""

    def __init__(
        self,
        host: TurnHost,
        conversation_id: str,
        sink: Observer | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self.host = host
        self.id = conversation_id
        self.events: list[ev.Event] = []
        self.journal: Journal | None = None
        self._sink = sink
        self._stream = None if sink is None else MessageStream(self.tell)
        self._alone = alone
        self._began = time.monotonic()
        timeout = host.timeout
        self._deadline = None if timeout is None else self._began + timeout

    def left(self) -> float | None:
        """Return the seconds left for the next effect; None: no limit."""
        if self._alone:
            return self.host.timeout
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    @asynccontextmanager
    async def lock(self) -> AsyncGenerator[None]:
        """Lock the conversation. If the turn is not finished, observers are told."""
        async with self.host.store.lock(self.id, self.left()):
            try:
                yield
            except BaseException as error:
                if self.events and is_observed():
                    publish(self.id, self._aborted(error))
                raise

    def _aborted(self, error: BaseException) -> TurnAborted:
        return TurnAborted(
            definition=self.host.name,
            error=type(error).__name__,
            seconds=time.monotonic() - self._began,
        )

    async def open(
        self,
        turn: Entry,
        at: float,
        *,
        blank: bool = False,
        hold: bool = False,
        durable: bool = False,
    ) -> float:
        """Begin the turn, or resume it after a crash. `blank` is as in the loaded conversation,
        `hold` as in the opening. `durable`: the turn is on record before it begins, even if it only
        talks.

        Returns:
            The time at which the turn first began, in seconds since the epoch.
        """
        if not self.host.journals and not durable:
            return at
        origin: JsonDict = {"definition": self.host.name, "sha": self.host.identity}
        if hold:
            origin["hold"] = True
        if durable:
            origin["durable"] = "acts" if self.host.journals else "talks"
        journal = Journal(self.host.store, self.id, origin)
        acts = durable or bool(self.host.capabilities.points)
        began = await journal.open(turn, at, acts=acts, blank=blank)
        # A journal that could not be opened still belongs to the turn before.
        self.journal = journal
        return began

    def take(self, happened: Sequence[ev.Event]) -> None:
        self.events.extend(happened)
        for event in happened:
            match event:
                case ev.FunctionFailed():
                    log_failure(self.id, event)
                case ev.ContextSet(source="host"):
                    advise_on_keys(self.host.program, event.values)
        if self._sink is None and not is_observed():
            return
        for event in happened:
            if not isinstance(event, ev.Progressed):  # told already, when it was reported
                self.tell(event)

    def tell(self, event: ev.Event) -> None:
        publish(self.id, event)
        if self._sink is not None:
            if isinstance(event, ev.BotSaid) and self._stream is not None:
                self._stream.up_to(event.text)
            self._sink(self.id, event)

    def tell_again(self, happened: Sequence[ev.Event]) -> None:
        """Give the events of a recorded turn to the listener of this one."""
        sink = self._sink
        if sink is None:
            return
        for event in happened:
            if isinstance(event, ev.BotSaid):
                sink(self.id, ev.MessageDelta(text=event.text, provisional=False))
            sink(self.id, event)

    async def play(self, session: Session, trigger: Trigger) -> Step:
        """Begin the turn, and perform effects until it is over. `session`: before the turn."""
        host = self.host
        capabilities = host.capabilities
        # What began before a crash is finished, whatever it costs.
        if host.reached is not None and not (self.journal and self.journal.is_resumed):
            capabilities = copy_with(capabilities, reached=await host.reached(session))
        step = begin(host.program, session, trigger, capabilities)
        self.take(step.events)
        # The turn decides how many effects it needs; its limits see to it that they end.
        while step.effect is not None:
            try:
                result = await self.perform(step.effect, step)
            except HandlerError as error:
                if error.failed is not None:
                    self.take((failures.redacted_failure(step.turn, error.failed),))
                raise
            step = advance(step, result)
            self.take(step.events)
        return step

    async def failed(self) -> None:
        """Record that the turn failed and its caller knows, so that nobody else has to finish
        it."""
        if self.journal is not None:
            with suppress(StoreError):  # the original error matters more
                await self.journal.fail()

    async def stopped(self, *, first: bool = False) -> None:
        """Record that somebody stopped the turn, so that nobody else takes it up. `first`: also if
        nothing of it is recorded."""
        if self.journal is not None:
            with suppress(StoreError):  # the original error matters more
                await self.journal.stop(first=first)

    async def erred(self, error: BaseException) -> None:
        """Record that an attempt without a caller ended with an error. A cancelled one is handed
        back: the next looker takes it up at once."""
        if self.journal is not None:
            with suppress(StoreError):  # the original error matters more
                await self.journal.err(
                    told(error), self.host.now(), handed_back=isinstance(error, CancelledError)
                )

    def _listener(self, step: Step, stream: MessageStream) -> ReplyListener | None:
        """Return the listener of the reply that the step asks for; None if nobody may hear it
        before it is complete."""
        asks = isinstance(step.effect, AskModel) and step.effect.asked_for in _TALK
        if not asks or Point.POST_PROCESSING in self.host.capabilities.points:
            return None

        async def judge(head: str) -> SoFar | None:
            # Handlers before the move may forbid it, so they run before any text is shown.
            trial = rehearse(step, head)
            while isinstance(trial.effect, RunHandlers):
                effect = trial.effect
                try:
                    found = await self.host.run_handlers(
                        effect, self.left, self.journal, ahead=True
                    )
                except HandlerError:
                    return None  # raised again later, if the reply leads there
                trial = advance(trial, found)
            return None if trial.turn.promise is None else trial.turn.so_far

        return ReplyListener(stream, judge)

    # -- effects

    def perform(self, effect: Effect, step: Step) -> Awaitable[Result]:
        """Perform the effect of a step, with a journal if it acts. Await the result at once."""
        match effect:
            case AskModel(asked_for="summary"):
                return self._summary(effect)
            case AskModel():
                listener = None if self._stream is None else self._listener(step, self._stream)
                if self.journal is None:
                    return self.asked(effect, listener)
                return self._model(self.journal, effect, listener)
            case RunHandlers():
                return self.host.run_handlers(effect, self.left, self.journal)
            case CallTools():
                return self.tools(effect)
            case CheckKeyResults():
                return self._checks(effect)
            case PickRoute():
                return self._route(effect)
            case _:
                return self._function(effect)

    async def _model(
        self, journal: Journal, effect: AskModel, listener: ReplyListener | None
    ) -> ModelReply | OutOfTime:
        fetched: list[ModelReply | OutOfTime] = []

        async def fetch() -> JsonMap:
            fetched.append(await self.asked(effect, listener))
            return reply_entry(fetched[0])

        acts = bool(self.host.capabilities.points) or effect.asked_for not in _TALK
        entry = await journal.once("model", fetch, acts=acts)
        return fetched[0] if fetched else entry_reply(entry)

    async def _summary(self, effect: AskModel) -> ModelReply | OutOfTime | Unanswered:
        """Get a summary. A turn with a caller goes on without one; a run stops."""

        async def fetch() -> JsonMap:
            began = time.monotonic()
            try:
                return reply_entry(await self.asked(effect))
            except ModelError as error:
                if self._alone:
                    raise
                seconds = max(error.seconds, time.monotonic() - began)
                return {
                    "unanswered": str(error),
                    "attempts": max(error.attempts, 1),
                    "seconds": seconds,
                }

        entry = await fetch() if self.journal is None else await self.journal.once("model", fetch)
        return entry_unanswered(entry) if "unanswered" in entry else entry_reply(entry)

    def asked(
        self, effect: AskModel, listener: ReplyListener | None = None
    ) -> Awaitable[ModelReply] | Awaitable[ModelReply | OutOfTime]:
        """Get the model's reply within the time that is left for the turn and for the run."""
        left = self.left()
        if effect.left is not None:
            return self._asked_in_time(effect, effect.left, left, listener)
        if listener is not None:
            return self._heard(effect, left, listener)
        return self.host.ask(effect, left, listener)

    async def _heard(
        self, effect: AskModel, left: float | None, listener: ReplyListener
    ) -> ModelReply:
        """Get a streamed reply. Its end is a sign of life, so the time of the turn begins anew."""
        reply = await self.host.ask(effect, left, listener)
        if self._deadline is not None and self.host.timeout is not None:
            self._deadline = time.monotonic() + self.host.timeout
        return reply

    async def _asked_in_time(
        self, effect: AskModel, limit: float, left: float | None, listener: ReplyListener | None
    ) -> ModelReply | OutOfTime:
        began = time.monotonic()
        asked = self.host.ask(effect, limit if left is None else min(left, limit), listener)
        try:
            reply = await in_time(asked, limit)  # a stream does not prolong the time of a run
        except DeadlineExceeded:
            return OutOfTime(seconds=time.monotonic() - began)
        except ModelError:
            waited = time.monotonic() - began
            if waited < limit - TICK:
                raise
            return OutOfTime(seconds=waited)
        return replace(reply, seconds=max(reply.seconds, time.monotonic() - began))

    async def tools(
        self, effect: CallTools, calls: tuple[PlannedCall, ...] | None = None
    ) -> ToolResults:
        """Run a batch of calls, or these of it. Calls whose results the journal has are not made
        again."""

        async def performed(call: PlannedCall, perform: Perform) -> ToolResult:
            with around(HostWork("tool", self.id, call.name, call.key)):
                return await perform()

        async def kept(call: PlannedCall, perform: Perform) -> ToolResult:
            if self.journal is None:
                return await performed(call, perform)

            async def fetch() -> JsonMap:
                return result_entry(await performed(call, perform))

            def lost() -> JsonMap:
                return result_entry(ToolResult(id=call.id, name=call.name, unknown=True))

            begun = lost if call.at_most_once else None
            like = fingerprint(call) if call.at_most_once else ""
            found = entry_tool(await self.journal.keyed(call.key, fetch, begun=begun, call=like))
            return found if found.id == call.id else replace(found, id=call.id)

        return await self.host.toolbox.run(
            effect.calls if calls is None else calls,
            effect.state,
            conversation_id=self.id,
            agreed=effect.agreed,
            timeout=self.time_left(effect.left),
            around=kept,
        )

    async def _checks(self, effect: CheckKeyResults) -> Verdicts:
        async def fetch() -> JsonMap:
            with around(HostWork("function", self.id, "checks")):
                found = await self.host.functions.verdicts(
                    effect.checks, effect.data, self.time_left(effect.left)
                )
            entry: Entry = plain(found)
            return entry

        entry = await fetch() if self.journal is None else await self.journal.once("checks", fetch)
        return read(entry, Verdicts, "a journal cannot be read: checks")

    async def _route(self, effect: PickRoute) -> Routed:
        async def fetch() -> JsonMap:
            with around(HostWork("function", self.id, effect.function)):
                found = await self.host.functions.route(
                    effect.function, effect.data, self.time_left(effect.left)
                )
            entry: Entry = plain(found)
            return entry

        entry = await fetch() if self.journal is None else await self.journal.once("route", fetch)
        return read(entry, Routed, "a journal cannot be read: route")

    async def _function(self, effect: Execute) -> Executed:
        async def executed() -> Executed:
            with around(HostWork("function", self.id, effect.function)):
                return await self.host.execute(effect, self)

        async def fetch() -> JsonMap:
            return executed_entry(await executed())

        if self.journal is None:
            return await executed()
        return entry_executed(await self.journal.keyed(effect.key, fetch))

    async def nested(self, key: str, fetch: Any) -> Entry:
        """Get a result under a key of its own, for the work of a function."""
        entry: Entry = (
            await fetch() if self.journal is None else await self.journal.keyed(key, fetch)
        )
        return without_kind(entry)

    def time_left(self, limit: float | None) -> float:
        """Return the seconds that the host's own code may take. `limit` is the time left for the
        run."""
        left = None if self._alone else self.left()
        return min(math.inf if left is None else left, math.inf if limit is None else limit)

    # -- the end

    async def commit(
        self, kind: Kind, session: Session, loaded: LoadedSession, usage: Usage
    ) -> TurnResult:
        """Write the turn that led from the loaded conversation to `session`."""
        own = session.definition == self.host.identity
        now = self.host.now()
        record = TurnRecord(
            kind=kind,
            turn=session.turn,
            usage=usage,
            events=tuple(self.events),
            time=now,
            missed=kind == "message" and session.brought_nothing(),
        )
        number = loaded.version + 1
        request_ids = record.request_ids
        posted = self.host.outgoing(record, session, number)
        record_text = dump(record)
        # A session without large values is stored as it is.
        lean, located = session, loaded.located
        large: Mapping[str, Reference] = {}
        if located or len(record_text) > LARGE:  # else no value on record is large
            lean, large, located = without_large(session, located, {number: record.events})
        await self.host.store.save(
            Commit(
                conversation_id=self.id,
                expected=loaded.version,
                session=dump_session(lean, large),
                record=record_text,
                request_id=request_ids[0] if request_ids else None,
                merged=tuple((other, number) for other in request_ids[1:]),
                definition=self.host.name,
                state=session.state,
                ended=session.ended,
                time=now,
                due=due_rows(session),
                outbox=posted,
                definition_sha=session.definition if own else loaded.pinned,
                definition_text=self.host.document
                if own and loaded.pinned != session.definition
                else None,
                metadata=session.metadata,
                paused=pause_kind(session),
            )
        )
        if posted:
            self.host.committed(self.id)
        # Looking for secrets costs time, so it is done only if somebody listens.
        if is_observed():
            publish(self.id, self._saved(record, session))
        choices = choices_of(self.host.program, session) if own else ()
        return TurnResult(record, session, choices=choices, located=located)

    def _saved(self, record: TurnRecord, session: Session) -> TurnSaved:
        contexts = session.context, session.root_context()
        is_secret = self.host.program.is_secret
        return TurnSaved(
            definition=self.host.name,
            kind=record.kind,
            turn=record.turn,
            state=session.state,
            ended=session.ended,
            usage=record.usage,
            missed=record.missed,
            seconds=time.monotonic() - self._began,
            secrets=secrets_in(record.events, is_secret, contexts, session.secrets),
            release=session.release,
            arm=session.arm,
        )
