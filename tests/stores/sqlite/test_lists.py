"""A list of many conversations reads only its own lines, beside the turns."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from itertools import product

import pytest

from llm_fsm.stores.base import Commit, ListQuery, OutboxQuery, Outgoing
from llm_fsm.stores.sqlite import SQLiteStore
from sqlite_processes import turn

pytestmark = pytest.mark.anyio

MANY = 50_000
"""Conversations of one definition in one state. A statement that goes through them takes more than
200,000 steps.
"""
FEW = 3_000
"""Steps of SQLite's machine that are enough to find a page of ten lines."""
FILTERS = [
    {"definition": definition, "state": state, "ended": ended, "after": after}
    for definition, state, ended, after in product(
        (None, "shop", "rare"), (None, "hello", "rare"), (None, False, True), (None, "v0025000")
    )
]

ADA = {"user": "ada"}
BY_TIME_AND_LABEL = [
    {"order": "-updated"},
    {"order": "updated", "after": "v0025000", "after_updated": 1.0},
    {"order": "-updated", "after": "v0025000", "after_updated": 1.0},
    {"order": "-updated", "updated_since": 1.0, "updated_before": 2.0},
    {"metadata": ADA},
    {"metadata": ADA, "definition": "rare", "after": "v"},
    {"begins": "v00250"},
    {"ids": frozenset(("w", "v0025000"))},
]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The file of a store with many conversations, and one that is unlike them."""
    path = tmp_path_factory.mktemp("large") / "x.db"

    async def made():
        store = SQLiteStore(path)
        events = (Outgoing(sink="crm", key="k", text="{}"),)
        rare = Commit(
            conversation_id="w",
            expected=0,
            session="{}",
            record="{}",
            definition="rare",
            state="rare",
        )
        rare = replace(rare, metadata=ADA)
        await store.save(replace(rare, ended=True, due=((1.0, "expire"),), outbox=events))
        await store.close()

    asyncio.run(made())
    with closing(sqlite3.connect(path)) as db:
        rows = ((f"v{number:07d}",) for number in range(MANY))
        columns = "id, version, session, definition, state, ended, created, updated"
        db.executemany(
            f"INSERT INTO conversations ({columns}) VALUES (?, 1, '{{}}', 'shop', 'hello', 0, 1, 1)",
            rows,
        )
        db.commit()
    return path


@asynccontextmanager
async def opened(path):
    store = SQLiteStore(path)
    try:
        yield store
    finally:
        await store.close()


def listings(store):
    """Every call of a store that reads of many conversations."""
    return [
        *(store.list(ListQuery(**filters, limit=10)) for filters in FILTERS),
        *(store.list(ListQuery(**filters, limit=10)) for filters in BY_TIME_AND_LABEL),
        *(store.due(10.0, 10, definition) for definition in (None, "shop", "rare")),
        *(
            store.outbox(OutboxQuery(sink=sink, after=after, definition=definition, limit=10))
            for sink, after, definition in product(
                (None, "crm", "other"), (None, "v"), (None, "shop", "rare")
            )
        ),
    ]


async def test_a_list_takes_the_same_steps_however_large_the_table_is(large):
    async with opened(large) as store:
        steps = 0

        def count():
            nonlocal steps
            steps += 100

        await store._list(lambda rows: rows.db.set_progress_handler(count, 100))
        for listing in listings(store):
            steps = 0
            await listing
            assert steps < FEW


async def test_a_list_goes_through_an_index_in_order_and_sorts_nothing(large):
    async with opened(large) as store:
        statements = []
        await store._list(lambda rows: rows.db.set_trace_callback(statements.append))
        for listing in listings(store):
            await listing
        await store._list(lambda rows: rows.db.set_trace_callback(None))
        assert len(statements) >= len(FILTERS)
        for statement in statements:
            plan = await store._list(
                lambda rows, of=statement: rows.db.execute(f"EXPLAIN QUERY PLAN {of}").fetchall()
            )
            for *_, step in plan:
                assert "TEMP B-TREE" not in step, statement
                # A scan of an index in order ends at the last line of the page. One of the table
                # does not.
                assert not step.startswith("SCAN") or "USING" in step or "json_each" in step, (
                    statement
                )


async def test_a_list_finds_what_the_query_admits(large):
    async with opened(large) as store:
        lines = await store.list(ListQuery(limit=MANY + 10))
        assert len(lines) == MANY + 1
        for filters in (*FILTERS, *BY_TIME_AND_LABEL):
            query = ListQuery(**filters, limit=10)
            assert await store.list(query) == query.page(lines)


async def test_the_conversations_of_a_label_are_found_by_time_without_going_through_the_others(
    large,
):
    async with opened(large) as store:
        steps = 0

        def count():
            nonlocal steps
            steps += 100

        await store._list(lambda rows: rows.db.set_progress_handler(count, 100))
        newest = ListQuery(metadata=ADA, order="-updated", limit=10)
        assert [line.conversation_id for line in await store.list(newest)] == ["w"]
        assert await store.count(newest) == 1
        assert steps < FEW


async def test_lists_and_turns_share_no_connection(tmp_path):
    async with opened(tmp_path / "x.db") as store:
        await store.save(turn(1))
        of_turns, of_lists = [], []
        await store._read(lambda rows: rows.db.set_trace_callback(of_turns.append))
        await store._list(lambda rows: rows.db.set_trace_callback(of_lists.append))
        for listing in listings(store):
            await listing
        await store.faults()
        assert of_turns == []
        of_lists.clear()
        async with store.lock("c"):
            await store.load("c", "r1")
            await store.journal("c", 1, "{}")
            await store.journalled("c")
            await store.outbox(OutboxQuery(sink="crm", conversation_id="c"))
            await store.save(turn(2))
            await store.records("c")
        assert of_lists == []


async def test_a_turn_is_loaded_and_saved_while_a_list_runs(large):
    async with opened(large) as store:
        begun, may_end = threading.Event(), threading.Event()

        def pause():
            begun.set()
            may_end.wait(60)

        await store._list(lambda rows: rows.db.set_progress_handler(pause, 10))
        listing = asyncio.ensure_future(store.list(ListQuery(state="hello")))
        assert await asyncio.to_thread(begun.wait, 60)
        await store.save(turn(1))
        assert (await store.load("c")).version == 1
        assert await store.delete("c")
        assert not listing.done()
        may_end.set()
        assert len(await listing) == 100


async def test_a_list_sees_every_turn_that_is_saved(tmp_path):
    async with opened(tmp_path / "x.db") as store:
        assert await store.list(ListQuery()) == ()
        for number in range(1, 20):
            await store.save(
                replace(
                    turn(number), definition="shop", state=f"s{number // 4}", ended=number % 5 == 0
                )
            )
            (line,) = await store.list(
                ListQuery(definition="shop", state=f"s{number // 4}", ended=number % 5 == 0)
            )
            assert line.turns == number
            assert await store.list(ListQuery(definition="shop", ended=number % 5 != 0)) == ()


async def test_a_database_in_memory_lists_its_own_conversations():
    async with opened(":memory:") as store:
        await store.save(turn(1))
        assert [line.conversation_id for line in await store.list(ListQuery())] == ["c"]
