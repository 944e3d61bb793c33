"""The MongoDB store keeps the contract, as far as mongomock can tell."""

from __future__ import annotations

import asyncio
import time

import mongomock
import pymongo
import pytest

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit, ListQuery
from llm_fsm.stores.mongodb import MongoDBStore
from llm_fsm.stores.mongodb.documents import Documents
from llm_fsm.stores.mongodb.errors import fault, place_of
from llm_fsm.testing.store_contract.suite import store_suite

pytestmark = pytest.mark.anyio
URL = "mongodb://ada:secret@db.example:27017/bots"


@pytest.mark.parametrize("check", store_suite(shared=True, fenced=True), ids=str)
async def test_mongodb_keeps_the_contract(check):
    server = mongomock.MongoClient()

    async def lose(store, name):
        lost = server["bots"]["locks"].update_one({"_id": name}, {"$set": {"until": 0.0}})
        assert lost.matched_count == 1

    def make():
        return MongoDBStore(URL, client=lambda: server)

    await check(make, reopen=make, lose=lose)


def turn(number, name="c"):
    return Commit(conversation_id=name, expected=number - 1, session="{}", record=f'"{number}"')


async def test_a_conversation_that_was_kept_before_there_were_labels_has_none():
    server = mongomock.MongoClient()
    store = MongoDBStore(URL, client=lambda: server)
    await store.save(turn(1))
    server["bots"]["turns"].update_many({}, {"$unset": {"labels": ""}})
    await store.save(turn(2))
    server["bots"]["turns"].update_many({}, {"$unset": {"labels": ""}})
    (line,) = await store.list(ListQuery(order="updated"))
    assert (line.turns, line.metadata) == (2, {})
    await store.close()


async def test_a_lock_lives_as_long_as_its_lease_is_renewed():
    server = mongomock.MongoClient()
    store, other = (MongoDBStore(URL, client=lambda: server, lease=0.3) for _ in range(2))
    async with store.lock("c"):
        with pytest.raises(StoreError, match="busy in another process"):
            async with other.lock("c", timeout=1.0):
                pass
    async with other.lock("c", timeout=1.0):
        await other.save(turn(1))
    await store.close()
    await other.close()


async def test_what_a_crash_left_half_done_is_not_there():
    server = mongomock.MongoClient()
    store = MongoDBStore(URL, client=lambda: server)
    turns = server["bots"]["turns"]
    for number in (1, 2):
        await store.save(turn(number))
    turns.update_one(
        {"number": 1},
        {"$set": {"current": True, "session": "old", "due": [{"time": 1.0, "kind": "x"}]}},
    )
    assert (await store.load("c")).version == 2
    assert [line.turns for line in await store.list(ListQuery())] == [2]
    assert list(await store.due(5.0)) == []
    await store.save(turn(3))
    assert turns.count_documents({"current": True}) == 1
    turns.delete_one({"number": 3})
    assert await store.load("c") is None
    assert list(await store.records("c")) == []
    await store.save(turn(1))
    assert [line.turns for line in await store.list(ListQuery())] == [1]
    await store.close()


def test_passwords_do_not_show_and_the_database_has_a_name():
    assert place_of(URL) == ("mongodb://db.example:27017/bots", "bots")
    assert place_of("mongodb://localhost") == ("mongodb://localhost/llm_fsm", "llm_fsm")


@pytest.mark.parametrize(
    ("error", "retryable", "message"),
    [
        (
            pymongo.errors.ServerSelectionTimeoutError("no server"),
            True,
            "did not answer in time (no server",
        ),
        (pymongo.errors.AutoReconnect("gone"), True, "the server cannot be reached (gone)"),
        (
            pymongo.errors.OperationFailure("no", 18),
            False,
            "refuses this user or password: check both",
        ),
        (pymongo.errors.OperationFailure("no", 13), False, "grant it readWrite on the database"),
        (pymongo.errors.OperationFailure("odd", 99), False, "cannot do it (odd"),
        (pymongo.errors.DocumentTooLarge("big"), False, "larger than the 16 MB"),
    ],
)
def test_what_is_wrong_is_said_with_a_way_out(error, retryable, message):
    said = fault("mongodb://host/bots", error)
    assert said.retryable is retryable
    assert message in str(said)


async def test_a_server_that_is_not_there_is_an_error_in_time():
    store = MongoDBStore("mongodb://127.0.0.1:9/bots", timeout=0.3)
    with pytest.raises(StoreError, match=r"mongodb://127\.0\.0\.1:9/bots: the server") as caught:
        await store.load("c")
    assert caught.value.retryable
    await store.close()


async def test_a_cancelled_turn_is_over_before_the_next_one_begins(monkeypatch):
    server = mongomock.MongoClient()
    store = MongoDBStore(URL, client=lambda: server)
    whole = Documents.save

    def slow(self, commit):
        time.sleep(0.3)
        whole(self, commit)

    monkeypatch.setattr(Documents, "save", slow)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), store.lock("c"):
            await store.save(turn(1))
    async with store.lock("c"):
        loaded = await store.load("c")
    assert loaded is not None
    assert await store.records("c") == ('"1"',)
    await store.close()


async def test_a_lock_that_could_not_be_given_back_is_over_while_the_process_holds_another():
    server = mongomock.MongoClient()
    store, other = (MongoDBStore(URL, client=lambda: server, lease=0.3) for _ in range(2))
    async with store.lock("c"):
        async with store.lock("d"):
            kept = server["bots"]["locks"].find_one({"_id": "d"})
        server["bots"]["locks"].insert_one(kept)
        async with other.lock("d", timeout=3.0):
            await store.save(turn(1))
    await store.close()
    await other.close()
