"""Conversations are found, counted and deleted by the labels that they began with, and by time."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from llm_fsm import AsyncMachine, Machine
from llm_fsm.records.doctor import examine
from llm_fsm.records.transfer import fork
from llm_fsm.stores.base import ListQuery
from llm_fsm.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio
DOCUMENT = {
    "name": "greeter",
    "initial_state": "hello",
    "states": {
        "hello": {
            "purpose": "Greet",
            "reply": "Hello!",
            "transitions": [{"target_state": "bye", "description": "The user says bye"}],
        },
        "bye": {"purpose": "End", "kind": "final", "reply": "Bye!"},
    },
}


def clock():
    seconds = itertools.count(100)
    return lambda: float(next(seconds))


def machine_on(store):
    return AsyncMachine.from_dict(DOCUMENT, model="offline", store=store, clock=clock())


def ids(lines):
    return [line.conversation_id for line in lines]


async def test_conversations_are_found_by_their_labels():
    async with machine_on(MemoryStore()) as machine:
        await machine.start(conversation_id="a", metadata={"user": "ada", "channel": "web"})
        await machine.start(conversation_id="b", metadata={"user": "ada"})
        chat = await machine.start(conversation_id="c", metadata={"user": "bob"})
        await machine.start(conversation_id="d")
        assert ids(await machine.conversations(metadata={"user": "ada"})) == ["a", "b"]
        assert ids(await machine.conversations(metadata={"user": "ada", "channel": "web"})) == ["a"]
        assert await machine.count(metadata={"user": "bob"}) == 1
        assert await machine.count() == 4
        assert chat.metadata == {"user": "bob"}
        assert dict((await machine.conversations(after="b", limit=1))[0].metadata) == {
            "user": "bob"
        }


async def test_conversations_are_listed_by_the_time_of_their_last_turn():
    async with machine_on(MemoryStore()) as machine:
        chats = [await machine.start(conversation_id=name) for name in ("a", "b", "c")]
        await chats[0].send("hm")
        newest = await machine.conversations(order="-updated")
        assert ids(newest) == ["a", "c", "b"]
        assert ids(await machine.conversations(newest[0], order="-updated")) == ["c", "b"]
        assert ids(await machine.conversations(updated_since=newest[1].updated)) == ["a", "c"]
        assert ids(await machine.conversations(updated_before=newest[1].updated)) == ["b"]
        with pytest.raises(ValueError, match="goes on after a line of it"):
            await machine.conversations("a", order="-updated")
        with pytest.raises(ValueError, match="order is 'id'"):
            await machine.conversations(order="created")


async def test_all_conversations_of_a_person_are_deleted_and_no_other():
    store = MemoryStore()
    async with machine_on(store) as machine:
        for number in range(5):
            await machine.start(conversation_id=f"ada-{number}", metadata={"user": "ada"})
        await machine.start(conversation_id="bob", metadata={"user": "bob"})
        await fork(store, "ada-1", "copy of ada-1")
        text = await machine.export("ada-2")
        await machine.take_in(text, "ada-2 again")
        assert await machine.delete_matching(metadata={"user": "ada"}) == 7
        assert ids(await machine.conversations()) == ["bob"]
        assert await machine.delete_matching(metadata={"user": "ada"}) == 0
        for nothing in ({}, {"metadata": {}}, {"metadata": None, "state": None}):
            with pytest.raises(ValueError, match="say which conversations to delete"):
                await machine.delete_matching(**nothing)
        with pytest.raises(TypeError, match="no filter 'user'"):
            await machine.delete_matching(user="bob")
        assert await machine.count() == 1


@pytest.mark.parametrize(
    "metadata",
    [
        {"user": 7},
        {"user": ""},
        {"user": "x" * 513},
        {"user": "a\0b"},
        {"user": "\ud800"},
        {"a b": "c"},
        {"": "c"},
        {"x" * 65: "c"},
        {7: "c"},
        ["user"],
        "user",
        dict.fromkeys(map(str, range(17)), "x"),
    ],
)
async def test_labels_that_a_store_could_not_keep_are_refused_before_anything_happens(metadata):
    async with machine_on(MemoryStore()) as machine:
        with pytest.raises(ValueError, match="metadata"):
            await machine.start(metadata=metadata)
        with pytest.raises(ValueError, match="metadata"):
            await machine.count(metadata=metadata)
        assert await machine.count() == 0


async def test_labels_outlive_undo_and_no_model_sees_them():
    async with machine_on(MemoryStore()) as machine:
        chat = await machine.start(conversation_id="a", metadata={"user": "ada lovelace"})
        await chat.send("hm")
        await chat.undo()
        assert chat.metadata == {"user": "ada lovelace"}
        assert "lovelace" not in str(chat.data())
        assert not await examine(machine.store)


async def test_the_doctor_finds_labels_that_are_not_those_of_the_conversation():
    store = MemoryStore()
    async with machine_on(store) as machine:
        await machine.start(conversation_id="a", metadata={"user": "ada"})
        kept = store._conversations["a"]
        kept.first = replace(kept.first, metadata={"user": "bob"})
        assert "'metadata'" in str(await examine(store))


def test_a_synchronous_machine_has_the_same_words():
    with Machine.from_dict(DOCUMENT, model="offline") as machine:
        chat = machine.start(conversation_id="a", metadata={"user": "ada"})
        assert chat.metadata == {"user": "ada"}
        assert machine.count(metadata={"user": "ada"}) == 1
        assert ids(machine.conversations(metadata={"user": "ada"}, order="-updated")) == ["a"]
        assert machine.delete_matching(metadata={"user": "ada"}) == 1
        assert machine.count() == 0


def test_a_query_says_what_is_wrong_with_it():
    with pytest.raises(ValueError, match="give both, or neither"):
        ListQuery(order="updated", after="a")
