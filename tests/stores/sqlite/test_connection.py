"""The connection of the SQLite store goes on after faults, and the event loop meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest

from llm_fsm.errors import ConversationConflict, StoreError
from llm_fsm.stores.sqlite import SQLiteStore
from sqlite_processes import turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.db"


@asynccontextmanager
async def used(path, **options):
    """A store that has saved four turns."""
    store = SQLiteStore(path, **options)
    try:
        for number in (1, 2, 3, 4):
            await store.save(turn(number))
        yield store
    finally:
        await store.close()


async def test_while_another_program_is_writing_the_event_loop_goes_on_and_the_turn_waits(path):
    async with used(path, busy_timeout=30) as store:
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            release = threading.Timer(1, other.execute, ["COMMIT"])
            release.start()
            saving = asyncio.ensure_future(store.save(turn(5)))
            await asyncio.sleep(0.1)
            assert not saving.done()
            await saving
            release.join()
        assert (await store.load("c")).version == 5


async def test_refused_save_leaves_nothing_behind_and_the_next_one_goes_on(path):
    async with used(path) as store:
        with pytest.raises(ConversationConflict):
            await store.save(turn(4))
        assert (await store.load("c")).version == 4
        await store.save(turn(5))
        assert len(await store.records("c")) == 5


async def test_work_that_fails_in_the_middle_of_a_transaction_is_rolled_back(path):
    def half(rows):
        rows.db.execute("UPDATE conversations SET version = 7")
        raise StoreError("taken back")

    async with used(path) as store:
        with pytest.raises(StoreError, match="taken back"):
            await store._write(half)
        assert (await store.load("c")).version == 4


async def test_full_disk_is_an_error_and_the_store_goes_on_when_there_is_space(path):
    async with used(path) as store:
        (pages,) = await store._read(lambda rows: rows.db.execute("PRAGMA page_count").fetchone())
        await store._read(
            lambda rows: rows.db.execute(f"PRAGMA max_page_count = {pages}").fetchone()
        )
        with pytest.raises(StoreError, match="the disk is full"):
            await store.save(turn(5, size=100_000))
        assert (await store.load("c")).version == 4
        await store._read(
            lambda rows: rows.db.execute(f"PRAGMA max_page_count = {2 * pages + 400}").fetchone()
        )
        await store.save(turn(5, size=100_000))
        assert (await store.load("c")).version == 5


async def test_write_ahead_log_stays_bounded(path):
    async with used(path) as store:
        for number in range(5, 1200):
            await store.save(turn(number))
        assert path.with_name("x.db-wal").stat().st_size < 5_000_000


async def test_several_event_loops_write_one_after_the_other(path):
    async def add(store, name):
        for number in range(1, 101):
            await store.save(replace(turn(number), conversation_id=name))

    async with used(path) as store:
        others = [
            threading.Thread(target=asyncio.run, args=[add(store, f"t{n}")]) for n in range(3)
        ]
        for thread in others:
            thread.start()
        await add(store, "t3")
        while any(thread.is_alive() for thread in others):
            await asyncio.sleep(0.01)
        assert [(await store.load(f"t{n}")).version for n in range(4)] == [100] * 4


async def test_cancelled_save_is_over_before_the_cancelling_goes_on(path):
    async with used(path) as store:
        entered, leave = threading.Event(), threading.Event()
        first = asyncio.ensure_future(store._read(lambda _: (entered.set(), leave.wait(30))))
        await asyncio.to_thread(entered.wait)
        saving = asyncio.ensure_future(store.save(turn(5)))
        await asyncio.sleep(0.01)
        saving.cancel()
        await asyncio.sleep(0.05)
        assert not saving.done()
        leave.set()
        with pytest.raises(asyncio.CancelledError):
            await saving
        assert (await store.load("c")).version == 5
        await first
