"""Follow conversations: everything that happens in them, whoever caused it, in whichever process.

The truth is in the store: its turn records, by number. A follower reads those after the one that it
saw last. It is woken at once by turns of this process. For turns of other processes, one task asks
the store for the numbers of all followed conversations at intervals, so that a thousand followers
cost two queries.

A *position* is a pair: the number of a record, and of an event within it. Everything up to this
event was seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from llm_fsm import ConversationNotFound, StoreError, observe
from llm_fsm import events as ev
from llm_fsm._json import JsonMap
from llm_fsm.engine.conversation import Turn, turn_of
from llm_fsm.engine.observers import TurnSaved
from llm_fsm.engine.turn_runner import TurnResult
from llm_fsm.server import views
from llm_fsm.server.machines import Machines, Served
from llm_fsm.server.secrecy import Secrecy
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord, parse
from llm_fsm.stores.base import ListQuery, Store

POLL_SECONDS = 1.0
"""Seconds after which a turn of another process is seen at the latest."""
AT_ONCE = 500
"""Conversations in one query."""

Position = tuple[int, int]


class Happened(NamedTuple):
    """One event for followers. `turn` is set for the last event of each record."""

    position: Position
    name: str
    data: JsonMap
    turn: Turn | None = None

    @property
    def id(self) -> str:
        """The position as text, for `Last-Event-ID`."""
        return f"{self.position[0]}:{self.position[1]}"


@dataclass(eq=False, slots=True)
class _Follower:
    """One follower. `seen` is the number of the last record that it read."""

    stored: str
    store: Store
    loop: asyncio.AbstractEventLoop
    seen: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Make it read again. It may be called in any thread."""
        with suppress(RuntimeError):  # its loop is closed, so it is gone
            self.loop.call_soon_threadsafe(self.news.set)


class Feed:
    """The followers of a server's conversations."""

    def __init__(self, machines: Machines, secrecy: Secrecy) -> None:
        self._machines = machines
        self._secrecy = secrecy
        self._followers: dict[str, set[_Follower]] = {}
        self._task: asyncio.Task[None] | None = None

    async def _run(self) -> None:
        """Wake followers, as long as there are any."""
        stop = observe(self._saw)
        try:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                for store in self._machines.stores:
                    with suppress(StoreError):  # asked again after the same time
                        await self._look(store)
        finally:
            stop()

    def _saw(self, conversation_id: str, event: ev.Event) -> None:
        if isinstance(event, TurnSaved):
            for follower in tuple(self._followers.get(conversation_id, ())):
                follower.wake()

    async def _look(self, store: Store) -> None:
        """Wake the followers of conversations that have other records than they read."""
        everybody = chain.from_iterable(self._followers.values())
        followed = [follower for follower in everybody if follower.store is store]
        names = sorted({follower.stored for follower in followed})
        numbers: dict[str, int] = {}
        for start in range(0, len(names), AT_ONCE):
            asked = frozenset(names[start : start + AT_ONCE])
            lines = await store.list(ListQuery(ids=asked, limit=AT_ONCE))
            numbers |= {line.conversation_id: line.turns for line in lines}
        for follower in followed:
            if numbers.get(follower.stored, 0) != follower.seen:
                follower.wake()

    @asynccontextmanager
    async def _following(self, served: Served) -> AsyncGenerator[_Follower]:
        follower = _Follower(served.stored, served.store, asyncio.get_running_loop())
        same = self._followers.setdefault(follower.stored, set())
        same.add(follower)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            await asyncio.sleep(0)  # it observes from now on
        try:
            yield follower
        finally:
            same.discard(follower)
            if not same:
                self._followers.pop(follower.stored, None)
            if not self._followers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def follow(
        self, served: Served, after: Position | None = None, *, seconds: float | None = None
    ) -> AsyncGenerator[Happened]:
        """Yield what happens in a conversation.

        Args:
            served: The conversation.
            after: The position after which to begin. None begins now, with an event `conversation`
                that shows it.
            seconds: If nothing happens for so long, or something has happened, it ends. None: it
                never ends.

        Returns:
            The events. The last one of each turn is `turn`.

        Raises:
            ConversationNotFound: The conversation was deleted.
        """
        async with self._following(served) as follower:
            session = Session(conversation_id=served.stored)
            if after is None:
                session = await self._read_to_now(served, follower, session)
                shown = await self._secrecy.shown(served)
                snapshot = shown.document(views.conversation_of(served))
                yield Happened((follower.seen + 1, 0), "conversation", snapshot)
            first, skipped = after or (follower.seen + 1, 0)
            deadline = asyncio.get_running_loop().time() + (seconds or 0.0)
            told = False
            while True:
                follower.news.clear()
                for number, record in await _new_records(follower):
                    session = fold(session, record.events)
                    follower.seen = number
                    if number < first:
                        continue
                    is_last = not follower.news.is_set()
                    happened = await _happened(
                        served, number, record, session, with_choices=is_last
                    )
                    shown = await self._secrecy.shown(served)
                    for one in happened:
                        if number > first or one.position[1] > skipped:
                            told = True
                            yield one._replace(data=shown.document(one.data))
                if seconds is None:
                    await follower.news.wait()
                elif told or not await _happens(follower, deadline):
                    return

    async def _read_to_now(self, served: Served, follower: _Follower, session: Session) -> Session:
        for number, record in await _new_records(follower):
            session = fold(session, record.events)
            follower.seen = number
        await served.chat.refresh()
        return session


async def _happens(follower: _Follower, deadline: float) -> bool:
    """Wait for news until a time of the event loop. Return false if there were none."""
    try:
        async with asyncio.timeout_at(deadline):
            await follower.news.wait()
    except TimeoutError:
        return False
    return True


async def _new_records(follower: _Follower) -> Sequence[tuple[int, TurnRecord]]:
    """Return the records that a follower has not read, with their numbers. Raises
    ConversationNotFound.
    """
    texts = await follower.store.records(follower.stored, after=follower.seen)
    if not texts:
        loaded = await follower.store.load(follower.stored)
        # it was deleted, and perhaps another one has its id
        if loaded is None or loaded.version < follower.seen:
            raise ConversationNotFound("the conversation was deleted")
    return [(number, parse(text)) for number, text in enumerate(texts, follower.seen + 1)]


async def _happened(
    served: Served, number: int, record: TurnRecord, session: Session, *, with_choices: bool
) -> Sequence[Happened]:
    """Return the events of one record, with the turn at its end."""
    result = TurnResult(record=record, session=session)
    if with_choices:
        await served.chat.refresh()
        if served.chat.state == session.state:
            result = result._replace(choices=served.chat.choices)
    turn = turn_of(result)
    events = [told for event in record.events if (told := _told(served, event)) is not None]
    events.append(("turn", {**views.turn_of(served, turn), "kind": record.kind}))
    last = len(events)
    return [
        Happened((number, place), name, data, turn if place == last else None)
        for place, (name, data) in enumerate(events, 1)
    ]


_TOLD: views.EventTable = {
    ev.UserSaid: ("message", {"text": "text", "picked": "picked", "request_id": "request_id"}),
    ev.Reminded: ("reminder", {"due": "due"}),
    ev.TimedOut: ("timeout", {"pause": "id"}),
    ev.TurnUndone: ("undone", {"record": "record"}),
}
"""Events that followers need beside those of a turn's stream."""


def _told(served: Served, event: ev.Event) -> tuple[str, JsonMap] | None:
    """Return name and data of an event; None if followers do not need it."""
    return views.told_by(_TOLD, event) or views.told(served, event)
