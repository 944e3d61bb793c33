"""The engine: it locks, loads, plays and commits turns.

All contact with the world is here, in `turn_runner` and `deployment`, or behind a port. A failure before the commit
leaves nothing but the journal. A committed turn is returned, and returned again for the same request id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from msgspec import structs

from llm_fsm.engine.deployment import Edition, Services
from llm_fsm.engine.handlers.end import after_end, close_forgotten
from llm_fsm.engine.handlers.registry import Handler
from llm_fsm.engine.idempotency import answer_again, answered_before, merged_record, message_again
from llm_fsm.engine.merging import Merger
from llm_fsm.engine.observers import Observer
from llm_fsm.engine.recovery import UnderWay, begin_again, identity, is_same, opened, said, under_way
from llm_fsm.engine.turn_runner import Held, Outcome, Running, is_due
from llm_fsm.engine.validation import admit, checked_answer, checked_id, checked_message, expected, fitting
from llm_fsm.engine.versions import Editions, Policy
from llm_fsm.errors import ConversationConflict, ConversationNotFound, HandlerError, LLMFSMError, ModelError
from llm_fsm.session import events as ev
from llm_fsm.session.messages import Usage
from llm_fsm.session.reducer import fold
from llm_fsm.session.serialization import parse_session, session_to_dict
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, parse, replay, without_undone
from llm_fsm.stores.base import Loaded
from llm_fsm.turn.choices import Choice, choices_of
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.effects import Point, RunHandlers
from llm_fsm.turn.pipeline import Answer, Opening, UserMessage
from llm_fsm.turn.steps import apologise, begin, begin_answer, begin_due, begin_run, begin_start


class Engine:
    """Runs turns of one machine. It is cheap to make, and holds no conversation."""

    def __init__(self, *, program: CompiledMachine, services: Services, policy: Policy) -> None:
        self.services = services
        self.store = services.store
        self.now = services.now
        self.editions = Editions(services, program, policy)
        self._looked = False
        self._merger = Merger(services.merge_within, self._answer) if services.merge_within else None

    @property
    def program(self) -> CompiledMachine:
        """The machine's own definition, compiled."""
        return self.editions.current.program

    def add_handler(self, handler: Handler) -> None:
        """Register a handler. It runs from the next turn on."""
        self.editions.add_handler(handler)

    async def prepare(self) -> Edition:
        """Return the machine's own deployment, with every tool and function that it names.

        Raises:
            ConfigurationError: A tool or function is missing.
        """
        current = self.editions.current
        if not current.is_ready:
            await current.prepare()
        return current

    async def look(self, *, again: bool = False) -> None:
        """Resume deliveries that another process left when it died; once, or `again`."""
        if self._looked and not again:
            return
        self._looked = True
        await self.services.courier.look()
        if Point.END_CONVERSATION in self.services.points:
            with suppress(HandlerError):  # the failed handler counts as run, and does not concern this caller
                await close_forgotten(await self.prepare())

    # -- requests of callers

    async def start(self, opening: Opening, sink: Observer | None = None) -> Outcome:
        """Begin a conversation.

        Raises:
            ConversationConflict: The id exists.
            ValueError: The id, the state or the context is wrong.
        """
        edition = await self.prepare()
        checked_id(opening.conversation_id, "conversation id")
        if opening.state is not None and opening.state not in self.program.states:
            known = ", ".join(self.program.states)
            raise ValueError(f"there is no state {opening.state!r} to start in; the states are {known}")
        turn = Running(edition, opening.conversation_id, sink)
        async with turn.lock():
            if await self.store.load(opening.conversation_id) is not None:
                raise ConversationConflict(f"a conversation with the id {opening.conversation_id!r} exists already")
            began = opening.time
            if edition.journals and (not opening.hold or edition.capabilities.points):
                began = await turn.open(opened(edition.program, opening), began)
            step = begin_start(edition.program, replace(opening, time=began), edition.capabilities)
            step = await turn.play(step)
            outcome = await turn.commit("start", step.session, Held(step.session, version=0), step.usage)
        await after_end(edition, outcome)
        return outcome

    async def send(
        self, conversation_id: str, text: str | Choice, request_id: str | None, sink: Observer | None
    ) -> Outcome:
        """Answer one message, or a choice. The same request id gives the recorded turn."""
        picked = isinstance(text, Choice)
        message = checked_message(text.label if isinstance(text, Choice) else text)
        heard = UserMessage(text=message, time=self.now(), request_id=request_id, picked=picked)
        checked_id(conversation_id, "conversation id")
        if request_id is not None:
            checked_id(request_id, "request id")
        if self._merger is None or picked or await answered_before(self.store, conversation_id, request_id):
            return await self._answer(conversation_id, heard, sink)
        return await self._merger.send(conversation_id, heard, sink)

    async def _answer(self, conversation_id: str, heard: UserMessage, sink: Observer | None) -> Outcome:
        request_id = heard.request_id
        current = self.editions.current
        host = current if current.is_ready else await self.prepare()
        turn = Running(host, conversation_id, sink)
        async with turn.lock():
            held, recorded = await self._held(conversation_id, request_id)
            if recorded is None and self._merger is not None:
                recorded = await merged_record(self.store, conversation_id, request_id)
            if recorded is not None:
                return await self._again(turn, await message_again(self.store, held.session, heard, recorded))
            edition = host
            if not host.is_next(held.session):
                edition, held = await self._ready(held, heard.time, said(heard))
            session = held.session
            admit(edition.program, session)
            turn.host = edition
            began = await turn.open(said(heard), heard.time, blank=held.blank) if edition.journals else heard.time
            if began != heard.time:
                heard = replace(heard, time=began)
            try:
                try:
                    step = await turn.play(begin(edition.program, session, heard, edition.capabilities))
                    after, usage = step.session, step.usage
                except LLMFSMError as error:
                    words = await _words_for(edition, error, session, turn, heard.time)
                    if words is None:
                        raise
                    after, happened = apologise(edition.program, session, heard, error, words)
                    called = [item for item in turn.events if isinstance(item, ev.ToolReturned | ev.ToolRefused)]
                    turn.events, usage = [happened[0], *called], Usage()
                    turn.take(happened[1:])
                outcome = await turn.commit("message", after, held, usage, request_id)
            except LLMFSMError:
                await turn.failed()
                raise
        if after.ended:
            await after_end(edition, outcome)
        return outcome

    async def go_on(
        self, conversation_id: str, sink: Observer | None, *, step: bool = False, given: Any = None
    ) -> Outcome:
        """Play a run without a user as far as possible, from its beginning or from the point of a crash.

        A run that waits for an answer or a user, or is over, stays as it is. Its last turn is returned.
        `step`: play no further than past one task. `given`: the input of the current state; None keeps it.
        """
        turn = Running(await self.prepare(), checked_id(conversation_id, "conversation id"), sink, alone=True)
        async with turn.lock():
            held, _ = await self._held(conversation_id)
            mine: dict[str, Any] = {"kind": "run"}
            mine |= {"step_only": True} if step else {}
            mine |= {} if given is None else {"input": given}
            edition, held = await self._ready(held, self.now(), mine)
            session = held.session
            begun = session.previous_state is not None or bool(session.stack)
            at = edition.program.of(session) if begun and edition.program.knows(session) else None
            talks = at is not None and at.states[session.state].kind == "converse"
            if session.ended or session.pause is not None or talks:
                return Outcome(record=await self._last(conversation_id), session=session)
            admit(edition.program, session)
            turn.host = edition
            began = await turn.open(mine, self.now(), blank=held.blank)
            first = begin_run(edition.program, session, began, edition.capabilities, step=step, given=given)
            last = await turn.play(first)
            outcome = await turn.commit("run", last.session, held, last.usage)
        await after_end(edition, outcome)
        return outcome

    async def answer(
        self,
        conversation_id: str,
        value: object,
        *,
        pause_id: str | None,
        request_id: str | None,
        sink: Observer | None = None,
        step: bool = False,
    ) -> Outcome:
        """Answer the pause of a run. `pause_id` None: the current one. `step`: as of `go_on`.

        Raises:
            ValueError: The answer does not fit.
            ConversationConflict: The pause was answered or has expired, or the run waits for nothing.
        """
        if request_id is not None:
            checked_id(request_id, "request id")
        value = checked_answer(value)
        turn = Running(
            await self.prepare(), checked_id(conversation_id, "conversation id"), sink, alone=self.program.alone
        )
        async with turn.lock():
            now = self.now()
            held, recorded = await self._held(conversation_id, request_id)
            if recorded is not None:
                return await self._again(turn, await answer_again(self.store, held.session, value, recorded))
            asked = "" if held.session.pause is None else held.session.pause.id
            mine = {"kind": "answer", "id": asked, "value": value, "request_id": request_id}
            mine |= {"step_only": True} if step else {}
            edition, held = await self._ready(held, now, mine)
            session = held.session
            turn.host = edition
            pause = expected(edition.program, session, pause_id)
            plain = fitting(pause, value)
            began = await turn.open({**mine, "id": pause.id, "value": plain}, now, blank=held.blank)
            given = Answer(value=plain, time=began, request_id=request_id, step=step)
            last = await turn.play(begin_answer(edition.program, session, given, edition.capabilities))
            outcome = await turn.commit("answer", last.session, held, last.usage, request_id)
        await after_end(edition, outcome)
        return outcome

    async def fire(self, conversation_id: str, now: float) -> Outcome | None:
        """Perform the time-outs and reminders of a conversation that are due at `now` (seconds since the epoch).

        Returns:
            The turn; None if nothing was due.
        """
        await self.prepare()
        async with self.store.lock(checked_id(conversation_id, "conversation id"), self.services.timeout):
            loaded = await self.store.load(conversation_id)
            if loaded is None:
                return None
            held, _ = _holding(conversation_id, loaded)
            if not is_due(held.session, now):
                return None
            edition = await self.editions.of(held.session)
            if edition is None or not edition.program.knows(held.session):
                return None
            return await self._finished(edition, held) or await self._fire(edition, held, now)

    async def end(self, conversation_id: str) -> Outcome:
        """Close a conversation for good. Closing it twice is the same as once."""
        turn = Running(self.editions.current, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            edition, held = await self._settled(conversation_id)
            session = held.session
            if session.ended:
                over = TurnRecord(kind="end", turn=session.turn, usage=Usage(), events=())
                return Outcome(record=over, session=session)
            turn.host = edition or turn.host
            turn.take((ev.Ended(outcome="host"),))
            session = fold(session, turn.events)
            outcome = await turn.commit("end", session, held, Usage())
        await after_end(self.editions.current, outcome)
        return outcome

    async def undo(self, conversation_id: str) -> Outcome:
        """Undo the last turn.

        Raises:
            ConversationConflict: There is none.
        """
        turn = Running(self.editions.current, checked_id(conversation_id, "conversation id"))
        async with turn.lock():
            _, held = await self._settled(conversation_id)
            kept = without_undone(await self.records(conversation_id))
            while kept and kept[-1][1].kind == "migrate":
                kept.pop()
            if len(kept) < 2:
                raise ConversationConflict("there is no turn to take back")
            number, _ = kept[-1]
            session = replay(conversation_id, [record for _, record in kept[:-1]])
            found = await self.editions.find(session)
            if found is None and session.definition != held.session.definition:
                raise ConversationConflict(
                    "the turn cannot be taken back: the definition that it was made with is not known any more"
                )
            turn.host = found or turn.host
            turn.take((ev.TurnUndone(record=number, session=session_to_dict(session)),))
            return await turn.commit("undo", session, held, Usage())

    async def carry(self, conversation_id: str, *, dry: bool) -> ev.Migrated | str | None:
        """Carry a conversation over to the machine's own definition. `dry`: only plan it.

        Returns:
            The event; a sentence if the conversation stays with its own definition; None if it need not or cannot
            move, because it has the machine's definition or is over.
        """
        async with self.store.lock(checked_id(conversation_id, "conversation id"), self.services.timeout):
            held, _ = await self._held(conversation_id)
            found = await self.editions.carried(held.session)
            if found is None or isinstance(found, str) or dry:
                return found
            if (await under_way(self.store, conversation_id)).first is not None:
                return "one of its turns was interrupted, and is to be finished first"
            await self._migrate(held, found)
            return found

    async def load(self, conversation_id: str) -> Session:
        """Load a conversation.

        Raises:
            ConversationNotFound: There is none with this id.
        """
        held, _ = await self._held(checked_id(conversation_id, "conversation id"))
        return held.session

    async def records(self, conversation_id: str) -> Sequence[TurnRecord]:
        """Return all turn records of a conversation, in order."""
        return [parse(text) for text in await self.store.records(conversation_id)]

    # -- helpers

    async def _held(self, conversation_id: str, request_id: str | None = None) -> tuple[Held, str | None]:
        """Load a conversation, and the record that answers the request id, if there is one."""
        return _holding(conversation_id, await self.store.load(conversation_id, request_id))

    async def _settled(self, conversation_id: str) -> tuple[Edition | None, Held]:
        """Finish an interrupted turn, and return the deployment, if it is known, and the session after it."""
        held, _ = await self._held(conversation_id)
        edition = await self.editions.find(held.session)
        done = await self._finished(edition, held) if edition is not None and edition.journals else None
        return edition, _after_turn(held, done)

    async def _again(self, turn: Running, outcome: Outcome) -> Outcome:
        """Give a recorded turn again, to the listener too."""
        turn.tell_again(outcome.record.events)
        return outcome._replace(choices=await self.choices(outcome.session))

    async def choices(self, session: Session) -> tuple[Choice, ...]:
        """Return what the user can choose in a conversation."""
        edition = await self.editions.find(session)
        return () if edition is None else choices_of(edition.program, session)

    async def _last(self, conversation_id: str) -> TurnRecord:
        """Return the last record of a turn. A migration is no turn."""
        records = await self.records(conversation_id)
        return next(record for record in reversed(records) if record.kind != "migrate")

    async def _ready(self, held: Held, now: float, turn: Mapping[str, Any]) -> tuple[Edition, Held]:
        """Find the deployment and the session for the next turn. Interrupted turns and due time-outs come first.

        If the next turn itself was interrupted, the session stays as it was.
        """
        edition = await self.editions.of(held.session)
        if edition is None:
            return await self._adopted(held)
        if edition.journals:
            found = await under_way(self.store, held.session.conversation_id)
            if found.first is not None and is_same(found.first, turn):
                return edition, held
            held = Held(held.session, held.version, held.pinned, blank=found.blank)
            held = _after_turn(held, await self._finished(edition, held, found))
        if held.session.pause is not None and is_due(held.session, now) and edition.program.knows(held.session):
            held = _after_turn(held, await self._fire(edition, held, now))
        if self.editions.policy.name == "migrate" and not held.session.ended:
            change = await self.editions.carried(held.session)
            if isinstance(change, ev.Migrated):
                return self.editions.current, await self._migrate(held, change)
        return edition, held

    async def _adopted(self, held: Held) -> tuple[Edition, Held]:
        """Continue a conversation of an unknown definition with the machine's own, if possible."""
        change = await self.editions.carried(held.session)
        if isinstance(change, ev.Migrated):
            return self.editions.current, await self._migrate(held, change)
        session = held.session
        raise ConversationConflict(
            f"conversation {session.conversation_id!r} is in state {session.state!r} and was begun with a definition "
            f"({session.definition[:12]}) that the store does not hold; it cannot go on with "
            f"{self.program.definition.name!r}: {change}"
        )

    async def _migrate(self, held: Held, change: ev.Migrated) -> Held:
        turn = Running(self.editions.current, held.session.conversation_id)
        turn.take((change,))
        return _after_turn(held, await turn.commit("migrate", fold(held.session, turn.events), held, Usage()))

    async def _finished(self, edition: Edition, held: Held, found: UnderWay | None = None) -> Outcome | None:
        """Play an interrupted turn that must not be lost to its end; None if there is none."""
        session = held.session
        first, must, _ = found or await under_way(self.store, session.conversation_id)
        if first is None or not must:
            return None
        await edition.prepare()
        running = Running(edition, session.conversation_id, alone=edition.program.alone)
        began = await running.open(identity(first), first["time"])
        step = begin_again(edition.program, session, first, began, edition.capabilities)
        if step is None:
            return None
        step = await running.play(step)
        request_id = first.get("request_id")
        outcome = await running.commit(first["kind"], step.session, held, step.usage, request_id)
        await after_end(edition, outcome)
        return outcome

    async def _fire(self, edition: Edition, held: Held, now: float) -> Outcome:
        session = held.session
        turn = Running(edition, session.conversation_id, alone=True)
        asked = "" if session.pause is None else session.pause.id
        began = await turn.open({"kind": "due", "id": asked}, now)
        step = await turn.play(begin_due(edition.program, session, began, edition.capabilities))
        outcome = await turn.commit("due", step.session, held, step.usage)
        await after_end(edition, outcome)
        return outcome


def _holding(conversation_id: str, loaded: Loaded | None) -> tuple[Held, str | None]:
    """See `Engine._held`."""
    if loaded is None:
        raise ConversationNotFound(f"there is no conversation {conversation_id!r} in this store")
    text, version, recorded, pinned = loaded
    return Held(parse_session(text), version, pinned), recorded


def _after_turn(held: Held, outcome: Outcome | None) -> Held:
    """Return the conversation after a committed turn; unchanged if there was none."""
    if outcome is None:
        return held
    return Held(session=outcome.session, version=held.version + 1, pinned=outcome.session.definition)


async def _words_for(
    edition: Edition, error: LLMFSMError, session: Session, turn: Running, began: float
) -> str | None:
    """Return the text of an ERROR handler; None if the error must be raised."""
    if Point.ERROR not in edition.capabilities.points or not isinstance(error, ModelError | HandlerError):
        return None
    effect = RunHandlers(point=Point.ERROR, session=structs.replace(session, time=began), error=error)
    results = await edition.run_handlers(effect, turn.left, turn.journal)
    return next((result.text for result in reversed(results.results) if result.text), None)
