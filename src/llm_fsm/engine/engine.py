"""The engine: it locks, loads, plays and commits turns.

All contact with the world is here, in `turn_runner` and `deployment`, or behind a port. A failure
before the commit leaves nothing but the journal. A committed turn is returned, and returned again
for the same request id.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from llm_fsm._json import JsonMap, in_unicode
from llm_fsm._text import visible
from llm_fsm.engine.accepted import claim, next_accepted, refuse, user_message
from llm_fsm.engine.deployment import Deployment, Services
from llm_fsm.engine.handlers.end import run_end_handlers, run_forgotten_end_handlers
from llm_fsm.engine.handlers.registry import Handler
from llm_fsm.engine.idempotency import answered_before, turn_again
from llm_fsm.engine.journal import LOGGER, MOST_DEATHS, TurnParked
from llm_fsm.engine.kept_turns import KeptTurns
from llm_fsm.engine.merging import Merger
from llm_fsm.engine.observers import Observer
from llm_fsm.engine.recovery import (
    KINDS,
    LeftTurn,
    Trigger,
    UnderWay,
    identity,
    interrupted,
    interrupted_start,
    is_same,
    journal_entries,
    left_turn,
    only_talked,
    start_identity,
    under_way,
)
from llm_fsm.engine.turn_runner import LoadedSession, TurnResult, TurnRunner
from llm_fsm.engine.validation import (
    Request,
    check_input_read,
    checked_answer,
    checked_message,
    checked_trigger,
)
from llm_fsm.engine.versions import DefinitionVersions, Policy
from llm_fsm.errors import (
    ConfigurationError,
    ConversationConflict,
    ConversationError,
    ConversationNotFound,
    HandlerError,
    LLMFSMError,
    ModelError,
    StoreError,
)
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.session import events as ev
from llm_fsm.session.deadlines import is_due
from llm_fsm.session.messages import Usage
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session, session_to_dict
from llm_fsm.session.turn_record import TurnRecord, parse, replay, without_undone
from llm_fsm.stores.base import PARKED, AcceptedMessage, Loaded, Store, checked_id, storable
from llm_fsm.turn.choices import Choice, choices_of
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import Point, RunHandlers
from llm_fsm.turn.heard import heard_event
from llm_fsm.turn.pipeline import Answer, Due, Opening, Resume, Update, UserMessage
from llm_fsm.turn.steps import apologise, apology, begin

_ENDS = (CancelledError, KeyboardInterrupt, SystemExit)
"""Exceptions by which somebody ends a turn. After GeneratorExit nothing can be awaited."""


class NothingDueError(Exception):
    """Nothing is due in the conversation, or nobody here can play it."""


class Engine:
    """Runs turns of one machine. It is cheap to make, and holds no conversation."""

    def __init__(self, *, program: CompiledMachine, services: Services, policy: Policy) -> None:
        self.services = services
        self.store = services.store
        self._reader = SessionReader(services.store)
        self.now = services.now
        self.versions = DefinitionVersions(services, program, policy)
        self.kept = KeptTurns()
        self._resumed = False
        self._merger = Merger(services.merge_within, self.take) if services.merge_within else None

    @property
    def program(self) -> CompiledMachine:
        """The machine's own definition, compiled."""
        return self.versions.current.program

    def add_handler(self, handler: Handler) -> None:
        """Register a handler. It runs from the next turn on."""
        self.versions.add_handler(handler)

    async def prepare(self) -> Deployment:
        """Return the machine's own deployment, with every tool and function that it names.

        Raises:
            ConfigurationError: A tool or function is missing.
        """
        current = self.versions.current
        if not current.is_ready:
            await current.prepare()
        return current

    async def resume_deliveries(self, *, again: bool = False) -> None:
        """Resume deliveries that a dead process left; once, or `again`."""
        if self._resumed and not again:
            return
        self._resumed = True
        await self.services.dispatcher.resume()
        if Point.END_CONVERSATION in self.services.points:
            with suppress(
                HandlerError
            ):  # the failed handler counts as run, and does not concern this caller
                await run_forgotten_end_handlers(await self.prepare())

    # -- requests of callers

    async def start(self, opening: Opening, sink: Observer | None = None) -> TurnResult:
        """Begin a conversation.

        Raises:
            ConversationConflict: The id exists.
            ValueError: The id, the state or the context is wrong.
        """
        deployment = await self.prepare()
        checked_id(opening.conversation_id, "conversation id")
        if opening.state is not None and opening.state not in self.program.states:
            known = ", ".join(self.program.states)
            raise ValueError(
                f"there is no state {opening.state!r} to start in; the states are {known}"
            )
        turn = TurnRunner(deployment, opening.conversation_id, sink)
        async with turn.lock():
            before = await self._before(opening)
            entry = start_identity(deployment.program, opening)
            try:
                result = await self._begin(turn, deployment, opening, entry, before)
            except LLMFSMError:
                await turn.failed()
                raise
            except _ENDS:
                await turn.stopped()
                raise
        await run_end_handlers(deployment, result)
        return result

    async def _before(self, opening: Opening) -> LoadedSession | None:
        """Return the ended conversation that begins anew; None if there is none of this id.

        Raises:
            ConversationConflict: It goes on, or is not to begin again.
        """
        stored = await self.store.load(opening.conversation_id)
        if stored is None:
            return None
        loaded, _ = await self._read(opening.conversation_id, stored)
        if opening.anew and loaded.session.ended:
            return loaded
        raise ConversationConflict(
            f"a conversation with the id {opening.conversation_id!r} exists already; "
            "resume it, or choose another id"
        )

    async def _begin(
        self,
        turn: TurnRunner,
        deployment: Deployment,
        opening: Opening,
        entry: JsonMap,
        before: LoadedSession | None = None,
    ) -> TurnResult:
        """Play the beginning of a conversation, under its lock. `entry`: its identity. `before`:
        the same conversation, which has ended.
        """
        began = opening.time
        if deployment.journals and (not opening.hold or deployment.capabilities.points):
            began = await turn.open(entry, began, hold=opening.hold)
        session = Session(conversation_id=opening.conversation_id)
        loaded = before or LoadedSession(session, version=0)
        if before is not None:
            session = before.session.before_another()
        opening = replace(opening, time=began)
        step = begin(deployment.program, session, opening, deployment.capabilities)
        step = await turn.play(step)
        return await turn.commit("start", step.session, loaded, step.usage)

    async def send(
        self,
        conversation_id: str,
        text: str | Choice,
        request_id: str | None,
        sink: Observer | None,
        *,
        durable: bool = False,
    ) -> TurnResult:
        """Answer one message, or a choice. The same request id gives the recorded turn.

        `durable`: the message is on record before its turn begins, so that it is answered even if
        this process dies.

        Raises:
            ValueError: A durable message has no request id.
        """
        if durable and request_id is None:
            raise ValueError(
                "a durable message needs a request_id, by which it is answered once; give it one"
            )
        picked = isinstance(text, Choice)
        message = checked_message(text.label if isinstance(text, Choice) else text)
        trigger = UserMessage(
            text=message,
            time=self.now(),
            request_id=request_id,
            picked=picked,
            question=text.question if isinstance(text, Choice) else "",
        )
        merger = self._merger
        if merger is None or picked or durable:  # a durable message does not wait for others
            return await self.take(conversation_id, trigger, sink, durable=durable)
        if await answered_before(self.store, conversation_id, request_id):
            return await self.take(conversation_id, trigger, sink)
        return await merger.send(conversation_id, trigger, sink)

    async def run(
        self, conversation_id: str, sink: Observer | None, *, step: bool = False, given: Any = None
    ) -> TurnResult:
        """Play a run without a user as far as possible, from its beginning or from the point of a
        crash.

        A run that waits for an answer or a user, or is over, stays as it is. Its last turn is
        returned. `step`: play no further than past one task. `given`: the input of the current
        state; None keeps it.
        """
        return await self.take(
            conversation_id, Resume(time=self.now(), step=step, input=given), sink
        )

    async def answer(
        self,
        conversation_id: str,
        value: object,
        *,
        pause_id: str | None,
        request_id: str | None,
        sink: Observer | None = None,
        step: bool = False,
    ) -> TurnResult:
        """Answer the pause of a run. `pause_id` None: the current one. `step`: as in `run`.

        Raises:
            ValueError: The answer does not fit.
            ConversationConflict: The pause was answered or has expired, or the run waits for
                nothing.
        """
        value = checked_answer(value)
        trigger = Answer(value=value, time=self.now(), request_id=request_id, step=step)
        return await self.take(conversation_id, trigger, sink, pause_id=pause_id)

    async def update(
        self, conversation_id: str, given: Update, sink: Observer | None = None
    ) -> TurnResult:
        """Perform an update of the host between messages. The same request id gives the recorded
        turn.

        Raises:
            ValueError: A value is refused, or there is no such state.
            ConversationEnded: The conversation is over.
            ConversationConflict: The request id belongs to something else, or the run waits and
                cannot be moved.
        """
        return await self.take(conversation_id, given, sink)

    async def run_due(self, conversation_id: str, now: float) -> TurnResult | None:
        """Perform the time-outs and reminders of a conversation that are due at `now` (seconds
        since the epoch).

        Returns:
            The turn; None if nothing was due.
        """
        try:
            result = await self.take(conversation_id, Due(time=now))
        except NothingDueError:
            return None
        return result

    # -- the one entry

    async def take(
        self,
        conversation_id: str,
        trigger: Trigger,
        sink: Observer | None = None,
        *,
        pause_id: str | None = None,
        durable: bool = False,
    ) -> TurnResult:
        """Take one trigger: lock, load, look for a recorded turn, make ready, check, play, commit.

        Args:
            conversation_id: The conversation. It exists.
            trigger: The message, answer or update of a caller, a run to resume, or a time that is
                due.
            sink: Receives the events of the turn as they happen.
            pause_id: The pause that an answer is for; None: the current one.
            durable: True puts the trigger on record before its turn begins.

        Returns:
            The turn. A known request id gives its recorded turn. A run that cannot go on gives its
            last one.

        Raises:
            NothingDueError: The trigger is a time at which nothing is due.
        """
        checked_id(conversation_id, "conversation id")
        request_id = getattr(trigger, "request_id", None)
        if request_id is not None:
            checked_id(request_id, "request id")
        host = await self.prepare()
        turn = TurnRunner(host, conversation_id, sink, alone=_is_alone(trigger, host.program))
        async with turn.lock():
            if isinstance(trigger, Due):
                return await self._due(conversation_id, trigger)
            loaded, recorded = await self._load(conversation_id, request_id)
            if recorded is not None and not isinstance(trigger, Resume):
                known = await turn_again(self.store, loaded.session, trigger, recorded)
                return await self._again(turn, known)
            try:
                deployment, loaded = await self._ready(loaded, trigger)
            except TurnParked:
                if not isinstance(trigger, UserMessage):
                    raise
                return await self._parked_reply(turn, loaded.session, trigger)
            before = loaded.session
            taken = checked_trigger(deployment.program, before, trigger, pause_id)
            if taken is None:
                record = await self._last(conversation_id)
                if isinstance(trigger, Resume) and trigger.input is not None:
                    first, *_ = await self.records(conversation_id)
                    check_input_read(before, (*first.events, *record.events), trigger.input)
                return TurnResult(record=record, session=before)
            try:
                result = await self._play(
                    turn, deployment, loaded, taken, apologises=True, durable=durable
                )
            except LLMFSMError:
                # The sender of a message or an update hears of the failure and decides what
                # follows. A run and an answer that was accepted are resumed, so their journal must
                # not say that nobody cares.
                if isinstance(trigger, UserMessage | Update):
                    await turn.failed()
                else:
                    await turn.stopped(first=before.held is not None)
                raise
            except _ENDS:
                await turn.stopped(first=before.held is not None)
                raise
        if result.session.ended and not before.ended:
            await run_end_handlers(deployment, result)
        return result

    async def _due(self, conversation_id: str, trigger: Due) -> TurnResult:
        """Take a time that is due, under the lock. An interrupted turn is finished instead; the
        time stays due."""
        stored = await self.store.load(conversation_id)
        if stored is None:
            raise NothingDueError
        loaded, _ = await self._read(conversation_id, stored)
        if not is_due(loaded.session, trigger.time):
            raise NothingDueError
        deployment = await self.versions.of(loaded.session)
        if deployment is None or not deployment.program.knows(loaded.session):
            raise NothingDueError
        entries = await journal_entries(self.store, conversation_id)
        is_run = loaded.session.held is not None
        if is_run and entries and left_turn(entries) is None:
            raise NothingDueError  # somebody stopped it before its first step
        try:
            finished = await self._finished(deployment, loaded)
        except TurnParked:
            raise NothingDueError from None
        if finished is not None:
            return finished
        if is_run:
            return await self._fire(deployment, loaded, Resume(time=trigger.time))
        return await self._fire(deployment, loaded, trigger)

    async def take_up(self, conversation_id: str, now: float | None = None) -> TurnResult | None:
        """Finish the turn that a process left, if nobody alive plays it; else perform what is due;
        else answer the next accepted message.

        After three attempts that ended their process, the turn is parked instead. A turn that this
        host cannot play, for example without its tool, is left alone.

        Args:
            conversation_id: The conversation, as `Store.unfinished` or `Store.due` found it.
            now: Time-outs, reminders and accepted messages up to this time are performed, too, in
                seconds since the epoch; None: none.

        Returns:
            The turn; None if there was none to take up, or another process was faster.
        """
        checked_id(conversation_id, "conversation id")
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self.store.lock(conversation_id, 0.0))
            except StoreError as error:
                if error.retryable:  # busy: its process lives
                    return None
                raise
            result = await self._take_up(conversation_id)
            if result is not None or now is None:
                return result
            with suppress(NothingDueError, ConfigurationError):
                await self.prepare()
                return await self._due(conversation_id, Due(time=now))
            return await self._take_accepted(conversation_id, now)

    async def _take_up(self, conversation_id: str) -> TurnResult | None:
        left = left_turn(await journal_entries(self.store, conversation_id))
        if left is None or left.retry_at > self.now():
            return None
        first = left.first
        stored = await self.store.load(conversation_id, first.get("request_id"))
        if first["kind"] == "start":
            return None if stored is not None else await self._take_up_start(conversation_id, left)
        if stored is None or stored.recorded is not None:
            return None
        loaded, _ = await self._read(conversation_id, stored)
        deployment = await self._able(loaded.session, talks=only_talked(first))
        if deployment is None or await self._park(conversation_id, left):
            return None
        found = UnderWay(first, must=True)
        result = await self._finished(deployment, loaded, found)
        if result is None:  # it answers a pause that is over, so nobody can ever play it
            await self.store.forget_journal(conversation_id)
        return result

    async def _take_up_start(self, conversation_id: str, left: LeftTurn) -> TurnResult | None:
        deployment = self.versions.current
        if left.first.get("sha") != deployment.identity or not await _is_able(deployment):
            return None
        if await self._park(conversation_id, left):
            return None
        opening = interrupted_start(conversation_id, left.first)
        return await self._start_unattended(deployment, opening, left.first)

    async def _start_unattended(
        self, deployment: Deployment, opening: Opening, entry: JsonMap | None = None
    ) -> TurnResult:
        """Begin a conversation whose own caller is not there, under its lock."""
        running = TurnRunner(deployment, opening.conversation_id, alone=True)
        named = start_identity(deployment.program, opening) if entry is None else entry
        try:
            result = await self._begin(running, deployment, opening, named)
        except (Exception, *_ENDS) as error:
            await running.erred(error)
            raise
        await run_end_handlers(deployment, result)
        return result

    async def _take_accepted(self, conversation_id: str, now: float) -> TurnResult | None:
        """Answer the next accepted message, under the lock; None if there is none, or not here."""
        store = self.store
        while (message := await next_accepted(store, conversation_id, now)) is not None:
            stored = await self.store.load(conversation_id, message.request_id)
            if stored is None or stored.recorded is None:
                return await self._answer_accepted(store, message, stored)
            await store.drop_accepted(conversation_id, message.request_id)
        return None

    async def _answer_accepted(
        self, store: Store, message: AcceptedMessage, stored: Loaded | None
    ) -> TurnResult | None:
        conversation_id = message.conversation_id
        entries = await journal_entries(self.store, conversation_id)
        if entries and (left_turn(entries) is not None or entries[-1]["kind"] == PARKED):
            return None  # the turn before it is not finished
        loaded = await self._read_or_begin(store, message, stored)
        if loaded is None:
            return None
        trigger = user_message(message, self.now())
        try:
            deployment, loaded = await self._ready(loaded, trigger)
        except TurnParked:
            return None
        try:
            checked_trigger(deployment.program, loaded.session, trigger, None)
        except (ConversationError, ValueError) as error:
            await refuse(store, message, str(error))
            return None
        if not await claim(store, message):
            return None
        running = TurnRunner(deployment, conversation_id, alone=deployment.program.alone)
        result = await self._unattended(running, deployment, loaded, trigger, durable=True)
        await store.drop_accepted(conversation_id, message.request_id)
        return result

    async def _read_or_begin(
        self, store: Store, message: AcceptedMessage, stored: Loaded | None
    ) -> LoadedSession | None:
        """Return the conversation of an accepted message. If there is none, it begins without a
        greeting. None: this host cannot play it, or the message was cancelled."""
        if stored is not None:
            loaded, _ = await self._read(message.conversation_id, stored)
            return None if await self._able(loaded.session, talks=True) is None else loaded
        deployment = self.versions.current
        is_ours = storable(deployment.name) == message.definition
        if not is_ours or not await _is_able(deployment, talks=True):
            return None
        if not await claim(store, message):
            return None
        opening = Opening(conversation_id=message.conversation_id, time=self.now(), greet=False)
        await self._start_unattended(deployment, opening)
        loaded, _ = await self._load(message.conversation_id)
        return loaded

    async def _able(self, session: Session, *, talks: bool = False) -> Deployment | None:
        """Find the version that plays a conversation here; None if this host cannot play it.

        `talks`: the turn needs no handlers, so that a host without any can play it.
        """
        try:
            deployment = await self.versions.of(session)
        except (ConfigurationError, ConversationConflict):
            return None
        if deployment is None or deployment.name != self.versions.current.name:
            return None
        is_able = deployment.program.knows(session) and await _is_able(deployment, talks=talks)
        return deployment if is_able else None

    async def _park(self, conversation_id: str, left: LeftTurn) -> bool:
        """Park a turn that has ended too many processes; return true if it has."""
        if left.deaths < MOST_DEATHS:
            return False
        entries = await journal_entries(self.store, conversation_id)
        step = 1 + max(entry["step"] for entry in entries)
        entry = {"kind": PARKED, "time": self.now(), "step": step}
        await self.store.journal(conversation_id, step, in_unicode(entry))
        logging.getLogger(LOGGER).error(
            "a turn of conversation %s ended %d processes and is parked; see to the cause, then "
            "run: llm-fsm conversations retry",
            visible(conversation_id),
            MOST_DEATHS,
        )
        return True

    async def _parked_reply(
        self, turn: TurnRunner, session: Session, trigger: UserMessage
    ) -> TurnResult:
        """Answer a message with the definition's apology. Nothing is recorded, because a commit
        would empty the journal of the parked turn."""
        deployment = await self.versions.find(session) or self.versions.current
        words = apology(deployment.program, session)
        turn.take((trigger.event(), ev.BotSaid(text=words, fallback=True)))
        record = TurnRecord(
            kind="message", turn=session.turn, usage=Usage(), events=tuple(turn.events)
        )
        return TurnResult(record=record, session=session)

    async def end(self, conversation_id: str) -> TurnResult:
        """Close a conversation for good. Closing it twice is the same as once."""
        turn = TurnRunner(self.versions.current, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            deployment, loaded = await self._settled(conversation_id)
            session = loaded.session
            if session.ended:
                over = TurnRecord(kind="end", turn=session.turn, usage=Usage(), events=())
                return TurnResult(record=over, session=session)
            turn.host = deployment or turn.host
            turn.take((ev.Ended(outcome="host"),))
            session = fold(session, turn.events)
            result = await turn.commit("end", session, loaded, Usage())
        await run_end_handlers(self.versions.current, result)
        return result

    async def undo(self, conversation_id: str) -> TurnResult:
        """Undo the last turn.

        Raises:
            ConversationConflict: There is none.
        """
        turn = TurnRunner(self.versions.current, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            _, loaded = await self._settled(conversation_id)
            kept = without_undone(await self.records(conversation_id))
            while kept and kept[-1][1].kind in ("migrate", "heard"):
                kept.pop()
            if len(kept) < 2 or kept[-1][1].kind == "start":
                raise ConversationConflict("there is no turn to take back; send a message first")
            number, _ = kept[-1]
            session = replay(conversation_id, [record for _, record in kept[:-1]])
            found = await self.versions.find(session)
            if found is None and session.definition != loaded.session.definition:
                raise ConversationConflict(
                    "the turn cannot be undone: its definition is not known any more. Open the "
                    "conversation with the definition of that turn"
                )
            turn.host = found or turn.host
            turn.take((ev.TurnUndone(record=number, session=session_to_dict(session)),))
            return await turn.commit("undo", session, loaded, Usage())

    async def heard(self, conversation_id: str, number: int, text: str) -> TurnResult:
        """Record what the user heard of a turn, before something interrupted it.

        Raises:
            ValueError: There is no such turn.
        """
        turn = TurnRunner(self.versions.current, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            deployment, loaded = await self._settled(conversation_id)
            turn.host = deployment or turn.host
            records = await self.records(conversation_id)
            event = heard_event(turn.host.program, loaded.session, records, number, text)
            turn.take((event,))
            session = fold(loaded.session, turn.events)
            return await turn.commit("heard", session, loaded, Usage())

    async def migrate(self, conversation_id: str, *, dry: bool) -> ev.Migrated | str | None:
        """Move a conversation to the machine's own definition. `dry`: only plan it.

        Returns:
            The event. A sentence if the conversation stays on its own definition. None if it is
            over or runs on this definition already.
        """
        async with self.store.lock(
            checked_id(conversation_id, "conversation id"), self.services.timeout
        ):
            loaded, _ = await self._load(conversation_id)
            found = await self.versions.carried(loaded.session)
            if found is None or isinstance(found, str) or dry:
                return found
            if (await under_way(self.store, conversation_id)).first is not None:
                return "one of its turns was interrupted, and is to be finished first"
            await self._migrate(loaded, found)
            return found

    async def load(self, conversation_id: str) -> Session:
        """Load a conversation.

        Raises:
            ConversationNotFound: There is none with this id.
        """
        loaded, _ = await self._load(checked_id(conversation_id, "conversation id"))
        return loaded.session

    async def records(self, conversation_id: str) -> Sequence[TurnRecord]:
        """Return all turn records of a conversation, in order."""
        return [parse(text) for text in await self.store.records(conversation_id)]

    # -- helpers

    async def _load(
        self, conversation_id: str, request_id: str | None = None
    ) -> tuple[LoadedSession, str | None]:
        """Load a conversation, and the record that answers the request id, if there is one."""
        stored = await self.store.load(conversation_id, request_id)
        if stored is None:
            raise ConversationNotFound(
                f"there is no conversation {conversation_id!r} in this store"
            )
        return await self._read(conversation_id, stored)

    async def _read(self, conversation_id: str, stored: Loaded) -> tuple[LoadedSession, str | None]:
        session, located = await self._reader.read(conversation_id, stored.session)
        loaded = LoadedSession(
            session,
            stored.version,
            stored.definition_sha,
            located=located,
            has_journal=stored.has_journal,
        )
        return loaded, stored.recorded

    async def _settled(self, conversation_id: str) -> tuple[Deployment | None, LoadedSession]:
        """Finish an interrupted turn, and return the deployment, if it is known, and the session
        after it."""
        loaded, _ = await self._load(conversation_id)
        deployment = await self.versions.find(loaded.session)
        done = (
            await self._finished(deployment, loaded)
            if deployment is not None and (deployment.journals or loaded.has_journal)
            else None
        )
        return deployment, _after_turn(loaded, done)

    async def _again(self, turn: TurnRunner, result: TurnResult) -> TurnResult:
        """Return a recorded turn, and send its events to the listener."""
        turn.tell_again(result.record.events)
        return result._replace(choices=await self.choices(result.session))

    async def choices(self, session: Session) -> tuple[Choice, ...]:
        """Return the choices that the user has in a conversation."""
        deployment = await self.versions.find(session)
        return () if deployment is None else choices_of(deployment.program, session)

    async def _last(self, conversation_id: str) -> TurnRecord:
        """Return the last record of a turn. A migration is no turn."""
        records = await self.records(conversation_id)
        no_turns = ("migrate", "heard")
        return next(record for record in reversed(records) if record.kind not in no_turns)

    async def _ready(
        self, loaded: LoadedSession, trigger: Request
    ) -> tuple[Deployment, LoadedSession]:
        """Find the deployment and the session for the next turn. Interrupted turns and due
        time-outs come first.

        If the next turn itself was interrupted, the session stays as it was.
        """
        current = self.versions.current
        if current.is_next(loaded.session) and not loaded.has_journal:
            return current, loaded
        deployment = await self.versions.of(loaded.session)
        if deployment is None:
            return await self._adopted(loaded)
        if deployment.journals or loaded.has_journal:
            found = await under_way(self.store, loaded.session.conversation_id)
            if found.first is not None and is_same(
                found.first, identity(trigger, loaded.session.pause)
            ):
                return deployment, loaded
            loaded = loaded._replace(blank=found.blank)
            loaded = _after_turn(loaded, await self._finished(deployment, loaded, found))
        session, now = loaded.session, trigger.time
        if session.pause is not None and is_due(session, now) and deployment.program.knows(session):
            loaded = _after_turn(loaded, await self._fire(deployment, loaded, Due(time=now)))
        if self.versions.policy.name == "migrate" and not loaded.session.ended:
            change = await self.versions.carried(loaded.session)
            if isinstance(change, ev.Migrated):
                return self.versions.current, await self._migrate(loaded, change)
        return deployment, loaded

    async def _adopted(self, loaded: LoadedSession) -> tuple[Deployment, LoadedSession]:
        """Continue a conversation of an unknown definition with the machine's own, if possible."""
        change = await self.versions.carried(loaded.session)
        if isinstance(change, ev.Migrated):
            return self.versions.current, await self._migrate(loaded, change)
        session = loaded.session
        raise ConversationConflict(
            f"conversation {session.conversation_id!r} is in state {session.state!r} and was begun "
            f"with a definition ({session.definition[:12]}) that the store does not have. "
            f"It cannot continue with {self.program.definition.name!r}: {change}. "
            "Open it with the definition it was started with"
        )

    async def _migrate(self, loaded: LoadedSession, change: ev.Migrated) -> LoadedSession:
        turn = TurnRunner(self.versions.current, loaded.session.conversation_id)
        turn.take((change,))
        return _after_turn(
            loaded, await turn.commit("migrate", fold(loaded.session, turn.events), loaded, Usage())
        )

    async def _finished(
        self, deployment: Deployment, loaded: LoadedSession, found: UnderWay | None = None
    ) -> TurnResult | None:
        """Play an interrupted turn that must not be lost to its end; None if there is none."""
        session = loaded.session
        first, must, _ = found or await under_way(self.store, session.conversation_id)
        if first is None or not must:
            return None
        await deployment.prepare()
        trigger = interrupted(first, session.pause)
        if trigger is None:
            return None
        running = TurnRunner(deployment, session.conversation_id, alone=deployment.program.alone)
        durable = "durable" in first
        return await self._unattended(running, deployment, loaded, trigger, durable=durable)

    async def _fire(
        self, deployment: Deployment, loaded: LoadedSession, trigger: Due | Resume
    ) -> TurnResult:
        turn = TurnRunner(deployment, loaded.session.conversation_id, alone=True)
        return await self._unattended(turn, deployment, loaded, trigger)

    async def _unattended(
        self,
        running: TurnRunner,
        deployment: Deployment,
        loaded: LoadedSession,
        trigger: Trigger,
        *,
        durable: bool = False,
    ) -> TurnResult:
        """Play a turn whose own caller is not there. If it ends without a commit, its journal says
        that this process lives."""
        try:
            result = await self._play(running, deployment, loaded, trigger, durable=durable)
        except (Exception, *_ENDS) as error:
            await running.erred(error)
            raise
        await run_end_handlers(deployment, result)
        return result

    async def _play(
        self,
        turn: TurnRunner,
        deployment: Deployment,
        loaded: LoadedSession,
        trigger: Trigger,
        *,
        apologises: bool = False,
        durable: bool = False,
    ) -> TurnResult:
        """Play a turn from its beginning to its commit. `apologises`: ERROR handlers may answer a
        failed message. `durable`: it is on record before it begins."""
        turn.host, session = deployment, loaded.session
        if deployment.journals or durable:
            entry = identity(trigger, session.pause)
            blank = loaded.blank
            began = await turn.open(entry, trigger.time, blank=blank, durable=durable)
            trigger = replace(trigger, time=began)
        try:
            step = await turn.play(
                begin(deployment.program, session, trigger, deployment.capabilities)
            )
            after, usage = step.session, step.usage
        except LLMFSMError as error:
            if not apologises or not isinstance(trigger, UserMessage):
                raise
            words = await _words_for(deployment, error, session, turn, trigger.time)
            if words is None:
                raise
            after, happened = apologise(deployment.program, session, trigger, error, words)
            _replace_events(turn, happened)
            usage = Usage()
        return await turn.commit(KINDS[type(trigger)], after, loaded, usage)


async def _is_able(deployment: Deployment, *, talks: bool = False) -> bool:
    """Return true if this host has every tool and function of a deployment, and keeps journals.

    `talks`: it need not keep them.
    """
    try:
        await deployment.prepare()
    except ConfigurationError:
        return False
    return talks or deployment.journals


def _after_turn(loaded: LoadedSession, result: TurnResult | None) -> LoadedSession:
    """Return the conversation after a committed turn; unchanged if there was none."""
    if result is None:
        return loaded
    session, version = result.session, loaded.version + 1
    return LoadedSession(session, version, pinned=session.definition, located=result.located)


def _is_alone(trigger: Trigger, program: CompiledMachine) -> bool:
    """Return true if no caller waits for the turn as a whole, so that its time-out applies to each
    effect."""
    match trigger:
        case Resume() | Due():
            return True
        case Answer():
            return program.alone
        case _:
            return False


def _replace_events(turn: TurnRunner, apology: Sequence[ev.Event]) -> None:
    """Put an apology in the place of a failed turn's events.

    Calls of tools stay on record, because their effects outside stay too. They come behind the
    message.
    """
    message, *rest = apology
    called = [
        item
        for item in turn.events
        if isinstance(item, ev.ToolReturned | ev.ToolRefused | ev.FunctionFailed)
    ]
    turn.events = [message, *called]
    turn.take(rest)


async def _words_for(
    deployment: Deployment, error: LLMFSMError, session: Session, turn: TurnRunner, began: float
) -> str | None:
    """Return the text of an ERROR handler; None if the error must be raised."""
    if Point.ERROR not in deployment.capabilities.points or not isinstance(
        error, ModelError | HandlerError
    ):
        return None
    effect = RunHandlers(
        point=Point.ERROR, session=structs.replace(session, time=began), error=error
    )
    results = await deployment.run_handlers(effect, turn.left, turn.journal)
    return next((result.text for result in reversed(results.results) if result.text), None)
