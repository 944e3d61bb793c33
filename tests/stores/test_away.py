"""Stores whose server crashes, is gone for a while, or stands still: typed errors, nothing lost,
all works again.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from importlib import import_module

import pytest

import services
from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
TIMEOUT = 1.0
PLACES = {"postgresql": "schema", "redis": "prefix"}
STORES = {
    "postgresql": ("llm_fsm.stores.postgresql", "PostgreSQLStore"),
    "redis": ("llm_fsm.stores.redis", "RedisStore"),
}


@pytest.fixture(scope="module", params=STORES)
def running(request):
    if (reason := services.missing(request.param)) is not None:
        pytest.skip(reason)
    with services.own_server(request.param) as own:
        yield own


@pytest.fixture
def server(running):
    yield running
    running.thaw()
    if running.process.poll() is not None:
        running.start()


def opened(server, port=None):
    module, name = STORES[server.kind]
    place = f"t{uuid.uuid4().hex}"
    url = server.url.replace(str(server.port), str(port or server.port))
    return getattr(import_module(module), name)(
        url, timeout=TIMEOUT, **{PLACES[server.kind]: place}
    )


class Cutting:
    """A way to the server that breaks once, in place of the answer to the nth request in which some
    bytes stand.
    """

    def __init__(self, to):
        self._to = to
        self._mark, self._left = b"", 0
        self.cuts = 0

    async def __aenter__(self):
        self._open, self._tasks = [], []
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for end in self._open:
            end.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(end.wait_closed() for end in self._open), return_exceptions=True)
        await self._server.wait_closed()

    def cut(self, mark, nth):
        self._mark, self._left = mark, nth

    async def _accept(self, reader, writer):
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
        self._open += [writer, to_server]
        due = asyncio.Event()
        ways = self._asked(reader, to_server, due), self._answered(from_server, writer, due)
        self._tasks += map(asyncio.ensure_future, ways)

    async def _asked(self, reader, to_server, due):
        while data := await reader.read(65_536):
            if self._mark in data:
                self._left -= 1
                if self._left == 0:
                    due.set()
            to_server.write(data)
        to_server.close()

    async def _answered(self, from_server, writer, due):
        while data := await from_server.read(65_536):
            if due.is_set():
                self.cuts += 1
                break
            writer.write(data)
        writer.close()


def turn(name, number):
    record = json.dumps([name, number])
    return Commit(
        conversation_id=name,
        expected=number - 1,
        session=record,
        record=record,
        request_id=f"r{number}",
    )


async def fault_of(awaitable):
    with pytest.raises(StoreError) as caught:
        await awaitable
    assert caught.value.retryable
    return str(caught.value)


async def entered(store, name):
    async with store.lock(name, timeout=30):
        pass


async def back(store):
    """Until the store answers again."""
    while True:
        try:
            return await store.load("c")
        except StoreError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.05)


async def test_a_server_that_stands_still_is_an_error_in_time_and_then_all_works_again(server):
    store = opened(server)
    await store.save(turn("c", 1))
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    async with store.lock("c", timeout=30):
        server.freeze()
        uses = [
            store.load("c"),
            store.save(turn("c", 2)),
            store.journal("d", 1, "{}"),
            entered(store, "d"),
        ]
        found = await asyncio.gather(*(fault_of(use) for use in uses))
        assert all("did not answer within" in message for message in found), found
        assert "did not answer within" in await fault_of(store.load("c"))
        assert ticks > 20
        server.thaw()
        loaded = await back(store)
    ticking.cancel()
    assert loaded.version in (1, 2)
    # what the server had been sent before it stood still may be done until now
    await asyncio.sleep(0.3)
    kept = list(await store.records("c"))
    assert loaded.version <= len(kept) <= 2
    assert kept == [turn("c", n).record for n in range(1, len(kept) + 1)]
    async with store.lock("c", timeout=30):
        version = (await store.load("c")).version
        await store.save(turn("c", version + 1))
    await entered(store, "d")
    await store.close()


async def test_a_server_that_crashes_three_times_loses_nothing_that_was_acknowledged(server):
    store = opened(server)
    acknowledged = {f"c{number}": [] for number in range(6)}
    errors = []
    enough = asyncio.Event()

    async def write(name):
        while not enough.is_set():
            try:
                async with store.lock(name, timeout=30):
                    loaded = await store.load(name)
                    number = 1 if loaded is None else loaded.version + 1
                    await asyncio.sleep(0.005)
                    await store.save(turn(name, number))
                    acknowledged[name].append(number)
            except StoreError as error:
                errors.append(error)
                await asyncio.sleep(0.05)

    writers = [asyncio.create_task(write(name)) for name in acknowledged]
    for _ in range(3):
        before = sum(map(len, acknowledged.values()))
        while sum(map(len, acknowledged.values())) < before + 30:
            await asyncio.sleep(0.01)
        server.kill()
        seen = len(errors)
        while len(errors) < seen + 6:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(server.start)
    before = sum(map(len, acknowledged.values()))
    while sum(map(len, acknowledged.values())) < before + 30:
        await asyncio.sleep(0.01)
    enough.set()
    await asyncio.gather(*writers)
    assert [error for error in errors if not error.retryable] == []
    for name, numbers in acknowledged.items():
        records = [json.loads(text) for text in await store.records(name)]
        assert records == [[name, number] for number in range(1, len(records) + 1)]
        assert set(numbers) <= set(range(1, len(records) + 1))
        assert len(set(numbers)) == len(numbers)
        assert (await store.load(name)).version == len(records)
    await store.close()


@pytest.mark.parametrize("nth", [1, 2])
async def test_what_was_deleted_is_told_as_deleted_whenever_the_connection_breaks(server, nth):
    async with Cutting(server.port) as way:
        store = opened(server, way.port)
        await store.save(turn("other", 1))
        assert await store.delete("other")
        await store.save(turn("a-victim", 1))
        way.cut(b"a-victim", nth)
        assert await store.delete("a-victim") is True
        assert way.cuts == 1
        assert await store.load("a-victim") is None
        way.cut(b"nobody", nth)
        assert await store.delete("nobody") is False
        assert way.cuts == 2
        await store.close()


async def test_a_server_that_is_not_there_is_named(server):
    store = opened(server)
    await store.load("c")
    server.stop()
    message = await fault_of(store.load("c"))
    assert f"127.0.0.1:{server.port}" in message
    assert "the server cannot be reached" in message
    await store.close()
