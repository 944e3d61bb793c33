"""A definition edited under live conversations: each goes on by the one it was begun with, or as
the policy says.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.errors import ConfigurationError, ConversationConflict
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.records.doctor import examine
from llm_fsm.session import events as ev
from llm_fsm.stores.base import Commit
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.sqlite import SQLiteStore
from llm_fsm.turn.migration import check_change, read_change
from machines import reply

pytestmark = pytest.mark.anyio

BOT: dict[str, Any] = {
    "name": "taxi",
    "persona": "A dispatcher",
    "initial_state": "where",
    "context_schema": {
        "type": "object",
        "properties": {
            "place": {"type": "string"},
            "people": {"type": "integer"},
            "code": {"type": "string", "x-secret": True, "x-source": "host"},
        },
    },
    "states": {
        "where": {
            "purpose": "Ask where to go",
            "required_context_keys": ["place"],
            "transitions": [
                {"target_state": "how_many", "conditions": [{"requires_context_keys": ["place"]}]}
            ],
        },
        "how_many": {
            "purpose": "Ask how many people",
            "required_context_keys": ["people"],
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["people"]}]}
            ],
        },
        "done": {"purpose": "Confirm"},
    },
}
Edit = Callable[[dict[str, Any]], None]


def _rename_state(bot: dict[str, Any]) -> None:
    bot["states"]["size"] = bot["states"].pop("how_many")
    bot["states"]["where"]["transitions"][0]["target_state"] = "size"


def _remove_state(bot: dict[str, Any]) -> None:
    del bot["states"]["how_many"]
    bot["states"]["where"]["transitions"][0]["target_state"] = "done"


def _rename_key(bot: dict[str, Any]) -> None:
    bot["context_schema"]["properties"]["to"] = bot["context_schema"]["properties"].pop("place")
    bot["states"]["where"]["required_context_keys"] = ["to"]
    bot["states"]["where"]["transitions"][0]["conditions"] = [{"requires_context_keys": ["to"]}]


def _remove_key(bot: dict[str, Any]) -> None:
    del bot["context_schema"]["properties"]["people"]
    bot["states"]["how_many"]["required_context_keys"] = []
    bot["states"]["how_many"]["transitions"][0]["conditions"] = []


def _change_type(bot: dict[str, Any]) -> None:
    bot["context_schema"]["properties"]["place"] = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
    }


def _remove_target(bot: dict[str, Any]) -> None:
    del bot["states"]["done"]
    bot["states"]["how_many"]["transitions"][0]["target_state"] = "where"


def _change_guard(bot: dict[str, Any]) -> None:
    logic = {">": [{"var": "people"}, 100]}
    bot["states"]["how_many"]["transitions"][0]["conditions"] = [{"logic": logic}]


def _make_final(bot: dict[str, Any]) -> None:
    bot["states"]["how_many"]["transitions"] = []


def _add_state(bot: dict[str, Any]) -> None:
    bot["states"]["how_many"]["transitions"][0]["target_state"] = "pay"
    bot["states"]["pay"] = {"purpose": "Pay", "transitions": [{"target_state": "done"}]}


def _become_wait(bot: dict[str, Any]) -> None:
    bot["states"]["how_many"].update(kind="wait", wait_for="driver", required_context_keys=[])


def _rename_machine(bot: dict[str, Any]) -> None:
    bot["name"] = "cab"


def _reword(bot: dict[str, Any]) -> None:
    bot["persona"] = "A pirate"


EDITS: tuple[Edit, ...] = (
    _rename_state,
    _remove_state,
    _rename_key,
    _remove_key,
    _change_type,
    _remove_target,
    _change_guard,
    _make_final,
    _add_state,
    _become_wait,
    _rename_machine,
    _reword,
)
"""Twelve ways to edit a definition under a conversation that stands in `how_many`."""

MAPS: dict[Edit, dict[str, Any]] = {
    _rename_state: {"states": {"how_many": "size"}},
    _remove_state: {"states": {"how_many": "where"}},
    _rename_key: {"keys": {"place": "to"}},
    _remove_key: {"keys": {"people": None}},
}
ARRIVES: dict[Edit, tuple[str, dict[str, Any]]] = {
    _rename_state: ("size", {"place": "Rome", "code": "4711"}),
    _remove_state: ("where", {"place": "Rome", "code": "4711"}),
    _rename_key: ("how_many", {"to": "Rome", "code": "4711"}),
    _change_type: ("how_many", {"code": "4711"}),
}


def edited(edit: Edit) -> dict[str, Any]:
    bot = copy.deepcopy(BOT)
    edit(bot)
    return bot


def machine(bot: dict[str, Any], store: Any, *replies: Any, **options: Any) -> AsyncMachine:
    return AsyncMachine.from_dict(bot, model=ScriptedLLM(list(replies)), store=store, **options)


async def begun(store: Any, bot: dict[str, Any] = BOT, name: str = "c") -> None:
    """A conversation that stands in `how_many` and knows the place."""
    first = machine(bot, store, reply("how_many", "How many?", place="Rome"))
    chat = await first.start({"code": "4711"}, conversation_id=name, greet=False)
    assert (await chat.send("To Rome", request_id="m1")).state == "how_many"


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__.strip("_"))
async def test_pinned_conversation_finishes_on_the_definition_that_it_was_begun_with(
    edit: Edit, tmp_path: Path
) -> None:
    path = tmp_path / "bots.db"
    store = SQLiteStore(path)
    await begun(store)
    await store.close()
    second = machine(edited(edit), SQLiteStore(path), reply("done", "Four, fine.", people=4))
    chat = await second.resume("c")
    turn = await chat.send("Four", request_id="m2")
    assert (turn.text, turn.state, turn.ended) == ("Four, fine.", "done", True)
    assert turn.context == {"code": "4711", "place": "Rome", "people": 4}
    assert (await second.definition_of("c")).states.keys() == BOT["states"].keys()
    await second.close()


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__.strip("_"))
async def test_new_conversation_follows_the_new_definition_beside_the_old_one(edit: Edit) -> None:
    store = MemoryStore()
    await begun(store)
    bot = edited(edit)
    second = machine(bot, store)
    chat = await second.start(conversation_id="new", greet=False)
    assert (await second.definition_of(chat.id)).states.keys() == bot["states"].keys()
    assert (await second.definition_of("c")).sha256 != (await second.definition_of("new")).sha256


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__.strip("_"))
async def test_rejecting_machine_refuses_older_conversations_and_changes_nothing(
    edit: Edit,
) -> None:
    store = MemoryStore()
    await begun(store)
    before = await store.load("c")
    second = machine(edited(edit), store, on_change="reject")
    chat = await second.resume("c")
    with pytest.raises(ConversationConflict, match="another version of the definition"):
        await chat.send("Four")
    assert await store.load("c") == before
    assert (await chat.send("To Rome", request_id="m1")).text == "How many?"


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__.strip("_"))
async def test_migrating_machine_carries_over_what_it_can_and_never_breaks(edit: Edit) -> None:
    store = MemoryStore()
    await begun(store)
    bot = edited(edit)
    policy = MAPS.get(edit, "migrate")
    second = machine(
        bot, store, reply("nowhere", "?"), reply("nowhere", "?"), reply("x"), on_change=policy
    )
    chat = await second.resume("c")
    await chat.send("Well")
    session = await second._engine.load("c")
    moved = edit is not _rename_machine
    assert (session.definition == second.definition.sha256) is moved
    if edit in ARRIVES:
        state, context = ARRIVES[edit]
        kinds = [
            event
            for turn in await chat.turns()
            for event in turn.events
            if isinstance(event, ev.Migrated)
        ]
        assert (session.state, session.context, len(kinds)) == (state, context, 1)
    assert session.origins.keys() == session.context.keys()
    assert session.path == () or not moved


async def test_state_that_is_gone_and_not_in_the_map_keeps_a_conversation_where_it_is() -> None:
    store = MemoryStore()
    await begun(store)
    second = machine(
        edited(_remove_state),
        store,
        reply("done", "Fine.", people=4),
        on_change={"keys": {"place": None}},
    )
    turn = await (await second.resume("c")).send("Four")
    assert (turn.state, turn.context["place"]) == ("done", "Rome")


async def test_undo_goes_back_behind_a_migration_only_while_the_old_definition_is_known() -> None:
    store = MemoryStore()
    await begun(store)
    await begun(store, name="other")
    second = machine(
        edited(_rename_state), store, reply("size", "How many?"), on_change=MAPS[_rename_state]
    )
    chat = await second.resume("c")
    await chat.send("Hm")
    await chat.undo()
    assert chat.state == "size"
    await chat.undo()
    assert (chat.state, chat.context) == ("where", {"code": "4711"})
    assert (await second.definition_of("c")).states.keys() == BOT["states"].keys()
    alone = MemoryStore()
    await begun(alone)
    third = machine(
        edited(_rename_state), alone, reply("size", "How many?"), on_change=MAPS[_rename_state]
    )
    last = await third.resume("c")
    await last.send("Hm")
    await last.undo()
    fourth = await machine(edited(_rename_state), alone).resume("c")
    with pytest.raises(ConversationConflict, match="its definition is not known"):
        await fourth.undo()
    assert (await third.resume("c")).state == "size"


async def test_undo_takes_back_what_had_carried_the_conversation_over_since_for_good() -> None:
    store = MemoryStore()
    await begun(store)
    await begun(store, name="other")
    second = machine(
        edited(_rename_key),
        store,
        reply("how_many", "How many?"),
        on_change={"keys": {"place": "to"}},
    )
    assert isinstance(await second.migrate("c"), ev.Migrated)
    pinned = machine(edited(_rename_key), store, reply("where", "Where to?"))
    chat = await pinned.resume("c")
    await chat.undo()
    before = (await pinned.definition_of("c"), chat.state, chat.context)
    await chat.send("Hm")
    await chat.undo()
    assert (await pinned.definition_of("c"), chat.state, chat.context) == before
    assert before[1:] == ("where", {"code": "4711"})
    assert list(await examine(store)) == []


async def test_secret_stays_secret_when_the_new_definition_forgets_its_key() -> None:
    store = MemoryStore()
    await begun(store)
    bot = copy.deepcopy(BOT)
    del bot["context_schema"]["properties"]["code"]
    model = ScriptedLLM([reply("how_many", "How many?")])
    second = AsyncMachine.from_dict(bot, model=model, store=store, on_change="migrate")
    await (await second.resume("c")).send("Hm")
    assert "4711" not in json.dumps([message.content for message in model.requests[0].messages])


def _no_silence(bot: dict[str, Any]) -> None:
    del bot["patterns"]


@pytest.mark.parametrize("edit", [_no_silence, _become_wait])
async def test_nothing_is_due_any_more_where_the_new_definition_does_not_wait_in_silence(
    edit: Edit,
) -> None:
    bot, store = {**copy.deepcopy(BOT), "patterns": ["silence"]}, MemoryStore()
    for name in ("b", "c"):
        await begun(store, bot, name)
    edit(new := copy.deepcopy(bot))
    second = machine(new, store, clock=lambda: 10e10)
    assert isinstance(await second.migrate("c"), ev.Migrated)
    assert [(turn.conversation_id, turn.outcome) for turn in await second.run_due()] == [
        ("b", "closed")
    ]
    assert list(await examine(store)) == []


async def test_what_the_user_did_not_want_to_say_is_not_asked_under_its_new_name() -> None:
    bot, store = copy.deepcopy(BOT), MemoryStore()
    bot["patterns"] = ["skip"]
    bot["states"]["where"]["transitions"].append({"target_state": "how_many"})
    chat = await machine(bot, store, reply("skip", "Fine.")).start(conversation_id="c", greet=False)
    assert (await chat.send("I will not say")).state == "how_many"
    new = copy.deepcopy(bot)
    _rename_key(new)
    second = machine(new, store, on_change={"keys": {"place": "to"}})
    await second.migrate("c")
    loaded = await store.load("c")
    assert loaded is not None
    assert json.loads(loaded.session)["skipped"] == ["to"]


@pytest.mark.parametrize("secret", [False, True])
async def test_parts_of_an_object_that_wait_go_over_under_its_new_name_and_are_not_shown_where_it_is_a_secret_now(
    secret: bool,
) -> None:
    def bot(key: str, **more: Any) -> dict[str, Any]:
        made = copy.deepcopy(BOT)
        parts = {
            "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
            "required": ["city", "zip"],
        }
        made["context_schema"]["properties"] = {key: {"type": "object", **parts, **more}}
        made["states"]["where"]["required_context_keys"] = [key]
        made["states"]["where"]["transitions"][0]["conditions"] = [{"requires_context_keys": [key]}]
        made["states"]["how_many"] = {"purpose": "Say goodbye"}
        return made

    store = MemoryStore()
    first = machine(bot("place"), store, reply("where", "Zip?", place={"city": "Rome"}))
    chat = await first.start(conversation_id="c", greet=False)
    await chat.send("Rome")
    model = ScriptedLLM([reply("how_many", "Fine.", to={"zip": "00184"})])
    new = bot("to", **({"x-secret": True} if secret else {}))
    second = AsyncMachine.from_dict(
        new, model=model, store=store, on_change={"keys": {"place": "to"}}
    )
    turn = await (await second.resume("c")).send("00184")
    assert turn.context == {"to": {"city": "Rome", "zip": "00184"}}
    assert ('"to":{"city":"Rome"}' in model.requests[0].messages[1].content) == (not secret)


async def test_pin_comes_to_conversations_of_stores_that_kept_none() -> None:
    store = MemoryStore()
    await begun(store)
    loaded = await store.load("c")
    assert loaded is not None
    old = MemoryStore()
    (record, *_) = await store.records("c")
    await old.save(Commit(conversation_id="c", expected=0, session=loaded.session, record=record))
    same = machine(BOT, old, reply("how_many", "Again?"))
    await (await same.resume("c")).send("Hm")
    pinned = await old.load("c")
    assert pinned is not None
    assert pinned.definition_sha == same.definition.sha256
    assert await old.definition(same.definition.sha256) == same.definition.canonical


@pytest.mark.parametrize(("edit", "works"), [(_reword, True), (_remove_state, False)])
async def test_definition_that_nobody_knows_is_replaced_where_its_state_is_known(
    edit: Edit, works: bool
) -> None:
    store = MemoryStore()
    await begun(store)
    loaded = await store.load("c")
    assert loaded is not None
    old = MemoryStore()
    (record, *_) = await store.records("c")
    await old.save(Commit(conversation_id="c", expected=0, session=loaded.session, record=record))
    second = machine(edited(edit), old, reply("done", "Fine.", people=4))
    chat = await second.resume("c")
    if works:
        assert (await chat.send("Four")).state == "done"
        return
    with pytest.raises(ConversationConflict, match="no state 'how_many' any more"):
        await chat.send("Four")
    untouched = await old.load("c")
    assert untouched is not None
    assert (untouched.session, untouched.version) == (loaded.session, 1)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("keep", 'on_change is "pin", "migrate", "reject"'),
        ({"state": {}}, "'state' is neither states nor keys"),
        ({"states": {"a": 1}}, 'is {"states": '),
        ({"keys": {"a": 1}}, "names each new key"),
        ({"states": {"how_many": "wher"}}, "did you mean 'where'"),
        ({"keys": {"place": "pepole"}}, "leads 'place' to 'pepole', .* did you mean 'people'"),
        ({"keys": {"people": "_turn"}}, "leads 'people' to '_turn': names that begin with _"),
    ],
)
def test_policy_that_cannot_be_kept_is_told_when_the_machine_is_made(
    policy: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        machine(BOT, None, on_change=policy)


async def test_older_definitions_stay_compiled_and_only_so_many_of_them() -> None:
    store = MemoryStore()
    bots = [{**BOT, "version": str(number)} for number in range(40)]
    for number, bot in enumerate(bots):
        await begun(store, bot, f"c{number}")
    last = machine(BOT, store, *(reply("how_many", "?") for _ in range(80)))
    versions = last._engine.versions
    for number in range(40):
        await (await last.resume(f"c{number}")).send("hm")
    kept = await versions.find((await last._engine.load("c39")).definition)
    assert kept is await versions.find((await last._engine.load("c39")).definition)
    assert len(versions._older) == 32


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("nickname", True),
        ("names", True),
        ("name.first", True),
        ("nmae", False),
        ("nicknames", False),
    ],
)
def test_a_map_may_lead_to_a_key_that_the_definition_only_reads(key: str, known: bool) -> None:
    document = {
        "name": "m",
        "initial_state": "a",
        "context_schema": {"type": "object", "properties": {"name": {"type": "object"}}},
        "states": {
            "a": {
                "purpose": "Ask for all nmae",
                "transitions": [
                    {
                        "target_state": "b",
                        "conditions": [{"description": "x", "logic": {"var": "names.0"}}],
                    }
                ],
            },
            "b": {"reply": "Bye {{ nickname or 'you' }}!"},
        },
    }
    program = AsyncMachine.from_dict(document, model="offline", store="memory").program
    if known:
        check_change(read_change({"keys": {"called": key}}), program)
    else:
        with pytest.raises(ConfigurationError, match="did you mean 'name'"):
            check_change(read_change({"keys": {"called": key}}), program)
