"""What a store committed last is given again without being read, as long as nobody else wrote to the file."""

from __future__ import annotations

import random
import sqlite3
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial

import pytest

from llm_fsm.errors import ConversationConflict
from llm_fsm.stores.sqlite import batches
from llm_fsm.stores.sqlite import lately as sqlite_lately
from llm_fsm.stores.sqlite.store import SQLiteStore
from sqlite_processes import turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.db"


@asynccontextmanager
async def opened(path):
    store = SQLiteStore(path)
    try:
        yield store
    finally:
        await store.close()


def turn_of(name, number):
    return replace(turn(number, size=30), conversation_id=name)


async def loaded(store, name="c"):
    """The conversation, and whether it was read from the file."""
    statements = []
    db = store._own().worker._db
    db.set_trace_callback(statements.append)
    try:
        found = await store.load(name)
    finally:
        db.set_trace_callback(None)
    return found, any("FROM conversations" in statement for statement in statements)


async def known(store, name="c"):
    """The store has asked once since when it is to know of other writers."""
    await store.load(name)
    found = await store.load(name)
    await store.save(turn_of(name, found.version + 1))


async def test_what_was_committed_last_is_not_read_again(path):
    async with opened(path) as store:
        await store.save(turn(1))
        await known(store)
        for number in (3, 4, 5):
            await store.save(replace(turn(number), definition_sha=None))
            found, was_read = await loaded(store)
            assert (found.session, found.version) == (turn(number).session, number)
            assert (found.recorded, found.definition_sha, was_read) == (None, None, False)


async def test_what_another_connection_committed_is_read(path):
    async with opened(path) as store, opened(path) as other:
        await store.save(turn(1))
        await known(store)
        await other.save(turn(3))
        found, was_read = await loaded(store)
        assert (found.session, found.version, was_read) == (turn(3).session, 3, True)


async def test_all_is_read_again_when_another_connection_committed_anything(path):
    async with opened(path) as store:
        for name in "ab":
            await store.save(turn_of(name, 1))
        await known(store, "a")
        await known(store, "b")
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE conversations SET session = 'theirs' WHERE id = 'a'")
        await store.save(turn_of("b", 3))
        found, was_read = await loaded(store, "b")
        assert (found.version, was_read) == (3, True)
        found, was_read = await loaded(store, "a")
        assert (found.session, was_read) == ("theirs", True)


async def test_a_commit_that_is_refused_is_not_given_out(path):
    async with opened(path) as store:
        await store.save(turn(1))
        await known(store)
        with pytest.raises(ConversationConflict):
            await store.save(replace(turn(3), request_id="r1"))
        found, was_read = await loaded(store)
        assert (found.session, found.version, was_read) == (turn_of("c", 2).session, 2, True)


async def test_what_was_committed_together_with_others_is_read(path):
    async with opened(path) as store:
        for name in "ab":
            await store.save(turn_of(name, 1))
            await known(store, name)
        together = partial(batches.save, [turn_of("a", 3), turn_of("b", 3)])
        assert await store._run(together, writes=True) == [None, None]
        assert [(await store.load(name)).version for name in "ab"] == [3, 3]


async def test_what_was_deleted_is_gone(path):
    async with opened(path) as store:
        await store.save(turn(1))
        await known(store)
        await store.delete("c")
        assert await loaded(store) == (None, True)


async def test_the_answer_to_a_request_id_is_looked_for(path):
    async with opened(path) as store:
        await store.save(turn(1))
        await known(store)
        assert (await store.load("c", "r2")).recorded == turn_of("c", 2).record


async def test_few_conversations_are_kept(path):
    names = [str(number) for number in range(sqlite_lately._MOST + 1)]
    async with opened(path) as store:
        await store.save(turn_of("c", 1))
        await known(store)
        for name in names:
            await store.save(turn_of(name, 1))
        assert [(await loaded(store, name))[1] for name in names] == [True] + [False] * sqlite_lately._MOST


@pytest.mark.parametrize("seed", range(3))
async def test_whoever_writes_a_store_says_what_stands_in_the_file(path, seed):
    """Two stores and another program write in turns, some turns are refused, and each load is held against the file."""
    choose = random.Random(seed)
    async with opened(path) as one, opened(path) as other:
        with closing(sqlite3.connect(path, isolation_level=None)) as third:
            for step in range(300):
                name, store = choose.choice("abc"), choose.choice([one, one, one, other])
                try:
                    stands = third.execute("SELECT session, version FROM conversations WHERE id = ?", [name]).fetchone()
                except sqlite3.OperationalError:  # no store has opened the file yet
                    stands = None
                found = await store.load(name)
                assert (found and (found.session, found.version)) == stands
                version = stands[1] if stands else 0
                what = choose.choice(["save", "save", "save", "save", "refuse", "delete", "edit"])
                commit = replace(turn_of(name, version + 1), session=f"{step}", request_id=None)
                if what == "save":
                    await store.save(commit)
                elif what == "refuse":
                    with pytest.raises(ConversationConflict):
                        await store.save(replace(commit, expected=version + 1))
                elif what == "delete":
                    assert await store.delete(name) == (stands is not None)
                elif step:
                    third.execute("UPDATE conversations SET session = ? WHERE id = ?", [f"edited {step}", name])
