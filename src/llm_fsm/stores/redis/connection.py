"""Connections to a Redis server for one event loop. Commands have a time limit, and locks share one
renewed lease.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from operator import methodcaller
from typing import Any, NamedTuple

from redis import exceptions as faults
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Wake
from llm_fsm.stores.errors import silent
from llm_fsm.stores.redis import scripts
from llm_fsm.stores.redis.errors import fault, is_replica, warn

_CONNECTIONS = 32
_PROBE_SECONDS = 30.0
"""Seconds of silence after which a listener asks the server.

A dead network ends no connection that only waits.
"""


class RedisReply(NamedTuple):
    """An answer of the server. `again`: the command was repeated, because the connection had
    broken.
    """

    value: Any
    again: bool


class RedisLink:
    """Connections of one event loop, the holder of its locks, and the lease.

    All locks have one holder's name. If the outcome of a request for a lock is unknown, later locks
    get a new name. So the old name can expire, and that lock with it.
    """

    def __init__(self, url: str, place: str, prefix: str, timeout: float, lease: float) -> None:
        self.place, self.prefix, self.lease = place, prefix, lease
        self._url, self._timeout = url, timeout
        self.client = Redis(connection_pool=pool_of(url, timeout))
        self.holder = ""
        self._names = map(f"{uuid.uuid4().hex}:{{}}".format, itertools.count(1))
        self._locked: dict[str, int] = {}
        self._doubtful: set[tuple[str, str]] = set()
        self._looked = self._tried = False
        self._renewing: asyncio.Task[None] | None = None

    async def call(self, work: Callable[[Redis], Awaitable[Any]]) -> RedisReply:
        """Send a command. A connection that broke, or leads to a replica after a failover, is
        opened again, once.

        It does not wait twice for a silent server.
        """
        if not self._looked:
            self._looked = True
            try:
                await self._look()
            except BaseException:  # a cancelled check does not count, so the next call repeats it
                self._looked = False
                raise
        try:
            # The flag says whether it was sent twice: a repeated write may find its own effect.
            return RedisReply(await work(self.client), False)
        except faults.TimeoutError as error:
            raise silent(self.place, self._timeout) from error
        except (faults.ConnectionError, OSError) as error:
            if isinstance(error, faults.AuthenticationError | faults.MaxConnectionsError):
                raise fault(self.place, error) from error
        except faults.RedisError as error:
            if not is_replica(error):
                raise fault(self.place, error) from error
            # A server keeps its connections after a failover, so only new ones lead to the new
            # primary.
            await self.client.connection_pool.disconnect(inuse_connections=False)
        with self._reported():
            return RedisReply(await work(self.client), True)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report a fault of the server as a StoreError."""
        try:
            yield
        except faults.TimeoutError as error:
            raise silent(self.place, self._timeout) from error
        except (faults.RedisError, OSError) as error:
            raise fault(self.place, error) from error

    async def may_write(self) -> None:
        """Check, before the first write, that the server permits all commands to this user. Raises
        StoreError.
        """
        if not self._tried:
            run = self.client.register_script(scripts.TRY)
            await self.call(lambda _: run(args=[self.prefix]))
            self._tried = True

    async def take(self, name: str) -> str | None:
        """Take a lock and return its holder; None if another holder has it."""
        # a counter of the server repeats numbers if it loses its data
        holder = self.holder = self.holder or next(self._names)
        milliseconds = max(1, round(self.lease * 1000))
        run = self.client.register_script(scripts.LOCK)
        try:
            answer = await self.call(lambda _: run(args=[self.prefix, name, holder, milliseconds]))
        except StoreError:  # the server may still grant the lock
            self._doubt(name, holder)
            raise
        if not answer.value:
            return None
        # All locks of a process have one holder, so one lease renews them all.
        self._locked[holder] = self._locked.get(holder, 0) + 1
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew(milliseconds))
        return holder

    async def give(self, name: str, holder: str) -> None:
        """Release a lock. A silent server is asked again, or frees it with the lease."""
        self._locked[holder] -= 1
        if not self._locked[holder]:
            del self._locked[holder]
        try:
            await self._unlock(name, holder)
        except StoreError:
            self._doubt(name, holder)

    async def listen(self, wake: Wake) -> None:
        """Call `wake` for each accepted message, on a connection of its own, until it is lost."""
        client = Redis(connection_pool=pool_of(self._url, self._timeout))
        heard = client.pubsub()
        try:
            with self._reported():
                await heard.subscribe(f"{self.prefix}wake")
                await self._hear(heard, wake)
        finally:
            await heard.aclose()  # type: ignore[no-untyped-call]
            await client.connection_pool.disconnect()

    async def _hear(self, heard: PubSub, wake: Wake) -> None:
        probed = False
        while True:
            patience = self._timeout if probed else _PROBE_SECONDS
            message = await heard.get_message(timeout=patience)
            if message is not None:
                probed = False
                if message["type"] in ("subscribe", "message"):  # some may be lost before the first
                    wake()
            # No answer to the probe either: the connection is dead, although nobody closed it.
            elif probed:
                raise silent(self.place, self._timeout)
            else:
                await heard.ping()
                probed = True

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
        if holders := {*self._locked, self.holder} - {""}:
            with suppress(StoreError):
                await self.call(
                    lambda client: client.delete(*(f"{self.prefix}h:{each}" for each in holders))
                )
        await self.client.aclose()
        await self.client.connection_pool.disconnect()

    def drop(self) -> None:
        """Leave the connections to the garbage collector, which closes their sockets."""

    async def _renew(self, milliseconds: int) -> None:
        """Renew the leases of holders while they have locks."""
        try:
            while self._locked:
                await asyncio.sleep(self.lease / 3)
                with suppress(StoreError):
                    for holder in (*self._locked,):
                        key = f"{self.prefix}h:{holder}"
                        await self.call(methodcaller("set", key, 1, px=milliseconds))
                    for name, holder in (*self._doubtful,):
                        await self._unlock(name, holder)
                        self._doubtful.discard((name, holder))
        finally:
            self._renewing = None

    async def _unlock(self, name: str, holder: str) -> None:
        run = self.client.register_script(scripts.UNLOCK)
        await self.call(lambda _: run(args=[self.prefix, name, holder]))

    def _doubt(self, name: str, holder: str) -> None:
        """Remember to release a lock that the server may have granted unseen, because its holder
        may be renewed.
        """
        if self.holder == holder:
            self.holder = ""
        if holder in self._locked:
            self._doubtful.add((name, holder))

    async def _look(self) -> None:
        """Warn about data that the server would lose."""
        asked = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
        try:
            with self._reported():
                found = await self.client.config_get(*asked)
        except StoreError as error:
            if not isinstance(error.__cause__, faults.ResponseError):
                raise
            warn(
                self.place,
                "cannot be asked how durable it is (CONFIG is forbidden)",
                "see to it that",
            )
            return
        if found.get("appendonly") != "yes":
            warn(self.place, "keeps turns in memory only (appendonly no)", "set")
        elif found.get("appendfsync") != "always":
            rule = found.get("appendfsync")
            warn(
                self.place,
                f"loses the last turns when its machine fails (appendfsync {rule})",
                "set",
            )
        policy = found.get("maxmemory-policy") or ""
        if found.get("maxmemory") not in (None, "0") and policy.startswith("allkeys"):
            warn(
                self.place,
                f"throws conversations away when memory is short (maxmemory-policy {policy})",
                "set",
            )


def pool_of(url: str, timeout: float) -> BlockingConnectionPool:
    """Return the connection pool of one event loop, without connecting. Raises ValueError for a
    wrong URL.
    """
    return BlockingConnectionPool.from_url(
        url,
        decode_responses=True,
        max_connections=_CONNECTIONS,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
    )
