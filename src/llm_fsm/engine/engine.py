"""The engine: it locks, loads, plays and commits turns.

All contact with the world is here, in `turn_runner` and `deployment`, or behind a port. A failure
before the commit leaves nothing but the journal. A committed turn is returned, and returned again
for the same request id.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from llm_fsm._json import JsonMap, has_all
from llm_fsm.engine.deployment import Deployment, Services
from llm_fsm.engine.handlers.end import run_end_handlers, run_forgotten_end_handlers
from llm_fsm.engine.handlers.registry import Handler
from llm_fsm.engine.idempotency import answered_before, turn_again
from llm_fsm.engine.journal import TurnParked
from llm_fsm.engine.kept_turns import KeptTurns
from llm_fsm.engine.merging import Merger
from llm_fsm.engine.observers import Observer
from llm_fsm.engine.recovery import (
    KINDS,
    Trigger,
    UnderWay,
    identity,
    interrupted,
    left_turn,
    start_identity,
    under_way,
)
from llm_fsm.engine.turn_runner import LoadedSession, TurnResult, TurnRunner
from llm_fsm.engine.validation import (
    Request,
    check_agreed,
    check_input_read,
    checked_answer,
    checked_message,
    checked_trigger,
)
from llm_fsm.engine.versions import DefinitionVersions, Policy
from llm_fsm.errors import (
    ConversationConflict,
    ConversationNotFound,
    HandlerError,
    LLMFSMError,
    ModelError,
)
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.records.stuck_turns import journal_entries
from llm_fsm.session import events as ev
from llm_fsm.session.deadlines import is_due
from llm_fsm.session.messages import Usage
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import Records, TurnRecord, parse
from llm_fsm.stores.base import Loaded, checked_id
from llm_fsm.turn.choices import Choice, choices_of
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import Point, RunHandlers
from llm_fsm.turn.pipeline import Answer, Due, Opening, Resume, Update, UserMessage
from llm_fsm.turn.steps import apologise, apology

ENDS = (CancelledError, KeyboardInterrupt, SystemExit)
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
            # The failed handler counts as run, and does not concern this caller.
            with suppress(HandlerError):
                await run_forgotten_end_handlers(await self.prepare())

    async def watch_release(self) -> None:
        """Look at the guards of the release, if there is one and it is time."""
        release = self.versions.release
        if release is not None:
            await release.watch(self.services.dispatcher.sinks)

    # -- requests of callers

    async def start(self, opening: Opening, sink: Observer | None = None) -> TurnResult:
        """Begin a conversation.

        Raises:
            ConversationConflict: The id exists.
            ValueError: The id, the state or the context is wrong.
        """
        checked_id(opening.conversation_id, "conversation id")
        deployment, opening = await self.versions.begun(opening)
        states = deployment.program.states
        if opening.state is not None and opening.state not in states:
            known = ", ".join(states)
            raise ValueError(
                f"there is no state {opening.state!r} to start in; the states are {known}"
            )
        check_agreed(deployment.capabilities.tools, deployment.program, opening)
        turn = TurnRunner(deployment, opening.conversation_id, sink)
        async with turn.lock():
            before = await self._before(opening)
            entry = start_identity(deployment.program, opening)
            try:
                result = await self.begin(turn, deployment, opening, entry, before)
            except LLMFSMError:
                await turn.failed()
                raise
            except ENDS:
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
        loaded, _ = await self.read(opening.conversation_id, stored)
        if opening.anew and loaded.session.ended:
            return loaded
        raise ConversationConflict(
            f"a conversation with the id {opening.conversation_id!r} exists already; "
            "resume it, or choose another id"
        )

    async def begin(
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
        session = Session(conversation_id=opening.conversation_id, metadata=opening.metadata)
        loaded = before or LoadedSession(session, version=0)
        if before is not None:
            session = before.session.before_another()
        opening = replace(opening, time=began)
        step = await turn.play(session, opening)
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
        # Before the lock: looking for tools may take seconds, and nobody should wait for that in
        # the queue.
        host = await self.prepare()
        turn = TurnRunner(host, conversation_id, sink, alone=_is_alone(trigger, host.program))
        async with turn.lock():
            if isinstance(trigger, Due):
                return await self.take_due(conversation_id, trigger)
            # Read under the lock, so that no other turn can come between reading and writing.
            loaded, recorded = await self.read_for(conversation_id, request_id)
            # A known request is answered before anything is checked: its state may have moved on
            # since.
            if recorded is not None and not isinstance(trigger, Resume):
                known = await turn_again(self.store, loaded.session, trigger, recorded)
                return await self._again(turn, known)
            try:
                deployment, loaded = await self.ready(loaded, trigger)
            except TurnParked:
                if not isinstance(trigger, UserMessage):
                    raise
                return await self._parked_reply(turn, loaded.session, trigger)
            # Interrupted turns and due times are done now, so this is the session that the trigger
            # meets.
            before = loaded.session
            taken = checked_trigger(deployment.program, before, trigger, pause_id)
            check_agreed(deployment.capabilities.tools, deployment.program, trigger)
            # The run waits or is over. Its last turn is what a caller who asks again wants to know.
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
            except ENDS:
                await turn.stopped(first=before.held is not None)
                raise
        # The lock is free again, because the handlers may use this conversation.
        if result.session.ended and not before.ended:
            await run_end_handlers(deployment, result)
        return result

    async def take_due(self, conversation_id: str, trigger: Due) -> TurnResult:
        """Take a time that is due, under the lock. An interrupted turn is finished instead; the
        time stays due."""
        # The look that found the time was without the lock, so all of it is asked again.
        stored = await self.store.load(conversation_id)
        if stored is None:
            raise NothingDueError
        loaded, _ = await self.read(conversation_id, stored)
        if not is_due(loaded.session, trigger.time):
            raise NothingDueError
        # Another host with this definition will do it.
        deployment = await self.versions.of(loaded.session)
        if deployment is None or not deployment.program.knows(loaded.session):
            raise NothingDueError
        entries = await journal_entries(self.store, conversation_id)
        is_run = loaded.session.held is not None
        if is_run and entries and left_turn(entries) is None:
            raise NothingDueError  # somebody stopped it before its first step
        try:
            finished = await self.finish(deployment, loaded)
        except TurnParked:
            raise NothingDueError from None
        if finished is not None:
            return finished
        if is_run:
            return await self._fire(deployment, loaded, Resume(time=trigger.time))
        return await self._fire(deployment, loaded, trigger)

    async def _parked_reply(
        self, turn: TurnRunner, session: Session, trigger: UserMessage
    ) -> TurnResult:
        """Answer a message with the definition's apology. Nothing is recorded, because a commit
        would empty the journal of the parked turn."""
        deployment = await self.versions.find(session.definition) or self.versions.current
        words = apology(deployment.program, session)
        turn.take((trigger.event(), ev.BotSaid(text=words, fallback=True)))
        record = TurnRecord(
            kind="message", turn=session.turn, usage=Usage(), events=tuple(turn.events)
        )
        return TurnResult(record=record, session=session)

    async def load(self, conversation_id: str) -> Session:
        """Load a conversation.

        Raises:
            ConversationNotFound: There is none with this id.
        """
        loaded, _ = await self.read_for(checked_id(conversation_id, "conversation id"))
        return loaded.session

    async def records(self, conversation_id: str) -> Records:
        """Return all turn records of a conversation, in order."""
        return [parse(text) for text in await self.store.records(conversation_id)]

    # -- helpers

    async def read_for(
        self, conversation_id: str, request_id: str | None = None
    ) -> tuple[LoadedSession, str | None]:
        """Load a conversation, and the record that answers the request id, if there is one."""
        stored = await self.store.load(conversation_id, request_id)
        if stored is None:
            raise ConversationNotFound(
                f"there is no conversation {conversation_id!r} in this store"
            )
        return await self.read(conversation_id, stored)

    async def read(self, conversation_id: str, stored: Loaded) -> tuple[LoadedSession, str | None]:
        session, located = await self._reader.read(conversation_id, stored.session)
        loaded = LoadedSession(
            session,
            stored.version,
            stored.definition_sha,
            located=located,
            has_journal=stored.has_journal,
        )
        return loaded, stored.recorded

    async def _again(self, turn: TurnRunner, result: TurnResult) -> TurnResult:
        """Return a recorded turn, and send its events to the listener."""
        turn.tell_again(result.record.events)
        return result._replace(choices=await self.choices(result.session))

    async def choices(self, session: Session) -> tuple[Choice, ...]:
        """Return the choices that the user has in a conversation."""
        deployment = await self.versions.find(session.definition)
        return () if deployment is None else choices_of(deployment.program, session)

    async def _last(self, conversation_id: str) -> TurnRecord:
        """Return the last record of a turn. A migration is no turn."""
        records = await self.records(conversation_id)
        no_turns = ("migrate", "heard")
        return next(record for record in reversed(records) if record.kind not in no_turns)

    async def ready(
        self, loaded: LoadedSession, trigger: Request
    ) -> tuple[Deployment, LoadedSession]:
        """Find the deployment and the session for the next turn. Interrupted turns and due
        time-outs come first.

        If the next turn itself was interrupted, the session stays as it was.
        """
        current = self.versions.current
        # The way of nearly every turn; all below is for the others.
        if current.is_next(loaded.session) and not loaded.has_journal:
            return current, loaded
        deployment = await self.versions.of(loaded.session)
        if deployment is None:
            return await self._adopted(loaded)
        if deployment.journals or loaded.has_journal:
            found = await under_way(self.store, loaded.session.conversation_id)
            if found.first is not None and has_all(
                found.first, identity(trigger, loaded.session.pause)
            ):
                return deployment, loaded
            # The journal was read under this lock, so the turn need not read it again.
            loaded = loaded._replace(blank=found.blank)
            loaded = after_turn(loaded, await self.finish(deployment, loaded, found))
        # An interrupted turn may have been finished, and may have made or ended a pause.
        session, now = loaded.session, trigger.time
        if session.pause is not None and is_due(session, now) and deployment.program.knows(session):
            loaded = after_turn(loaded, await self._fire(deployment, loaded, Due(time=now)))
        if self.versions.policy.name == "migrate" and not loaded.session.ended:
            change = await self.versions.carried(loaded.session)
            if isinstance(change, ev.Migrated):
                return self.versions.current, await self.migrate_to(loaded, change)
        return deployment, loaded

    async def _adopted(self, loaded: LoadedSession) -> tuple[Deployment, LoadedSession]:
        """Continue a conversation of an unknown definition with the machine's own, if possible."""
        change = await self.versions.carried(loaded.session)
        if isinstance(change, ev.Migrated):
            return self.versions.current, await self.migrate_to(loaded, change)
        session = loaded.session
        raise ConversationConflict(
            f"conversation {session.conversation_id!r} is in state {session.state!r} and was begun "
            f"with a definition ({session.definition[:12]}) that the store does not have. "
            f"It cannot continue with {self.program.definition.name!r}: {change}. "
            "Open it with the definition it was started with"
        )

    async def migrate_to(self, loaded: LoadedSession, change: ev.Migrated) -> LoadedSession:
        turn = TurnRunner(self.versions.current, loaded.session.conversation_id)
        turn.take((change,))
        return after_turn(
            loaded, await turn.commit("migrate", fold(loaded.session, turn.events), loaded, Usage())
        )

    async def finish(
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
        return await self.play_unattended(running, deployment, loaded, trigger, durable=durable)

    async def _fire(
        self, deployment: Deployment, loaded: LoadedSession, trigger: Due | Resume
    ) -> TurnResult:
        turn = TurnRunner(deployment, loaded.session.conversation_id, alone=True)
        return await self.play_unattended(turn, deployment, loaded, trigger)

    async def play_unattended(
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
        except (Exception, *ENDS) as error:
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
            # A turn that begins again has the time of its first attempt, so that its keys stay the
            # same.
            began = await turn.open(entry, trigger.time, blank=blank, durable=durable)
            trigger = replace(trigger, time=began)
        shown = session.read_back
        if isinstance(trigger, UserMessage) and shown is not None and shown.heard:
            said = await self._last(session.conversation_id)
            is_early = (trigger.sent or trigger.time) < (said.time or 0)
            trigger = replace(trigger, early=is_early)
        try:
            step = await turn.play(session, trigger)
            after, usage = step.session, step.usage
        except LLMFSMError as error:
            if not apologises or not isinstance(trigger, UserMessage):
                raise
            words = await _words_for(deployment, error, session, turn, trigger.time)
            if words is None:
                raise
            _replace_events(turn, apologise(deployment.program, session, trigger, error, words))
            after, usage = fold(session, turn.events), Usage()
        return await turn.commit(KINDS[type(trigger)], after, loaded, usage)


def after_turn(loaded: LoadedSession, result: TurnResult | None) -> LoadedSession:
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

    Calls of tools and acts stay on record, because their effects outside stay too. They come
    behind the message.
    """
    # The message of the user comes first, as in every record.
    message, *rest = apology
    called = [
        item
        for item in turn.events
        if isinstance(item, ev.ToolReturned | ev.ToolRefused | ev.FunctionFailed | ev.Acted)
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
