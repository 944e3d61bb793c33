"""Deliver events from the outbox to the sinks, in the background and in order.

An event is delivered again until its sink takes it.

The turn writes the undelivered events into the store. One process at a time delivers to a sink for
a conversation. It holds a separate lock, so that turns never wait for a sink.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

from llm_fsm._async import is_cancelled
from llm_fsm.engine.observers import publish
from llm_fsm.engine.outbox.delivery import Delivery
from llm_fsm.engine.outbox.sinks import Sink, SinkFailed, exclusive
from llm_fsm.errors import StoreError, told
from llm_fsm.session.redaction import blotted, shown_event
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import TurnRecord
from llm_fsm.stores.base import OutboxQuery, Outgoing, Posted, Store
from llm_fsm.turn.compiled import CompiledMachine
from llm_fsm.turn.secrets import secrets_in

AT_ONCE = 8
"""Conversations that one sink serves at the same time."""
FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
"""Longest wait before a failed sink is tried again, in seconds.

The wait doubles with each failure.
"""
FIRST_SILENCE = 1.0
LONGEST_SILENCE = 3600.0
"""Longest time without another report about a failing sink, in seconds.

It doubles with each report.
"""
_FLUSH = 5.0
"""Seconds that closing waits for sinks."""
_PAGE = 100
_SHOWN = 300
"""Characters of an error that observers receive."""
_LOGIN = re.compile("//[^/@]*@")


class _BusyError(Exception):
    """Another process delivers, or the store is busy. Nothing is wrong with the sink."""


def outgoing(
    sinks: Sequence[Sink],
    program: CompiledMachine,
    record: TurnRecord,
    session: Session,
    number: int,
) -> tuple[Outgoing, ...]:
    """Make the outbox rows of record `number`, without the values of secret keys."""
    sinks = [sink for sink in sinks if session.conversation_id.startswith(sink.begins)]
    if not sinks:
        return ()
    secrets = _secrets(program, record, session)
    found: list[Outgoing] = []
    for index, event in enumerate(record.events):
        wanting = [sink for sink in sinks if sink.wants(event, session.state)]
        if not wanting:
            continue
        told = {
            "index": index,
            "definition": program.definition.name,
            "kind": record.kind,
            "state": session.state,
            "event": blotted(secrets, shown_event(event, program.is_secret)),
        }
        text = json.dumps(told, separators=(",", ":"))
        key = f"{session.conversation_id}/{number}/{index}"
        found += [Outgoing(sink=sink.name, key=key, text=text) for sink in wanting]
    return tuple(found)


def _secrets(program: CompiledMachine, record: TurnRecord, session: Session) -> tuple[str, ...]:
    return secrets_in(
        record.events, program.is_secret, (session.context, session.root_context()), session.secrets
    )


class OutboxDispatcher:
    """Delivers the outbox of a store to the sinks of one machine.

    `definition` is the machine's name.
    """

    def __init__(self, store: Store, sinks: Sequence[Sink], definition: str) -> None:
        self._store = store
        self._definition = definition
        self.sinks: list[Sink] = []
        self._rounds: list[_Round] = []
        for sink in sinks:
            self.add(sink)

    def add(self, sink: Sink) -> None:
        """Deliver to a further sink from now on."""
        self.sinks.append(sink)
        self._rounds.append(_Round(self._store, sink))

    async def hurry(self, sink: Sink, conversation_id: str) -> bool:
        """Deliver to a sink at once, even if a failure was not long ago.

        Returns:
            False if the sink did not take everything.
        """
        return await self._rounds[self.sinks.index(sink)].hurry(conversation_id)

    def deliver(self, conversation_id: str) -> None:
        """Deliver new rows of a conversation's outbox in the background."""
        for round_ in self._rounds:
            round_.add(conversation_id)

    async def resume(self) -> None:
        """Find all undelivered rows, and deliver them in the background."""
        for round_ in self._rounds:
            await round_.resume(self._definition)

    async def flush(self) -> None:
        """Wait until every sink has taken its events, for a limited time.

        Failed deliveries stay in the outbox.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH):
                for round_ in self._rounds:
                    await round_.idle()

    async def close(self) -> None:
        """Deliver without waiting for retries, then stop."""
        async with AsyncExitStack() as last:  # stops all of them after any error
            for sink in self.sinks:
                if hasattr(sink.deliver, "aclose"):
                    last.push_async_callback(sink.deliver.aclose)
            for round_ in self._rounds:
                last.push_async_callback(round_.stop)
            await self.flush()


class _Round:
    """The conversations that one sink still has to serve, and the task that serves them."""

    def __init__(self, store: Store, sink: Sink) -> None:
        self._store = store
        self._sink = sink
        self._due: dict[str, float] = {}
        """Conversation to the time of its next delivery, in the time of the event loop."""
        self._failures: dict[str, int] = {}
        self._failed = 0
        self._silence = FIRST_SILENCE
        self._silent_until = 0.0
        self._again: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def add(self, conversation_id: str) -> None:
        loop = asyncio.get_running_loop()
        # A sink that fails is not tried earlier because of a new event.
        if conversation_id not in self._failures:
            self._due[conversation_id] = loop.time()
        self._again.add(conversation_id)
        # A task belongs to the event loop that made it, and a machine may be used in another one
        # later.
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._changed = asyncio.Event()
            self._task = loop.create_task(self._run(self._changed))
        self._changed.set()

    async def resume(self, definition: str) -> None:
        query = OutboxQuery(sink=self._sink.name, limit=_PAGE, definition=definition)
        while True:
            rows = await self._store.outbox(query)
            for name in dict.fromkeys(row.conversation_id for row in rows):
                self.add(name)
            if len(rows) < _PAGE:
                return
            query = replace(query, after=rows[-1].conversation_id)

    async def idle(self) -> None:
        """Wait until only failed deliveries are left."""
        while any(name not in self._failures for name in self._due):
            if self._task is None or self._task.done():
                return
            await asyncio.sleep(0.005)

    async def hurry(self, name: str) -> bool:
        self._failures.pop(name, None)
        self.add(name)
        while name in self._due and name not in self._failures:
            await asyncio.sleep(0.005)
        return name not in self._due

    async def stop(self) -> None:
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, changed: asyncio.Event) -> None:
        now = asyncio.get_running_loop().time
        while self._due:
            # Chosen anew each time, so that a conversation that fails does not hold up the others.
            ready = [name for name, at in self._due.items() if at <= now()][:AT_ONCE]
            if ready:
                await asyncio.gather(*(self._serve(name) for name in ready))
                continue
            changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(self._due.values()) - now())):
                    await changed.wait()

    async def _serve(self, name: str) -> None:
        """Serve one conversation. If the sink fails, try again later."""
        # Discarded before reading: a row that is added meanwhile asks for another round.
        self._again.discard(name)
        try:
            whole = await self._deliver(name)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            # If the sink raises anything, the event stays in the outbox and is delivered again.
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 10))
            self._due[name] = asyncio.get_running_loop().time() + wait
            if not isinstance(error, _BusyError):
                self._complain(name, error, wait)
            return
        self._failures.pop(name, None)
        if not self._failures:
            self._failed, self._silence, self._silent_until = 0, FIRST_SILENCE, 0.0
        if whole and name not in self._again:
            del self._due[name]
        else:
            self._due[name] = asyncio.get_running_loop().time()

    async def _deliver(self, name: str) -> bool:
        """Deliver one page. Return false if there may be another."""
        try:
            # Hardly a wait: whoever holds the lock delivers the same rows.
            async with self._store.lock(exclusive(self._sink.name, name), 0.01):
                rows = await self._store.outbox(
                    OutboxQuery(sink=self._sink.name, conversation_id=name, limit=_PAGE)
                )
                for row in rows:
                    await self._sink.take(delivery_of(row))
                    # One by one, so that a crash repeats one event at most.
                    await self._store.acknowledge(row)
        except StoreError as error:
            if error.retryable:
                raise _BusyError from error
            raise
        return len(rows) < _PAGE

    def _complain(self, name: str, error: BaseException, again: float) -> None:
        """Report the sink's failure to observers, unless that was done recently."""
        self._failed += 1
        now = asyncio.get_running_loop().time()
        if now < self._silent_until:
            return
        self._silent_until = now + self._silence
        self._silence = min(LONGEST_SILENCE, self._silence * 2)
        said = " ".join(told(error).split())
        found = SinkFailed(
            sink=_LOGIN.sub("//", self._sink.name),
            error=_LOGIN.sub("//", said)[:_SHOWN],
            again=again,
            failures=self._failed,
        )
        # A host may turn its warning into an error, which must not end the deliveries.
        with suppress(Exception):
            publish(name, found)


def delivery_of(row: Posted) -> Delivery:
    """Convert an outbox row to the delivery that the sink receives."""
    told = json.loads(row.text)
    return Delivery(key=row.key, conversation_id=row.conversation_id, record=row.number, **told)
