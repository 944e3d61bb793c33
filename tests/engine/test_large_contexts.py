"""A large context that nobody touches is written once, however long the conversation."""

from __future__ import annotations

import json

import pytest

from llm_fsm import AsyncMachine, create_handler
from llm_fsm.errors import UnreadableError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.doctor import examine
from llm_fsm.records.transfer import export, fork, import_conversation
from llm_fsm.stores.base import Commit
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import reply

pytestmark = pytest.mark.anyio

CATALOGUE = [{"id": number, "name": f"article {number}"} for number in range(1_000)]
ORDER = {
    "name": "order",
    "initial_state": "choose",
    "context_schema": {"properties": {"goods": {"type": "array"}, "size": {"type": "integer"}}},
    "states": {
        "choose": {
            "purpose": "Learn the size",
            "required_context_keys": ["size"],
            "context_scope": {"read": ["size"]},
            "transitions": [{"target_state": "chosen", "description": "told"}],
        },
        "chosen": {"purpose": "Thank"},
    },
}
SHOP = {
    "name": "shop",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "catalogue": {"type": "array", "x-source": "host"},
            "name": {"type": "string"},
        }
    },
    "states": {
        "ask": {
            "purpose": "Learn the name",
            "required_context_keys": ["name"],
            "context_scope": {"read": ["name"]},
            "transitions": [{"target_state": "order", "description": "named"}],
        },
        "order": {
            "kind": "subflow",
            "flow": "order",
            "input": {"goods": "catalogue"},
            "transitions": [{"target_state": "done"}],
        },
        "done": {"purpose": "Say goodbye"},
    },
}
STAY = reply("ask", "And your name?")
WORDS = {"message": "How large?"}
NAMED = reply("order", "Thanks.", name="Ada")


class Written(MemoryStore):
    """Remembers the sessions that were written."""

    def __init__(self):
        super().__init__()
        self.sessions = []

    async def save(self, commit):
        self.sessions.append(commit.session)
        await super().save(commit)


def shop(store, *replies, **settings):
    return AsyncMachine.from_dict(
        SHOP, model=ScriptedLLM(replies), store=store, flows={"order": ORDER}, **settings
    )


async def asked(store, turns=2):
    """Begin a conversation with the catalogue, and talk a little."""
    machine = shop(store, *[STAY] * turns)
    conversation = await machine.start({"catalogue": CATALOGUE}, conversation_id="c", greet=False)
    for _ in range(turns):
        await conversation.send("hm")
    return conversation


async def test_no_session_holds_it_and_every_turn_knows_it():
    store = Written()
    conversation = await asked(store)
    assert [len(text) < 2_000 for text in store.sessions] == [True] * 3
    assert conversation.context["catalogue"] == CATALOGUE
    later = await shop(store).resume("c")
    assert later.context["catalogue"] == CATALOGUE


async def test_it_stays_where_it_is_while_a_flow_works_with_it():
    store = Written()
    await asked(store)
    conversation = await shop(store, NAMED, WORDS, reply("choose", "How large?")).resume("c")
    await conversation.send("Ada")
    await conversation.send("hm")
    assert conversation.data()["goods"] == CATALOGUE
    assert conversation.context["catalogue"] == CATALOGUE
    assert [len(text) < 4_000 for text in store.sessions] == [True] * 5
    last = json.loads(store.sessions[-1])["large"]
    assert {place: record for place, (record, *_) in last.items()} == {
        "/context/goods": 1,
        "/stack/0/kept/context/catalogue": 1,
    }


async def test_another_value_takes_its_place():
    store = Written()
    conversation = await asked(store)
    await conversation.update({"catalogue": CATALOGUE[1:]})
    assert (await shop(store).resume("c")).context["catalogue"] == CATALOGUE[1:]
    assert len(store.sessions[-1]) < 2_000


async def test_an_undone_turn_brings_the_earlier_value_back():
    store = Written()
    conversation = await asked(store)
    await conversation.update({"catalogue": CATALOGUE[1:]})
    await conversation.undo()
    again = await shop(store, STAY).resume("c")
    await again.send("hm")
    assert (await shop(store).resume("c")).context["catalogue"] == CATALOGUE
    assert len(store.sessions[-1]) < 2_000


async def test_a_copy_and_an_import_refer_to_their_own_records():
    store, other = Written(), Written()
    await asked(store)
    await fork(store, "c", "copy", turn=1)
    await import_conversation(other, await export(store, "c"))
    assert await store.delete("c")
    for place, name in ((store, "copy"), (other, "c")):
        conversation = await shop(place, STAY).resume(name)
        await conversation.send("hm")
        assert conversation.context["catalogue"] == CATALOGUE
        assert len(place.sessions[-2]) < 2_000
        assert list(await examine(place)) == []
    assert json.loads(await export(store, "copy"))["session"]["context"]["catalogue"] == CATALOGUE


async def test_a_handler_at_the_end_sees_it():
    seen = []
    store = Written()
    await asked(store)
    look = (
        create_handler("look")
        .at("end_conversation")
        .do(lambda occasion: seen.append(occasion.context["catalogue"]))
    )
    machine = shop(store, handlers=[look])
    conversation = await machine.resume("c")
    await conversation.end()
    assert seen == [CATALOGUE]


async def test_what_a_host_changes_in_a_copy_changes_no_conversation():
    store = Written()
    conversation = await asked(store, 1)
    machine = shop(store, STAY, STAY)
    conversation = await machine.resume("c")
    turn = await conversation.send("hm")
    turn.context["catalogue"].clear()
    conversation.context["catalogue"].clear()
    conversation.data()["catalogue"].clear()
    assert (await conversation.send("hm")).context["catalogue"] == CATALOGUE


async def test_a_record_that_does_not_hold_it_any_more_is_told_and_nothing_is_lost():
    store = Written()
    await asked(store)
    loaded = await store.load("c")
    damaged = MemoryStore()
    texts = [text.replace('article 7"', 'article 8"') for text in await store.records("c")]
    earlier = tuple((text, None) for text in texts[:-1])
    await damaged.save(
        Commit(
            conversation_id="c",
            expected=0,
            session=loaded.session,
            record=texts[-1],
            earlier=earlier,
        )
    )
    with pytest.raises(
        UnreadableError, match=r"record 1 does not hold the value .* at /events/0/context/catalogue"
    ):
        await shop(damaged).resume("c")
    [complaint] = await examine(damaged)
    assert "record 1 does not hold the value" in complaint.what
    assert (await damaged.load("c")).session == loaded.session
