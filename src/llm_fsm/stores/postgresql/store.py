"""Conversations in a PostgreSQL database (psycopg 3; server 12 or newer).

A process has three connections: one reads, one writes, one holds locks. A worker listens
on a fourth. Simultaneous requests of many conversations go to the server in one statement. Every
turn is part of one transaction that is on the disk before `save` returns.

A lock is a row that names its holder, and a holder is alive as long as its connection holds an
advisory lock. It says so every five seconds. Whoever waits for one that stood still for fifteen
ends its connection. So locks end with their process, and ten thousand of them cost the server no
shared memory. Every write checks the row, so a process that lost the lock during an outage writes
nothing. The store needs its own connection for that, so a pooler must pool by session, not by
transaction.
"""

from __future__ import annotations

import asyncio
import re
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import ProgrammingError, conninfo, sql

from llm_fsm.errors import ConfigurationError, StoreError
from llm_fsm.stores.base import Commit, Loaded, Wake
from llm_fsm.stores.batching import BatchQueue, rounds
from llm_fsm.stores.errors import Unreachable
from llm_fsm.stores.forwarding import ForwardingStore, Work
from llm_fsm.stores.locks.conversation_lock import finished
from llm_fsm.stores.per_loop import PerLoop
from llm_fsm.stores.postgresql import statements as rows
from llm_fsm.stores.postgresql.connection import Connection, ManagedConnection, check_loop
from llm_fsm.stores.postgresql.errors import place_of, unreachable
from llm_fsm.stores.postgresql.schema import holder_of, prepare
from llm_fsm.stores.postgresql.statements import FROZEN_SECONDS, JournalStep, LockedRequest
from llm_fsm.stores.registry import seconds, taken, with_defaults

BEAT_SECONDS = 5.0
"""Seconds between two signs of life of a process that holds locks."""
_PROBE_SECONDS = 30.0
"""Seconds of silence after which a listener asks the server.

A dead network ends no connection that only waits.
"""
_Serve = Callable[[Connection, Sequence[Any], bool], Awaitable[Sequence[Any]]]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class PostgreSQLStore(ForwardingStore, PerLoop["_LoopParts"]):
    """A `Store` in the database of `url`, as libpq takes it. `schema` is the schema of the tables.

    The first use connects, and creates missing schemas and tables. `timeout`: seconds after which a
    statement without an answer is given up. A connection gets half of that, unless the URL has a
    `connect_timeout`. The URL may have both, as `?schema=NAME&timeout=5`. May be used from several
    event loops and threads, each with its own connections. Raises ConfigurationError for a URL that
    libpq does not understand.
    """

    def __init__(self, url: str, *, schema: str = "llm_fsm", timeout: float = 10.0) -> None:
        url, settings = taken(url, "schema", "timeout")
        self._schema = settings.get("schema", schema)
        self._timeout = seconds("timeout", settings.get("timeout", timeout))
        connecting = max(2, round(self._timeout / 2))
        self._url = with_defaults(url, connect_timeout=connecting, application_name="llm-fsm")
        if not _NAME.fullmatch(self._schema):
            raise ConfigurationError(
                "the schema of a postgresql store is a name of letters, digits and underscores"
            )
        try:
            conninfo.conninfo_to_dict(self._url)
            self.place = place_of(self._url)
        except ProgrammingError as error:
            raise ConfigurationError(
                "this is no URL of a PostgreSQL database; for example postgresql://user:password@localhost:5432/bots"
            ) from error
        super().__init__()
        weakref.finalize(self, _drop, self._parts).atexit = False

    async def load(self, conversation_id: str, request_id: str | None = None) -> Loaded | None:
        parts = self._own()
        return await parts.reads.ask(parts.load, (conversation_id, request_id))

    async def save(self, commit: Commit) -> None:
        """See `Store.save`. After a broken connection, it searches the commit."""
        parts = self._own()
        await finished(
            parts.writes.ask(
                parts.save, LockedRequest(commit, self._held.get(commit.conversation_id))
            )
        )

    async def journal(self, conversation_id: str, step: int, text: str) -> None:
        parts = self._own()
        entry = JournalStep(conversation_id, step, text)
        await finished(
            parts.writes.ask(parts.journal, LockedRequest(entry, self._held.get(conversation_id)))
        )

    async def journalled(self, conversation_id: str) -> Sequence[str]:
        parts = self._own()
        return await parts.reads.ask(parts.journalled, conversation_id)

    async def forget_journal(self, conversation_id: str) -> None:
        holder = self._held.get(conversation_id)
        await self._write(lambda kept: kept.forget_journal(conversation_id, holder))

    async def listen(self, wake: Wake) -> None:
        await self._own().listen(wake)

    async def delete(self, conversation_id: str) -> bool:
        seen: set[str] = set()
        return bool(await self._write(lambda kept: kept.delete(conversation_id, seen)))

    async def _read(self, work: Work[Any]) -> Any:
        parts = self._own()
        return await parts.reads.ask(parts.read, work)

    async def _write(self, work: Work[Any]) -> Any:
        parts = self._own()
        return await finished(parts.writes.ask(parts.write, work))

    def _new_parts(self) -> _LoopParts:
        check_loop()
        return _LoopParts(self._url, self.place, self._schema, self._timeout)


class _LoopParts:
    """Connections of one event loop, and the requests that they serve."""

    def __init__(self, url: str, place: str, schema: str, timeout: float) -> None:
        self.place, self.schema = place, schema
        self.holder = 0
        self._beating: asyncio.Task[None] | None = None
        self._looked_for_frozen = self._said_alive = 0.0
        self.reads, self.writes, self.locks = BatchQueue(), BatchQueue(), BatchQueue()
        self._ready = asyncio.Lock()
        self._timeout = timeout
        self._make = partial(ManagedConnection, url, place=place, schema=schema, seconds=timeout)
        self.reading = self._make(welcome=self._welcome)
        self.writing = self._make(welcome=self._welcome)
        self.locking = self._make(welcome=self._welcome_holder)

    async def _welcome(self, db: Connection) -> None:
        async with self._ready:
            await prepare(db, self.place, self.schema)

    async def _welcome_holder(self, db: Connection) -> None:
        await self._welcome(db)
        self.holder = await holder_of(db)
        await self._say_alive(db)
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        """Say again and again that this process lives, until the connections are closed."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with suppress(StoreError):  # who cannot say so loses its locks, as it must
                await self.locks.ask(self.beat, None)

    async def beat(self, asked: Sequence[Any]) -> Sequence[Any]:
        await self.locking.call(self._say_alive)
        return [None for _ in asked]

    async def listen(self, wake: Wake) -> None:
        """Call `wake` for each accepted message, on a connection of its own, until it is lost."""
        line = self._make(welcome=self._welcome)
        named = sql.Identifier(rows.channel(self.schema))
        begin = sql.SQL("LISTEN {}").format(named)

        async def listening(db: Connection) -> Connection:
            await db.execute(begin)
            return db

        try:
            while True:  # each round is a probe, which begins again on a new connection
                db = await line.call(listening)
                wake()
                async for _ in db.notifies(timeout=_PROBE_SECONDS):
                    wake()
        except psycopg.Error as error:
            raise unreachable(self.place, error, self._timeout) from error
        finally:
            line.drop()

    async def load(self, asked: Sequence[Any]) -> Sequence[Loaded | None]:
        return await self.reading.call(lambda db: rows.load(db, asked))

    async def journalled(self, asked: Sequence[Any]) -> Sequence[Sequence[str]]:
        return await self.reading.call(lambda db: rows.journalled(db, asked))

    async def read(self, asked: Sequence[Any]) -> Sequence[Any]:
        return await _each(self.reading, asked)

    async def write(self, asked: Sequence[Any]) -> Sequence[Any]:
        return await _each(self.writing, asked)

    async def save(self, asked: Sequence[Any]) -> Sequence[Any]:
        return await self._rounds(rows.save, asked, lambda item: item.value.conversation_id)

    async def journal(self, asked: Sequence[Any]) -> Sequence[Any]:
        return await self._rounds(rows.journal, asked, lambda item: item.value[:2])

    async def _rounds(
        self, serve: _Serve, asked: Sequence[Any], key: Callable[[Any], Any]
    ) -> Sequence[Any]:
        """Serve each key once in a statement, in order, so that two statements do not wait for each
        other.
        """
        outcomes = [None] * len(asked)
        keys = [key(item) for item in asked]
        for places in rounds(keys):
            ordered = sorted(places, key=keys.__getitem__)
            found = await self._together(serve, [asked[place] for place in ordered])
            for place, outcome in zip(ordered, found, strict=True):
                outcomes[place] = outcome
        return outcomes

    async def _together(
        self, serve: _Serve, asked: Sequence[Any], attempts: int = 0
    ) -> Sequence[Any]:
        """Serve all requests in one transaction. If that fails, serve each alone, so that one
        affects no other.
        """

        async def work(db: Connection, items: Sequence[Any]) -> Sequence[Any]:
            nonlocal attempts
            attempts += 1
            return await serve(db, items, attempts > 1)

        try:
            return await self.writing.call(lambda db: work(db, asked))
        # Without a server, each alone would only wait once more.
        except Unreachable:
            raise
        except Exception as error:
            if len(asked) == 1:
                return [error]
        return [(await self._together(serve, [item], attempts))[0] for item in asked]

    async def take(self, name: str) -> int | None:
        return await self.locks.ask(self.lock, (name, None))

    async def give(self, name: str, holder: int) -> None:
        await self.locks.ask(self.lock, (name, holder))

    async def lock(self, asked: Sequence[Any]) -> Sequence[int | None]:
        """Serve pairs of id and holder: release the lock of a holder, or take a lock without one."""

        async def work(db: Connection) -> Sequence[int | None]:
            if time.monotonic() - self._said_alive > BEAT_SECONDS:  # the event loop may have rested
                await self._say_alive(db)
            # Released before anything is taken: the next holder may be in the same batch.
            if given := [item for item in asked if item[1] is not None]:
                await rows.unlock(db, given)
            wanted = [name for name, holder in asked if holder is None]
            taken = await rows.lock(db, wanted, self.holder) if wanted else ()
            if busy := [name for name in wanted if name not in taken]:
                await self._end_frozen(db, busy)
            return [
                self.holder if holder is None and name in taken else None for name, holder in asked
            ]

        return await self.locking.call(work)

    async def _say_alive(self, db: Connection) -> None:
        await rows.say_alive(db, self.holder)
        self._said_alive = time.monotonic()

    async def _end_frozen(self, db: Connection, names: Sequence[str]) -> None:
        """End connections of frozen processes that somebody waits for, at most once a second."""
        now = time.monotonic()
        if now - self._looked_for_frozen < 1.0:
            return
        self._looked_for_frozen = now
        await rows.end_frozen(db, names, FROZEN_SECONDS)

    async def close(self) -> None:
        self._stop_beating()
        # In this order: a write needs its lock, so locks are served to the end.
        for lane in (self.reads, self.writes, self.locks):
            await lane.idle()
        for line in (self.reading, self.writing, self.locking):
            await line.close()

    def _stop_beating(self) -> None:
        if self._beating is not None:
            with suppress(RuntimeError):  # its event loop is closed already
                self._beating.cancel()

    def drop(self) -> None:
        self._stop_beating()
        for line in (self.reading, self.writing, self.locking):
            line.drop()


async def _each(
    line: ManagedConnection, works: Sequence[Callable[[rows.PostgresRows], Awaitable[Any]]]
) -> Sequence[Any]:
    """Serve requests one by one, each with its result or its error. An unreachable server ends them
    all.
    """
    found = []
    for work in works:
        try:
            found.append(await line.call(partial(rows.perform, work=work)))
        except Unreachable:
            raise
        except Exception as error:
            found.append(error)
    return found


def _drop(parts: dict[asyncio.AbstractEventLoop, _LoopParts]) -> None:
    """Free the connections of a store that was dropped without `close`."""
    for each in list(parts.values()):
        each.drop()
