"""The common work of all doors: find the conversation, count the message, play the turn."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from llm_fsm import AsyncMachine, Choice, ConversationConflict, ConversationNotFound, Turn
from llm_fsm import events as ev
from llm_fsm._json import JsonDict, JsonMap, TextMap
from llm_fsm.engine.advice import with_language
from llm_fsm.engine.pauses import OpenPause, open_pause
from llm_fsm.records.transfer import fork
from llm_fsm.server.ending import CONNECTIONS, TURNS, Ending, cut_off
from llm_fsm.server.limits import Gauge, Limits
from llm_fsm.server.machines import Machines, Served, new_id
from llm_fsm.server.pool import WorkPool
from llm_fsm.server.problems import Problem
from llm_fsm.server.rights import check, check_answer, check_list, check_own_id, check_start, may
from llm_fsm.server.secrecy import Redactor, Secrecy
from llm_fsm.server.stopping import Stopping
from llm_fsm.server.tokens import NOBODY, Caller
from llm_fsm.server.turns import LiveTurn, Turns
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import Listed, ListQuery, Store, every_line

PLAYS: ContextVar[Service | None] = ContextVar("llm_fsm_plays", default=None)
"""The service that plays the current turn; None for machines of the host."""
DELETED_AT_ONCE = 500
"""Lines of a listing that are read before their conversations are deleted."""
RUN = "run"
"""The request id of a run in `Turns`, because a run has no message."""
_NO_PAUSE = ""
"""The id of no pause. An answer to it is refused, unless its request is known and gets the recorded
turn.
"""


def _said(text: str | Choice, *, picked: bool) -> str | Choice:
    """Return a message. The engine looks up the value of a choice by its label."""
    return Choice(text, None) if picked and isinstance(text, str) else text


@dataclass(frozen=True, slots=True)
class Begun:
    """A new conversation. `is_new` is false if the same request began it before."""

    served: Served
    greeting: str
    is_new: bool


class Service:
    """The machines of a server, with their running turns, for all doors."""

    def __init__(self, machines: Machines, limits: Limits) -> None:
        self.machines = machines
        self.limits = limits
        self.gauge = Gauge(limits)
        self.turns = Turns()
        self.pool = WorkPool(limits)
        self.secrecy = Secrecy()
        self.stopping = Stopping()
        self.forgets: list[Callable[[Served], Awaitable[None]]] = []
        """Functions that forget a conversation which is about to be deleted."""
        self.ending = Ending(limits.shutdown_seconds)
        self.wakes: list[Callable[[], None]] = []
        """Functions that begin a look for work without a caller; none: no such work is done here.
        """

    def wake(self) -> None:
        """Look for work without a caller at once, such as a message that was just accepted."""
        for wake in self.wakes:
            wake()

    @property
    def is_closing(self) -> bool:
        """True if the server was told to end. It takes no new messages then."""
        return self.ending.is_begun

    async def drain(self) -> None:
        """Begin the end, let turns finish until the deadline, and stop those that are late. Their
        journals resume them.
        """
        self.ending.begin()
        while under_way := self._under_way():
            left = self.ending.left(TURNS)
            if not left:
                break
            await asyncio.wait(under_way, timeout=left)
        if under_way:
            self.turns.stop_all(cut_off())
            self.stopping.stop_all(cut_off())
            await asyncio.wait(under_way, timeout=self.ending.left(CONNECTIONS))

    def _under_way(self) -> set[asyncio.Task[Any]]:
        """Return the tasks that play turns, except for the current one."""
        tasks = self.turns.tasks() | self.stopping.tasks()
        return tasks - {asyncio.current_task()}

    def enter(self, caller: Caller, *, reads: bool = False) -> None:
        """Count a request, and mark the turns in it as those of this service. `reads`: it changes
        nothing, and is answered while the server ends, too.

        A request that nobody has checked yet is not counted: else anybody could use up what a
        channel may take. A channel enters its senders itself, once it knows them.

        Raises:
            Problem: The caller sends too many requests (429), or the server ends (503).
        """
        if self.is_closing and not reads:
            raise Problem("unavailable", "the server ends; ask again, and another one answers")
        if caller is not NOBODY:
            self.gauge.request(caller)
        PLAYS.set(self)

    async def shown(self, served: Served) -> Redactor:
        """Return the last step for all that leaves of a conversation; see `secrecy`."""
        return await self.secrecy.shown(served)

    async def document(self, served: Served, document: JsonMap) -> JsonDict:
        """Return a document of a conversation without its secrets."""
        shown = await self.secrecy.shown(served)
        found: JsonDict = shown.document(document)
        return found

    async def find(self, caller: Caller, conversation_id: str, *, fresh: bool = False) -> Served:
        """Return a conversation. Raises ConversationNotFound, and Problem 403.

        `fresh`: read it again, with the changes of other processes.
        """
        check(caller, "read", "read a conversation", caller.stored(conversation_id))
        served = await self.machines.find(caller, conversation_id)
        if not fresh:
            return served
        try:
            await served.chat.refresh()
        except ConversationNotFound:  # another process deleted it, so its id is free
            self.machines.forget(served.stored)
            raise
        return served

    # -- conversations

    async def start(
        self,
        caller: Caller,
        machine: AsyncMachine,
        *,
        context: JsonMap | None = None,
        conversation_id: str | None = None,
        greet: bool = True,
        state: str | None = None,
        key: str | None = None,
        history: Iterable[tuple[str, str]] | None = None,
        metadata: TextMap | None = None,
        anew: bool = False,
        language: str = "",
    ) -> Begun:
        """Begin a conversation, or return the one of the same key. Raises ConversationConflict, and
        Problem 403.

        `history`: messages from elsewhere, as (role, text). `metadata`: labels for listings.
        `anew`: it begins again if it has ended. `language`: as for `Machine.start`.
        """
        check_own_id(caller, conversation_id)
        name = conversation_id or new_id(caller, "start", key)
        stored = caller.stored(name)
        check_start(caller, machine, stored, context=context, state=state)
        context = with_language(machine.definition, context, language)
        try:
            chat = await machine.start(
                context, stored, greet, state, history=history, metadata=metadata, anew=anew
            )
        except ConversationConflict:
            if key is None:
                raise
            found = await self._same_start(
                caller, machine, name, context, state=state, metadata=metadata
            )
            return Begun(*found, is_new=False)
        return Begun(self.machines.cache(caller, machine, chat), chat.greeting, is_new=True)

    async def open(
        self,
        caller: Caller,
        machine: AsyncMachine,
        conversation_id: str,
        *,
        anew: bool = False,
        **wish: Any,
    ) -> Served:
        """Return the conversation of an id, or begin it if there is none. Raises Problem 403.

        `wish` is as for `start`, and counts only if this call begins it. `anew`: it begins again if
        it has ended.
        """
        try:
            served = await self.find(caller, conversation_id, fresh=True)
            if not (anew and served.chat.ended):
                return served
        except ConversationNotFound:
            pass
        try:
            begun = await self.start(
                caller, machine, conversation_id=conversation_id, anew=anew, **wish
            )
        except ConversationConflict:  # another delivery was faster
            return await self.find(caller, conversation_id, fresh=True)
        return begun.served

    async def _same_start(
        self,
        caller: Caller,
        machine: AsyncMachine,
        name: str,
        context: JsonMap | None,
        *,
        state: str | None,
        metadata: TextMap | None,
    ) -> tuple[Served, str]:
        served = await self.find(caller, name)
        turns = await served.chat.turns()
        first = next(turn for turn in reversed(turns) if isinstance(turn.events[0], ev.Started))
        began: Any = first.events[0]
        wanted = machine.definition.initial_state if state is None else state
        same = dict(began.context) == dict(context or {}) and began.state == wanted
        if (
            served.machine is not machine
            or not same
            or served.chat.metadata != dict(metadata or {})
        ):
            raise ConversationConflict(
                "this idempotency key already began another conversation; use a new one"
            )
        return served, first.text

    async def send(
        self, served: Served, text: str | Choice, request_id: str | None, *, picked: bool = False
    ) -> Turn:
        """Send a message; `picked`: it is the label of a choice. Raises the errors of
        `AsyncConversation.send`.
        """
        served.check("talk", "send messages")
        try:
            async with self.stopping.running(served.store, served.stored):
                return await served.chat.send(_said(text, picked=picked), request_id=request_id)
        except ConversationNotFound:  # another process deleted it, so its id is free
            self.machines.forget(served.stored)
            raise

    async def answer(
        self, served: Served, value: object, pause: str | None, request_id: str | None
    ) -> Turn:
        """Answer the pause. Raises the errors of `AsyncConversation.answer`."""
        meant = await self._pause(served, pause, request_id)
        async with self.stopping.running(served.store, served.stored):
            return await served.chat.answer(value, pause=meant, request_id=request_id)

    async def stream(
        self,
        served: Served,
        text: str | Choice,
        request_id: str | None,
        *,
        picked: bool = False,
        opened: bool = False,
    ) -> LiveTurn:
        """Send a message, and return a turn that can be followed.

        Args:
            served: The conversation.
            text: The message, or the choice.
            request_id: The key of the turn.
            picked: True if the message picks a choice.
            opened: True if the stream of this turn is open, and counted, already.

        Raises:
            Problem: Too many streams are open (429). `Turns.begin` names the others.
        """
        served.check("talk", "send messages")
        if not opened:
            self.gauge.check_streams(served.caller)
        key = request_id or uuid.uuid4().hex
        await self._drop_unrecorded(served, key)
        live = self.turns.begin(
            served.stored,
            key,
            ("message", text.label if isinstance(text, Choice) else text),
            lambda: served.chat.stream(_said(text, picked=picked), request_id=key),
        )
        return self._stoppable(served, live)

    async def stream_answer(
        self,
        served: Served,
        value: object,
        pause: str | None,
        request_id: str | None,
        *,
        opened: bool = False,
    ) -> LiveTurn:
        """Answer the pause, and return a turn that can be followed; `opened` as in `stream`."""
        if not opened:
            self.gauge.check_streams(served.caller)
        meant = await self._pause(served, pause, request_id)
        key = request_id or uuid.uuid4().hex
        await self._drop_unrecorded(served, key)
        live = self.turns.begin(
            served.stored,
            key,
            ("answer", value),
            lambda: served.chat.stream_answer(value, pause=meant, request_id=key),
        )
        return self._stoppable(served, live)

    def _stoppable(self, served: Served, live: LiveTurn) -> LiveTurn:
        """Let a turn be stopped while it runs."""
        if live.task is not None and not live.is_over:
            stored = served.stored
            self.stopping.add(live, served.store, stored, live.stop)
            live.task.add_done_callback(lambda _: self.stopping.remove(live, stored))
        return live

    async def cancel_turn(self, served: Served) -> bool:
        """Stop the turn that is under way, in any process. Raises the errors of `Stopping.stop`,
        and Problem 403.
        """
        served.check("talk", "stop a turn")
        return await self.stopping.stop(served.store, served.stored)

    async def _drop_unrecorded(self, served: Served, request_id: str) -> None:
        """Forget a finished turn unless the store holds it: only the store knows what was deleted
        or begun anew.
        """
        live = self.turns.find(served.stored, request_id)
        if live is None or not live.is_over:
            return
        loaded = await served.store.load(served.stored, request_id)
        recorded = None if loaded is None else loaded.recorded
        if recorded is None or not live.is_among([parse(recorded)]):
            self.turns.drop(served.stored, request_id)

    async def _pause(self, served: Served, pause: str | None, request_id: str | None) -> str:
        """Return the id of the pause that an answer is for. Raises Problem 403 if its caller may
        not answer it.

        The engine compares the id when it takes the answer. So an answer never reaches a pause that
        began after this check, and that the caller may not answer.
        """
        await served.chat.refresh()
        waits = served.chat.paused
        if waits is None:
            return pause or _NO_PAUSE
        if pause is not None and pause != waits.id:
            return pause
        if not served.may_answer(waits) and await self._is_known(served, request_id):
            return _NO_PAUSE
        check_answer(served.caller, waits, served.stored)
        return waits.id

    async def _is_known(self, served: Served, request_id: str | None) -> bool:
        """Return true if a request is being answered, or was answered, so that it changes nothing
        again.
        """
        if request_id is None:
            return False
        if self.turns.find(served.stored, request_id) is not None:
            return True
        loaded = await served.store.load(served.stored, request_id)
        return loaded is not None and loaded.recorded is not None

    async def end(self, served: Served) -> None:
        """Close a conversation. Raises Problem 403."""
        served.check("talk", "close a conversation")
        await served.chat.end()

    async def undo(self, served: Served, turn: int | None) -> None:
        """Take the last turn back; `turn`: only if it has this number. Raises ConversationConflict,
        and Problem 403.
        """
        served.check("manage", "take a turn back")
        if turn is not None:
            last = max((message.turn for message in await served.chat.history()), default=0)
            if last != turn:
                raise Problem(
                    "conflict", f"the last turn is {last}, not {turn}; nothing was taken back"
                )
        await served.chat.undo()
        self.turns.drop_all(served.stored, running=False)

    async def copy(
        self,
        served: Served,
        turn: int | None,
        conversation_id: str | None,
        key: str | None,
        *,
        is_edit: bool = False,
    ) -> Begun:
        """Copy a conversation as it was after a turn. Raises ConversationConflict, ValueError, and
        Problem 403.

        `is_edit`: the user edited a message. That needs no right but to talk, because who has the
        transcript could hold the same conversation again.
        """
        if is_edit:
            served.check("talk", "send messages")
        else:
            served.check("manage", "copy a conversation")
        name = conversation_id or new_id(served.caller, "fork", key)
        try:
            await fork(served.store, served.stored, served.caller.stored(name), turn)
            is_new = True
        except ConversationConflict:
            if key is None or conversation_id is not None:
                raise
            is_new = False
        copy = await self.find(served.caller, name)
        return Begun(copy, copy.chat.greeting, is_new)

    async def delete(self, served: Served) -> None:
        """Remove a conversation. Raises Problem 403."""
        served.check("manage", "delete a conversation")
        await self.discard(served)

    async def discard(self, served: Served) -> None:
        """Remove a conversation, for example a new one in which nothing happened. It needs no
        right.
        """
        for forget in self.forgets:
            await forget(served)
        self.machines.forget(served.stored)
        await served.machine.delete(served.stored)
        self.turns.drop_all(served.stored, running=True)
        self.secrecy.forget(served.stored)

    # -- many conversations

    async def listed(self, caller: Caller, query: ListQuery) -> Sequence[Listed]:
        """Return conversations that a caller may read. Raises Problem 403."""
        check_list(caller)
        return await self.machines.listed(caller, query)

    async def paused(self, caller: Caller, query: ListQuery) -> Sequence[tuple[Served, OpenPause]]:
        """Return the conversations that wait for an answer and match a query. Raises Problem 403.

        `query.paused` is set. Only the conversations of the page are read, and none of their turns.
        """
        check(caller, "answer", "list what waits for an answer")
        found = []
        for line in await self.machines.listed(caller, query):
            if not may(caller, "answer", line.conversation_id):
                continue
            with suppress(ConversationNotFound):  # it was deleted meanwhile
                served = await self.machines.find(caller, caller.public(line.conversation_id))
                pause = await open_pause(served.store, line)
                if pause is not None:
                    found.append((served, pause))
        return found

    async def counted(self, caller: Caller, query: ListQuery) -> int:
        """Count the conversations that a caller may read. Raises Problem 403."""
        check_list(caller)
        return await self.machines.counted(caller, query)

    async def delete_all(self, caller: Caller, query: ListQuery) -> int:
        """Delete all conversations of a caller that match, and return their number. Raises Problem
        403.

        Those of definitions that are not served any more are deleted, too, unless the caller is
        limited to definitions.
        """
        check(caller, "manage", "delete conversations")
        wanted = replace(query, begins=caller.stored(query.begins), limit=DELETED_AT_ONCE)
        deleted, before = 0, -1
        while deleted != before:  # until a whole round finds none: some may begin meanwhile
            before = deleted
            for store in self.machines.stores:
                async for line in every_line(store, wanted):
                    if caller.may_use(line.definition):
                        deleted += await self._delete_line(caller, store, line.conversation_id)
        return deleted

    async def _delete_line(self, caller: Caller, store: Store, stored: str) -> bool:
        try:
            served = await self.find(caller, caller.public(stored))
        except ConversationNotFound:  # its definition is not served any more
            return await store.delete(stored)
        await self.delete(served)
        return True

    # -- between messages

    async def say(self, served: Served, text: str, request_id: str | None, *, by: str = "") -> Turn:
        """Say something to the user. `by`: the person who says it.

        Raises the errors of `AsyncConversation.say`, and Problem 403.
        """
        served.check("say", "speak for the program")
        return await served.chat.say(text, by=by, request_id=request_id)

    async def update(
        self, served: Served, context: JsonMap, state: str | None, request_id: str | None
    ) -> Turn:
        """Change keys or the state. Raises the errors of `AsyncConversation.update`, and Problem
        403.
        """
        served.check("seed", "change keys or the state")
        return await served.chat.update(context, state, request_id=request_id)

    # -- runs without a user

    async def run(
        self,
        caller: Caller,
        machine: AsyncMachine,
        *,
        given: Any,
        context: JsonMap | None,
        background: JsonMap | None,
        run_id: str | None,
        key: str | None,
    ) -> tuple[str, LiveTurn]:
        """Begin or resume a run in the background. Return its id, and the turn to follow.

        Raises ConversationConflict if the id belongs to another definition, and Problem 403.
        """
        check_own_id(caller, run_id)
        name = run_id or new_id(caller, "run", key)
        stored = caller.stored(name)
        check_start(caller, machine, stored, context=context, background=background)
        if await self.machines.machine_of(stored) not in (None, machine):
            raise ConversationConflict(
                f"the id {name!r} belongs to a conversation of another definition; use a new one"
            )
        live = self.turns.find(stored, RUN)
        if live is not None and live.is_over:
            self.turns.drop(stored, RUN)
        said = ("run", machine.definition.name, given, context, background)
        return name, self.turns.begin(
            stored, RUN, said, lambda: machine.run_stream(given, context, stored, background)
        )

    async def live_run(self, served: Served) -> LiveTurn | None:
        """Return the run of a conversation that runs, or that ended here a while ago and is still
        on record.
        """
        live = self.turns.find(served.stored, RUN)
        if live is None or not live.is_over or live.error is not None:
            return live
        records = await served.store.records(served.stored)
        if live.is_among(map(parse, records)):
            return live
        self.turns.drop(served.stored, RUN)
        return None

    async def cancel(self, served: Served) -> None:
        """Stop a run for good. Raises Problem 403."""
        served.check("talk", "stop a run")
        self.turns.cancel(served.stored, RUN)
        await served.chat.end()
