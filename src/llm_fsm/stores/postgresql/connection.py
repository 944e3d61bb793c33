"""One connection to a PostgreSQL server. It is opened when needed and after faults, and every call
has a time limit.

A frozen server answers nothing, not even a cancel request. So after the time limit the socket is
shut, which ends the call at once.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection

from llm_fsm.errors import ConfigurationError, StoreError
from llm_fsm.stores.errors import silent
from llm_fsm.stores.postgresql.errors import READ_ONLY, fault, unreachable

Connection = AsyncConnection[Any]
T = TypeVar("T")

_SETTINGS = """SELECT set_config('statement_timeout', %s, false), set_config('jit', 'off', false),
    set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('search_path', %s, false), set_config('client_min_messages', 'error', false),
    set_config('idle_in_transaction_session_timeout', %s, false),
    set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '25000', false),
    set_config('default_transaction_isolation', 'read committed', false),
    CASE WHEN current_setting('idle_session_timeout', true) <> '0'
        THEN set_config('idle_session_timeout', '0', false) END,
    CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', false) END"""
"""Statements take arrays of unknown length, so the planner would choose plans for small tables and
keep them.

Without keepalives, a server notices a machine without power or network after up to two hours. Until
then, the machine's locks stay taken. Locks would also be lost if the server ended idle sessions.
Statements are written for read committed, because a stricter level undoes statements that wait for
a lock.
"""


_VICTIM = frozenset({"40001", "40P01", "23503"})
"""The server undid a statement for another one, for example because of a deadlock or a dropped
definition.
"""
_OF_THE_TIME_OUT = 0.8
"""The server gives a statement up before the client does. Otherwise a write that the client gave up
could still be made, and the caller would be told to try again."""
_PAUSES = (0.01, 0.1, 0.5)
"""Seconds to wait before such a statement is begun again."""


class ManagedConnection:
    """A connection for one user at a time. `welcome` is awaited with each new connection before it
    is used.

    `place` is the server's name in errors; `schema` comes first in the search path; `seconds`
    limits each call.
    """

    def __init__(
        self,
        url: str,
        *,
        place: str,
        schema: str,
        seconds: float,
        welcome: Callable[[Connection], Awaitable[None]],
    ) -> None:
        self._url = url
        self._place = place
        self._schema = schema
        self._seconds = seconds
        self._welcome = welcome
        self._db: Connection | None = None

    async def call(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do work on the connection. It is repeated once after a broken connection, and a few times
        if the server undid it.

        Args:
            work: The work. If it is repeated, it must itself find out if the first time had an
                effect.

        Returns:
            The result of the work.

        Raises:
            Unreachable: The server could not be reached.
            StoreError: The server refused a statement.
        """
        for pause in _PAUSES:
            try:
                return await self._twice(work)
            except StoreError as error:
                # Any other refusal would come again.
                if getattr(error.__cause__, "sqlstate", None) not in _VICTIM:
                    raise
            await asyncio.sleep(pause)
        return await self._twice(work)

    async def _twice(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await self._once(work)
        except psycopg.Error as error:
            # after a failover, only new connections lead to the primary server
            if error.sqlstate == READ_ONLY:
                self.drop()
            # The server has answered, so the fault is one of the statement.
            if not self._lost():
                raise fault(self._place, error) from error
        try:
            return await self._once(work)
        except psycopg.Error as error:
            if self._lost():
                raise unreachable(self._place, error, self._seconds) from error
            raise fault(self._place, error) from error

    async def close(self) -> None:
        """Close the connection, if there is one."""
        db, self._db = self._db, None
        if db is not None:
            await db.close()

    def drop(self) -> None:
        """Close the connection from anywhere, without its event loop."""
        db, self._db = self._db, None
        if db is not None:
            db.pgconn.finish()

    async def _once(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        db = self._db
        if db is None:
            db = self._db = await self._connect()
        return await self._bounded(db, work(db))

    async def _connect(self) -> Connection:
        try:
            db = await AsyncConnection.connect(
                self._url, autocommit=True, prepare_threshold=0, client_encoding="UTF8"
            )
        except psycopg.Error as error:
            raise unreachable(self._place, error, self._seconds) from error
        try:
            milliseconds = str(max(1, round(self._seconds * _OF_THE_TIME_OUT * 1000)))
            path = f'"{self._schema}"'
            await self._bounded(db, db.execute(_SETTINGS, (milliseconds, path, milliseconds)))
            await self._bounded(db, self._welcome(db))
        except BaseException:  # a cancelled opening must not leave a connection behind either
            db.pgconn.finish()
            raise
        return db

    async def _bounded(self, db: Connection, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        try:
            # Not `wait_for`, which would wait for the end of a statement that it cancels.
            done, _ = await asyncio.wait([task], timeout=self._seconds)
        except asyncio.CancelledError:
            _sever(db)
            task.cancel()
            raise
        if done:
            return task.result()
        _sever(db)
        with suppress(psycopg.Error):
            await task
        self._lost()
        raise silent(self._place, self._seconds)

    def _lost(self) -> bool:
        """Return true if there is no connection any more, and drop a broken one."""
        if self._db is not None and (self._db.closed or self._db.broken):
            self.drop()
        return self._db is None


def check_loop() -> None:
    """Refuse an event loop that cannot watch sockets, such as the default one of Windows, because
    psycopg needs that.
    """
    loop = asyncio.get_running_loop()
    # Tried out, because no loop tells whether it can.
    watched, other = socket.socketpair()
    try:
        loop.add_reader(watched, int)
        loop.remove_reader(watched)
    except NotImplementedError as error:
        raise ConfigurationError(
            f"the PostgreSQL store cannot be used with {type(loop).__name__}, which cannot watch sockets: begin with "
            "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop), or use Machine"
        ) from error
    finally:
        watched.close()
        other.close()


def _sever(db: Connection) -> None:
    """Shut the socket of a connection, because a regular close would wait for the server."""
    if db.pgconn.socket < 0:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(db.pgconn.socket)) as copy:
        copy.shutdown(socket.SHUT_RDWR)
