"""Whole conversations travel from store to store, are copied as they were, and are examined."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from llm_fsm import AsyncMachine
from llm_fsm.errors import ConversationConflict, ConversationNotFound, StoreError, UnreadableError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records import parse_session
from llm_fsm.stores.base import Commit
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.resolve import resolve
from llm_fsm.testing import reply
from llm_fsm.transfer import examine, export, fork, take_in

pytestmark = pytest.mark.anyio
ORDER = {
    "name": "order",
    "initial_state": "ask",
    "context_schema": {"type": "object", "properties": {"dish": {"type": "string"}}},
    "states": {
        "ask": {
            "purpose": "Ask for the dish.",
            "transitions": [{"target_state": "done", "description": "The user has said a dish"}],
        },
        "done": {"purpose": "Say thanks.", "transitions": []},
    },
}
REPLIES = [
    reply("ask", "Which one?"),
    reply("ask", "With salad?", dish="soup"),
    reply("done", "Thanks."),
]


def machine(store):
    return AsyncMachine.from_dict(ORDER, model=ScriptedLLM(REPLIES, loop=True), store=store)


async def talked(store, name="c", turns=3):
    chat = await machine(store).start(conversation_id=name, greet=False)
    for number in range(1, turns + 1):
        await chat.send(f"message {number} \ud800\0", request_id=f"r{number}")


async def state_of(store, name):
    loaded = await store.load(name)
    return None if loaded is None else parse_session(loaded.session)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "file", "postgresql", "redis"])
async def test_a_conversation_comes_back_from_its_text_in_every_store(kind, tmp_path, request):
    urls = {
        "memory": "memory",
        "sqlite": f"sqlite:///{tmp_path / 'x.db'}",
        "file": f"file://{tmp_path / 'x'}",
    }
    url = urls.get(kind) or request.getfixturevalue(f"{kind}_url")
    first, second = MemoryStore(), resolve(url)
    await talked(first)
    text = await export(first, "c")
    assert text.isascii()
    assert await take_in(second, text) == "c"
    assert await export(second, "c") == text
    assert await second.list() == await first.list()
    assert await second.load("c", "r2") == await first.load("c", "r2")
    assert list(await examine(second)) == []
    with pytest.raises(ConversationConflict, match="exists already"):
        await take_in(second, text)
    await second.close()


async def test_a_conversation_goes_on_under_its_new_id_and_can_be_undone():
    store = MemoryStore()
    await talked(store, turns=2)
    assert await take_in(store, await export(store, "c"), "d") == "d"
    chat = await machine(store).resume("d")
    await chat.undo()
    assert (await state_of(store, "d")).conversation_id == "d"
    await chat.send("again", request_id="r9")
    assert (await state_of(store, "d")).turn == 2
    assert (await state_of(store, "c")).turn == 2
    assert list(await examine(store)) == []


async def test_a_fork_is_the_conversation_as_it_was():
    store = MemoryStore()
    await talked(store)
    await fork(store, "c", "now")
    await fork(store, "c", "then", turn=1)
    now, then = await state_of(store, "now"), await state_of(store, "then")
    assert (now.state, now.turn, now.ended) == ("done", 3, True)
    assert (then.state, then.turn, then.ended, dict(then.context)) == ("ask", 1, False, {})
    assert (await store.load("then", "r1")).recorded is not None
    assert (await store.load("then", "r2")).recorded is None
    assert (await store.load("then")).definition_sha == (await store.load("c")).definition_sha
    await (await machine(store).resume("then")).send("another way")
    assert (await state_of(store, "c")).turn == 3
    assert list(await examine(store)) == []


async def test_a_turn_that_was_taken_back_is_no_place_to_fork_at():
    store = MemoryStore()
    await talked(store, turns=2)
    await (await machine(store).resume("c")).undo()
    with pytest.raises(ValueError, match=r"conversation 'c' has no turn 2; its turns are 0, 1"):
        await fork(store, "c", "d", turn=2)
    await fork(store, "c", "d", turn=1)
    assert (await state_of(store, "d")).turn == 1
    with pytest.raises(ConversationConflict, match="exists already"):
        await fork(store, "c", "d")
    with pytest.raises(ConversationNotFound):
        await fork(store, "nobody", "e")


async def test_a_text_of_the_first_format_is_read():
    text = (Path(__file__).parent / "data" / "stores" / "export_1.json").read_text("utf-8")
    store = MemoryStore()
    assert await take_in(store, text) == "golden/1"
    assert (await state_of(store, "golden/1")).state == "bye"
    assert await export(store, "golden/1") == text.strip()
    assert list(await examine(store)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "Expecting value"),
        ("[]", "no exported conversation"),
        ("{}", "'conversation'"),
        ('{"conversation": "c\\u0000"}', "control characters"),
    ],
)
async def test_a_text_that_is_no_conversation_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        await take_in(MemoryStore(), text)


async def test_a_text_is_read_with_suspicion():
    store = MemoryStore()
    await talked(store)
    text = await export(store, "c")

    def changed(**keys):
        return json.dumps({**json.loads(text), **keys})

    with pytest.raises(StoreError, match="format 7; this version reads format 1"):
        await take_in(store, changed(format=7), "d")
    with pytest.raises(ValueError, match="not the one that it is pinned to"):
        await take_in(store, changed(definition_document={}), "d")
    with pytest.raises(ValueError, match="no records"):
        await take_in(store, changed(records=[]), "d")
    whole = json.loads(text)
    with pytest.raises(ValueError, match="changed since: its records do not lead to its session: state differ"):
        await take_in(store, changed(session={**whole["session"], "state": "ask"}), "d")
    with pytest.raises(ValueError, match=r"changed since: its session cannot be used: session.window\[0\] is not text"):
        await take_in(store, changed(session={**whole["session"], "window": [[1, 2]]}), "d")
    with pytest.raises(ValueError, match=r"its 'turn' is \[\]"):
        await take_in(store, changed(session={**whole["session"], "turn": []}), "d")
    with pytest.raises(ValueError, match="Infinity is no number"):
        await take_in(store, changed(session={**whole["session"], "time": float("inf")}), "d")
    with pytest.raises(ValueError, match="1e400 is no number"):
        await take_in(store, text.replace('"time":', '"time":1e400,"was":'), "d")
    assert await store.load("d") is None


async def test_the_doctor_names_what_does_not_agree_and_touches_nothing():
    store = MemoryStore()
    await talked(store)
    await fork(store, "c", "wrong")
    loaded = await store.load("wrong")
    session = {**json.loads(loaded.session), "state": "ask", "ended": False}
    record = (await store.records("c"))[-1]
    await store.save(
        Commit(conversation_id="wrong", expected=loaded.version, session=json.dumps(session), record=record)
    )
    await store.save(Commit(conversation_id="odd", expected=0, session="{}", record="{}"))
    odd, *wrong = await examine(store)
    assert odd.conversation_id == "odd"
    assert "format None" in odd.what
    assert [(complaint.conversation_id, complaint.what) for complaint in wrong] == [
        ("wrong", "its records do not lead to its session: ended, state, turn, window differ"),
        ("wrong", "the listing shows another state than the session has"),
    ]
    assert (await store.load("wrong")).version == loaded.version + 1


async def damaged(tmp_path, sql):
    """A store with the conversations a and b, changed behind its back."""
    store = resolve(f"sqlite:///{tmp_path / 'x.db'}")
    for name in "ab":
        await talked(store, name, turns=2)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        db.execute(sql)
        db.commit()
    return resolve(f"sqlite:///{tmp_path / 'x.db'}")


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE conversations SET session = 'null' WHERE id = 'a'", "a stored conversation cannot be read"),
        ("UPDATE conversations SET session = '[]' WHERE id = 'a'", "a stored conversation cannot be read"),
        (
            "UPDATE conversations SET session = replace(hex(zeroblob(60000)), '00', '[') WHERE id = 'a'",
            "a stored conversation cannot be read",
        ),
        ("UPDATE records SET record = 'x' WHERE conversation = 'a' AND number = 2", "a turn record cannot be read"),
        (
            "UPDATE conversations SET session = replace(session, 'Which', 'What') WHERE id = 'a'",
            "its records do not lead to its session: window differ",
        ),
        ("DELETE FROM inbox WHERE request_id = 'r1' AND conversation = 'a'", "'r1' is not answered by record 2"),
        (
            "UPDATE inbox SET number = 3 WHERE conversation = 'a' AND request_id = 'r1'",
            "request 'r1' is not answered by record 2",
        ),
    ],
)
async def test_the_doctor_finds_what_was_done_to_one_conversation(tmp_path, sql, says):
    store = await damaged(tmp_path, sql)
    (found,) = await examine(store)
    assert found.conversation_id == "a"
    assert says in found.what
    await store.close()


async def test_a_definition_that_is_not_the_one_begun_with_is_damage_and_never_played(tmp_path):
    store = await damaged(tmp_path, "UPDATE definitions SET text = replace(text, 'Ask for', 'Demand')")
    assert [(found.conversation_id, "is damaged" in found.what) for found in await examine(store)] == [
        ("a", True),
        ("b", True),
    ]
    with pytest.raises(UnreadableError, match="it is not the one that they were begun with"):
        await export(store, "a")
    changed = {**ORDER, "persona": "A waiter"}
    other = AsyncMachine.from_dict(changed, model=ScriptedLLM(REPLIES, loop=True), store=store)
    with pytest.raises(UnreadableError, match="restore the store from a backup"):
        await (await other.resume("a")).send("soup")
    await other.close()


class Talking(MemoryStore):
    """A store in which somebody takes one more turn between two looks of whoever reads it."""

    def __init__(self):
        super().__init__()
        self.more = False

    async def records(self, conversation_id, after=0, limit=None):
        if self.more:
            self.more = False
            await (await machine(self).resume(conversation_id)).send("one more")
        return await super().records(conversation_id, after, limit)


async def test_the_doctor_does_not_take_a_turn_in_between_for_damage():
    store = Talking()
    await talked(store, turns=1)
    store.more = True
    assert list(await examine(store)) == []
    assert (await store.load("c")).version == 3


async def test_a_session_that_was_damaged_in_the_store_is_not_played(tmp_path):
    store = await damaged(
        tmp_path, "UPDATE conversations SET session = json_set(session, '$.turn', 'x') WHERE id = 'a'"
    )
    with pytest.raises(UnreadableError, match="its 'turn' is 'x'"):
        await machine(store).resume("a")
    assert [(found.conversation_id, "its 'turn' is 'x'" in found.what) for found in await examine(store)] == [
        ("a", True)
    ]
    await store.close()


async def test_an_answer_to_a_conversation_in_a_state_that_its_definition_lacks_is_refused():
    waiting = {"kind": "wait", "purpose": "Wait.", "transitions": [{"target_state": "end"}]}
    document = {"name": "w", "initial_state": "here", "states": {"here": waiting, "end": {"kind": "final"}}}
    made = AsyncMachine.from_dict(document, model=ScriptedLLM([]))
    await made.run(conversation_id="c")
    document = json.loads(await export(made.store, "c"))
    for part in (document["session"], document["session"]["pause"], document["records"][0]["events"][0]):
        part["state"] = "gone"
    document["records"][1]["events"][-1]["state"] = "gone"
    await take_in(made.store, json.dumps(document), "d")
    with pytest.raises(ConversationConflict, match="in state 'gone', which the definition 'w' does not have"):
        await made.answer("d", 1)


@pytest.mark.parametrize("created", [1e300, -1, True, "1"])
async def test_a_time_that_no_calendar_has_is_not_taken_in(created):
    store = MemoryStore()
    await talked(store)
    document = {**json.loads(await export(store, "c")), "created": created}
    with pytest.raises(ValueError, match="no time in seconds"):
        await take_in(store, json.dumps(document), "d")


async def test_a_text_that_is_nested_without_end_is_not_taken_in():
    with pytest.raises(ValueError, match="nested too deep"):
        await take_in(MemoryStore(), "[" * 100_000)


async def test_records_that_do_not_fit_together_are_a_complaint(tmp_path):
    store = await damaged(
        tmp_path,
        "UPDATE records SET record = json_set(record, '$.events[0].context', 5) WHERE rowid = 1",
    )
    (found,) = await examine(store)
    assert (found.conversation_id, found.what) == (
        "a",
        "record 1 cannot be used: record.events[0].context is not an object",
    )
    await store.close()
