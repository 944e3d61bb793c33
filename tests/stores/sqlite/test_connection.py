"""Transactions in the thread of whoever asks, where the disk is quick, and the log of an SQLite file between them."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import pytest

from llm_fsm.errors import ConversationConflict, StoreError
from llm_fsm.stores.sqlite import connection as sqlite_worker
from llm_fsm.stores.sqlite.store import SQLiteStore
from sqlite_processes import turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.db"


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(sqlite_worker, "_BRIEF", 60.0)


@asynccontextmanager
async def used(path, **options):
    """A store that has saved four turns, and then had the time to see to its log."""
    store = SQLiteStore(path, **options)
    try:
        for number in (1, 2, 3, 4):
            await store.save(turn(number))
        await rested(store)
        yield store
    finally:
        await store.close()


async def rested(store):
    """When the thread of the store has seen to the log and waits for work again."""
    worker = store._own().worker
    while worker._is_log_due() or worker._using.locked():
        await asyncio.sleep(0.001)


async def saved_at_once(store, commit):
    """Whether a save, which is made, waits for nothing."""
    saving = store.save(commit)
    try:
        waits_for = saving.send(None)
    except StopIteration:
        return True
    waits_for._asyncio_future_blocking = False
    await waits_for
    with pytest.raises(StopIteration):
        saving.send(None)
    return False


async def test_where_the_disk_is_quick_a_turn_is_saved_without_waking_a_thread(path, quick):
    async with used(path) as store:
        for number in range(5, 25):
            assert await saved_at_once(store, turn(number))
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT version FROM conversations").fetchone() == (24,)


async def test_where_the_disk_is_slow_the_event_loop_does_not_wait_for_it(path, monkeypatch):
    monkeypatch.setattr(sqlite_worker, "_BRIEF", 0.0)
    async with used(path) as store:
        for number in (5, 6, 7, 8):
            await store.save(turn(number))
            await rested(store)
        assert not await saved_at_once(store, turn(9))


async def test_after_one_slow_transaction_the_next_ones_are_left_to_the_thread(path, quick, monkeypatch):
    async with used(path) as store:
        monkeypatch.setattr(sqlite_worker, "_BRIEF", 0.0)
        assert await saved_at_once(store, turn(5))
        monkeypatch.setattr(sqlite_worker, "_BRIEF", 60.0)
        for _ in range(4):
            threads = []
            await store._run(lambda _, seen=threads: seen.append(threading.current_thread()), writes=True)
            assert threads != [threading.current_thread()]
            await rested(store)
        assert await saved_at_once(store, turn(6))


async def test_where_another_program_is_writing_the_event_loop_goes_on_and_the_turn_waits(path, quick):
    async with used(path, busy_timeout=30) as store:
        with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
            other.execute("BEGIN IMMEDIATE")
            release = threading.Timer(1, other.execute, ["COMMIT"])  # who waits gets the lock
            release.start()
            saving = asyncio.ensure_future(store.save(turn(5)))
            await asyncio.sleep(0)
            assert not saving.done()
            await saving
            release.join()
        assert (await store.load("c")).version == 5
        await rested(store)
        assert await saved_at_once(store, turn(6))


async def test_a_save_that_is_refused_leaves_nothing_behind_and_the_next_one_goes_on(path, quick):
    async with used(path) as store:
        with pytest.raises(ConversationConflict):
            store.save(turn(4)).send(None)
        with pytest.raises(KeyboardInterrupt):
            store._own().worker.at_once(interrupted, writes=True)
        assert (await store.load("c")).version == 4
        assert await saved_at_once(store, turn(5))


def interrupted(db):
    db.execute("UPDATE conversations SET version = 7")
    raise KeyboardInterrupt


async def test_a_disk_without_space_is_told_at_once_and_the_store_goes_on_when_there_is_some(path, quick):
    async with used(path) as store:
        db = store._own().worker._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="the disk is full"):
            store.save(turn(5, size=100_000)).send(None)
        assert (await store.load("c")).version == 4
        db.execute(f"PRAGMA max_page_count = {2 * pages + 100}")
        assert await saved_at_once(store, turn(5, size=100_000))


async def test_the_log_is_emptied_while_nobody_waits_and_before_a_commit_has_to_do_it(path, quick, tmp_path):
    async with used(path) as store:
        number = 4
        while await saved_at_once(store, turn(number + 1)):
            number += 1
            assert path.stat().st_size == 4096  # all of it is in the log
        assert 100 < number < 150
        await rested(store)
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)  # without its log
        with closing(sqlite3.connect(copy)) as found:
            assert found.execute("SELECT version FROM conversations").fetchone() == (number + 1,)
        assert await saved_at_once(store, turn(number + 2))


async def test_a_database_in_memory_is_written_without_waking_a_thread(quick):
    async with used(":memory:") as store:
        assert await saved_at_once(store, turn(5))
        assert (await store.load("c")).version == 5


async def test_several_event_loops_write_one_after_the_other(path, quick):
    async def add(store, name):
        for number in range(1, 101):
            await store.save(replace(turn(number), conversation_id=name))

    async with used(path) as store:
        others = [threading.Thread(target=asyncio.run, args=[add(store, f"t{n}")]) for n in range(3)]
        for thread in others:
            thread.start()
        await add(store, "t3")
        while any(thread.is_alive() for thread in others):
            await asyncio.sleep(0.01)
        assert [(await store.load(f"t{n}")).version for n in range(4)] == [100] * 4

