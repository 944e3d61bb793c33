"""Whole conversations travel from store to store, are copied as they were, and are examined."""

from __future__ import annotations

import json

import pytest

from llm_fsm import AsyncMachine, create_handler
from llm_fsm.errors import ConversationConflict, ConversationNotFound, StoreError, UnreadableError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.doctor import examine
from llm_fsm.records.transfer import export, fork, import_conversation
from llm_fsm.session.session import parse_session
from llm_fsm.stores.base import ListQuery
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.registry import resolve
from llm_fsm.testing import reply
from orders import machine, talked
from paths import TESTS

pytestmark = pytest.mark.anyio


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
    assert await import_conversation(second, text) == "c"
    assert await export(second, "c") == text
    assert await second.list(ListQuery()) == await first.list(ListQuery())
    assert await second.load("c", "r2") == await first.load("c", "r2")
    assert list(await examine(second)) == []
    with pytest.raises(ConversationConflict, match="exists already"):
        await import_conversation(second, text)
    await second.close()


async def test_a_run_that_waits_in_a_function_is_sound_and_goes_on_elsewhere():
    async def ask(ctx):
        return [ctx.ask("Name?"), ctx.ask("Age?")]

    def made(store):
        work = {"kind": "task", "purpose": "Ask", "execute": "ask"}
        document = {"name": "work", "initial_state": "work", "states": {"work": work}}
        return AsyncMachine.from_dict(document, model="offline", functions=[ask], store=store)

    first, second = MemoryStore(), MemoryStore()
    await made(first).run(conversation_id="c")
    await made(first).answer("c", "Ada")
    assert list(await examine(first)) == []
    await import_conversation(second, await export(first, "c"))
    assert (await made(second).answer("c", 36)).output == ["Ada", 36]
    assert list(await examine(second)) == []


async def test_a_conversation_goes_on_under_its_new_id_and_can_be_undone():
    store = MemoryStore()
    await talked(store, turns=2)
    assert await import_conversation(store, await export(store, "c"), "d") == "d"
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
    text = (TESTS / "data" / "stores" / "export_1.json").read_text("utf-8")
    store = MemoryStore()
    assert await import_conversation(store, text) == "golden/1"
    assert (await state_of(store, "golden/1")).state == "bye"
    again = json.loads(await export(store, "golden/1"))
    assert (again.pop("format"), len(again.pop("checksum"))) == (2, 64)
    assert {"format": 1, **again} == json.loads(text)
    assert list(await examine(store)) == []


async def test_what_is_deleted_while_it_is_copied_is_not_found():
    class Hurried(MemoryStore):
        async def records(self, conversation_id, after=0, limit=None):
            await self.delete(conversation_id)
            return await super().records(conversation_id, after, limit)

    for copied in (lambda store: fork(store, "c", "d"), lambda store: export(store, "c")):
        store = Hurried()
        await talked(store)
        with pytest.raises(ConversationNotFound):
            await copied(store)


async def test_an_id_that_can_be_none_is_told_as_such():
    store = MemoryStore()
    await talked(store)
    text = await export(store, "c")
    await store.delete("c")
    for name in ("", "a\nb"):
        with pytest.raises(ValueError, match=r"^a conversation id"):
            await import_conversation(store, text, name)
    assert await store.list(ListQuery()) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "Expecting value"),
        ("[]", "it is an empty list, not an object"),
        ("null", "it is null, not an object"),
        ("{}", "'conversation'"),
        ('{"conversation": "c\\u0000"}', "control characters"),
    ],
)
async def test_a_text_that_is_no_conversation_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        await import_conversation(MemoryStore(), text)


async def test_a_text_is_read_with_suspicion():
    store = MemoryStore()
    await talked(store)
    text = await export(store, "c")

    def changed(**keys):
        return json.dumps({**json.loads(text), **keys})

    with pytest.raises(StoreError, match="format 7; this version reads format 2"):
        await import_conversation(store, changed(format=7), "d")
    with pytest.raises(ValueError, match="not the one that it is pinned to"):
        await import_conversation(store, changed(definition_document={}), "d")
    with pytest.raises(ValueError, match="no records"):
        await import_conversation(store, changed(records=[]), "d")
    whole = json.loads(text)
    with pytest.raises(
        ValueError, match="changed since: its records do not lead to its session: state differ"
    ):
        await import_conversation(store, changed(session={**whole["session"], "state": "ask"}), "d")
    with pytest.raises(
        ValueError, match=r"session.window\[0\]\[0\]: expected text or null, got a whole number"
    ):
        await import_conversation(
            store, changed(session={**whole["session"], "window": [[1, 2]]}), "d"
        )
    with pytest.raises(ValueError, match=r"session.turn: expected a whole number, got a list"):
        await import_conversation(store, changed(session={**whole["session"], "turn": []}), "d")
    with pytest.raises(ValueError, match="Infinity is no number"):
        await import_conversation(
            store, changed(session={**whole["session"], "time": float("inf")}), "d"
        )
    with pytest.raises(ValueError, match="1e400 is no number"):
        await import_conversation(store, text.replace('"time":', '"time":1e400,"was":'), "d")
    assert await store.load("d") is None


@pytest.mark.parametrize("created", [1e300, -1, True, "1"])
async def test_a_time_that_no_calendar_has_is_not_taken_in(created):
    store = MemoryStore()
    await talked(store)
    document = {**json.loads(await export(store, "c")), "created": created}
    with pytest.raises(ValueError, match="no time in seconds"):
        await import_conversation(store, json.dumps(document), "d")


async def test_a_text_that_is_nested_without_end_is_not_taken_in():
    with pytest.raises(ValueError, match="nested too deep"):
        await import_conversation(MemoryStore(), "[" * 100_000)


async def test_an_answer_to_a_conversation_in_a_state_that_its_definition_lacks_is_refused():
    waiting = {"kind": "wait", "purpose": "Wait.", "transitions": [{"target_state": "end"}]}
    document = {
        "name": "w",
        "initial_state": "here",
        "states": {"here": waiting, "end": {"kind": "final"}},
    }
    made = AsyncMachine.from_dict(document, model=ScriptedLLM([]))
    await made.run(conversation_id="c")
    document = json.loads(await export(made.store, "c"))
    for part in (
        document["session"],
        document["session"]["pause"],
        document["records"][0]["events"][0],
    ):
        part["state"] = "gone"
    document["records"][1]["events"][-1]["state"] = "gone"
    await import_conversation(made.store, json.dumps({**document, "format": 1}), "d")
    with pytest.raises(
        ConversationConflict, match="in state 'gone', which the definition 'w' does not have"
    ):
        await made.answer("d", 1)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("definition",), "another", "another value of 'definition'"),
        (("created",), 5.0, "another value of 'created'"),
        (("updated",), 5.0, "another value of 'updated'"),
        (
            ("records", 1, "turn"),
            7,
            "record 2 says that it is of turn 7, and its events are of turn 1",
        ),
        (("records", 1, "usage", "calls"), 99, "its checksum is another one"),
        (("conversation",), "other", "its checksum is another one"),
        (("checksum",), "0", "its checksum is another one"),
    ],
)
async def test_what_was_changed_since_the_export_is_refused(place, value, says):
    store = MemoryStore()
    await talked(store)
    whole = json.loads(await export(store, "c"))
    *way, last = place
    part = whole
    for step in way:
        part = part[step]
    part[last] = value
    with pytest.raises(ValueError, match=says):
        await import_conversation(MemoryStore(), json.dumps(whole), "d")


SECRETIVE = {
    "name": "safe",
    "initial_state": "ask",
    "context_schema": {
        "properties": {"pin": {"type": "string", "pattern": "^[0-9]{4}$", "x-secret": True}}
    },
    "states": {
        "ask": {
            "reply": "PIN?",
            "required_context_keys": ["pin"],
            "transitions": [{"target_state": "end"}],
        },
        "end": {"reply": "Bye."},
    },
}
GIVEN = ["98765", "4711", "4712"]


async def test_an_export_without_secrets_shows_none_that_was_ever_given_and_can_be_imported():
    """One is refused, one replaced, one deleted by a handler."""
    gone = create_handler("gone").on_state_entry("end").do(lambda occasion: {"pin": None})
    refused, replaced = [reply("ask", f"Hm, {pin}?", pin=pin) for pin in GIVEN[:2]]
    replies = [refused, refused, replaced, reply("end", pin=GIVEN[2])]
    made = AsyncMachine.from_dict(SECRETIVE, model=ScriptedLLM(replies), handlers=[gone])
    chat = await made.start(conversation_id="c", greet=False)
    for pin in GIVEN:
        await chat.send(f"my pin is {pin}, or {pin[:2]}-{pin[2:]}")
    whole = await export(made.store, "c")
    masked = await export(made.store, "c", with_secrets=False)
    said = [json.loads(text)["records"] for text in (whole, masked)]
    assert [pin for pin in GIVEN if pin not in json.dumps(said[0])] == []
    assert [pin for pin in GIVEN if pin in json.dumps(said[1])] == []
    store = MemoryStore()
    assert await import_conversation(store, masked) == "c"
    assert list(await examine(store)) == []
    assert (await state_of(store, "c")).window[-1][0] == "my pin is •••, or 47-12"


async def test_what_is_secret_must_be_known_for_an_export_without_secrets():
    store = MemoryStore()
    await talked(store)
    store.definition = lambda sha: _nothing()
    with pytest.raises(UnreadableError, match="export it with its secrets"):
        await export(store, "c", with_secrets=False)


async def _nothing():
    return None
