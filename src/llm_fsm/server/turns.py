"""Running turns, which continue if their client leaves. Any caller can follow one from any of its
events.

A streamed turn runs in its own task, and keeps its events for a while after its end. A client that
returns with the same request id receives the rest, as long as the store still holds the turn.
Later, or in another process, the engine returns the turn from the store.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

from llm_fsm import ConversationConflict, Turn
from llm_fsm.engine.conversation import TurnStream
from llm_fsm.events import Event, MessageDelta
from llm_fsm.session.turn_record import TurnRecord

KEPT_SECONDS = 60.0
KEPT = 1_000
"""The most finished turns that are kept."""


class LiveTurn:
    """One turn, its events so far, and its result."""

    def __init__(self, request_id: str, said: object) -> None:
        self.request_id = request_id
        self.said = said
        self.telling = secrets.token_hex(4)
        """Tells the events of this object from those of the same turn, begun again or in another
        process.
        """
        self.events: list[Event] = []
        self.turn: Turn | None = None
        self.error: Exception | None = None
        self.stopped: Exception | None = None
        """The error for followers, once somebody asked to stop the turn."""
        self.task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """True if there will be no more events."""
        return self.task is not None and self.task.done()

    def is_among(self, records: Iterable[TurnRecord]) -> bool:
        """Return true if the finished turn is one of these records of its conversation."""
        turn = self.turn
        return turn is not None and any(record.events == turn.events for record in records)

    async def play(self, stream: TurnStream) -> None:
        """Run the turn to its end."""
        try:
            self.turn = await stream.play(self._take)
        except asyncio.CancelledError:
            if self.stopped is None:
                raise
            self.error = self.stopped
        except Exception as error:  # reported to all followers, and not lost in the task
            self.error = error
        finally:
            self._news.set()

    def stop(self, error: Exception) -> None:
        """Stop the turn. Its followers get the error."""
        if self.task is not None and not self.is_over:
            self.stopped = error
            self.task.cancel()

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, Event]]:
        """Yield the events from number `after` + 1 on, as they happen. Raises the error of the
        turn.

        Pieces of text that are there at once come as one, with the number of the last. Nothing
        waits for more of them.
        """
        number = after
        while True:
            while number < len(self.events):
                number, event = self._joined(number)
                yield number, event
            if self.is_over or self.turn is not None or self.error is not None:
                break
            self._news.clear()  # those that wait already are woken all the same
            await self._news.wait()
        if self.error is not None:
            raise self.error

    def _joined(self, number: int) -> tuple[int, Event]:
        """Return the event after number `number`, joined with the text that follows it, and the
        last one's number.
        """
        first = self.events[number]
        number += 1
        if not isinstance(first, MessageDelta) or not first.provisional:
            return number, first
        pieces = [first.text]
        while number < len(self.events):
            following = self.events[number]
            if (
                not isinstance(following, MessageDelta)
                or following.restart
                or not following.provisional
            ):
                break
            pieces.append(following.text)
            number += 1
        return number, first if len(pieces) == 1 else MessageDelta(
            text="".join(pieces), restart=first.restart
        )

    async def settle(self, seconds: float | None = None) -> None:
        """Wait until the turn is over, for at most so many seconds."""
        if self.task is not None:
            await asyncio.wait([self.task], timeout=seconds)

    async def result(self) -> Turn:
        """Return the turn after its end. Raises its error."""
        await self.settle()
        if self.error is not None:
            raise self.error
        if self.turn is None:
            raise asyncio.CancelledError
        return self.turn


class Turns:
    """The turns that run in this process, by conversation and request id."""

    def __init__(self) -> None:
        self._live: OrderedDict[tuple[str, str], LiveTurn] = OrderedDict()
        self._over: OrderedDict[tuple[str, str], float] = OrderedDict()

    def begin(
        self, stored: str, request_id: str, said: object, make: Callable[[], TurnStream]
    ) -> LiveTurn:
        """Run a turn, or find it if it runs already.

        Raises ConversationConflict if the request id belongs to another message.
        """
        key = (stored, request_id)
        self._drop()
        live = self._live.get(key)
        # A turn that failed has changed nothing, so its request id is free again.
        if live is not None and live.error is None:
            if live.said != said:
                raise ConversationConflict(
                    f"request id {request_id!r} was already used for something else; use a new one"
                )
            return live
        live = self._live[key] = LiveTurn(request_id, said)
        live.task = asyncio.create_task(live.play(make()))
        live.task.add_done_callback(lambda _: self._ended(key))
        return live

    def find(self, stored: str, request_id: str) -> LiveTurn | None:
        """Return the turn of a request id, as long as it is kept."""
        return self._live.get((stored, request_id))

    def drop(self, stored: str, request_id: str) -> None:
        """Remove a finished turn."""
        self._live.pop((stored, request_id), None)

    def drop_all(self, stored: str, *, running: bool) -> None:
        """Remove the finished turns of a conversation; with `running` true, also those that run."""
        for key, live in list(self._live.items()):
            if key[0] == stored and (running or live.is_over):
                del self._live[key]

    def cancel(self, stored: str, request_id: str) -> None:
        """Stop a turn."""
        live = self._live.get((stored, request_id))
        if live is not None and live.task is not None:
            live.task.cancel()

    def tasks(self) -> set[asyncio.Task[Any]]:
        """Return the tasks of the turns that run."""
        return {
            live.task for live in self._live.values() if live.task is not None and not live.is_over
        }

    def stop_all(self, error: Exception) -> None:
        """Stop every turn. Its followers get the error, and its journal lets it resume."""
        for live in list(self._live.values()):
            live.stop(error)

    def _ended(self, key: tuple[str, str]) -> None:
        self._over[key] = asyncio.get_running_loop().time() + KEPT_SECONDS

    def _drop(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._over:
            key, until = next(iter(self._over.items()))
            if until > now and len(self._over) <= KEPT:
                return
            del self._over[key]
            live = self._live.get(key)
            if live is not None and live.is_over:
                del self._live[key]
