"""A release at work: the arm of each conversation, over restarts, promotions and two machines."""

from __future__ import annotations

import json
import logging
from collections import Counter

import pytest

from dead_processes import Hanging, killed_in
from llm_fsm import AsyncMachine, Machine, observe
from llm_fsm.engine.outbox.sinks import sink
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.errors import ConfigurationError, DefinitionError
from llm_fsm.session import events as ev
from llm_fsm.session.turn_record import first_of, parse
from llm_fsm.stores.base import ListQuery
from llm_fsm.stores.memory import MemoryStore
from shops import CANDIDATE, STABLE, write_release

pytestmark = pytest.mark.anyio
NEWER = "What may it be?"


def live(path, store, **settings):
    settings = {"model": "offline", "store": store, **settings}
    return AsyncMachine.from_release(path, **settings)


async def begun(machine, many=40):
    return {name: await machine.start(conversation_id=name) for name in map(str, range(many))}


async def chosen(store, name):
    [record] = await store.records(name, limit=1)
    return first_of(parse(record).events, ev.ReleaseChosen)


async def test_each_conversation_is_pinned_to_its_arm_and_labelled(tmp_path):
    store = MemoryStore()
    machine = live(write_release(tmp_path), store)
    chats = await begun(machine)
    arms = Counter()
    for name, chat in chats.items():
        event = await chosen(store, name)
        is_newer = event.arm == "candidate"
        assert (chat.greeting == NEWER) == is_newer
        [line] = await store.list(ListQuery(ids=frozenset([name])))
        assert line.definition_sha == event.sha
        assert line.metadata == {"release": "shop", "arm": event.arm}
        arms[event.arm] += 1
    assert min(arms.values()) > 5
    [one] = await store.list(ListQuery(limit=1, metadata={"arm": "candidate"}))
    assert (await machine.definition_of(one.conversation_id)).states["ask"].reply == NEWER


async def test_conversations_stay_on_their_arm_over_restarts(tmp_path):
    path = write_release(tmp_path)
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    async with live(path, url) as machine:
        chats = await begun(machine, 20)
        before = {name: (await machine.definition_of(name)).sha256 for name in chats}
    assert len(set(before.values())) == 2
    for name, sha in before.items():
        async with live(path, url) as machine:
            chat = await machine.resume(name)
            turn = await chat.send("tea")
            assert (turn.state, turn.outcome) == ("booked", "booked")
            assert (await machine.definition_of(name)).sha256 == sha


async def test_two_machines_that_read_the_file_at_different_moments_agree(tmp_path):
    store = MemoryStore()
    early = live(write_release(tmp_path, share=1), store)
    late = live(write_release(tmp_path, share=0), store)

    async def stays_as_read():
        pass

    early.release.refresh = stays_as_read
    for name in map(str, range(20)):
        first, second = (early, late) if int(name) % 2 else (late, early)
        begun_by_first = await first.open(name)
        seen_by_second = await second.open(name)
        assert begun_by_first.greeting == seen_by_second.greeting
        arm = await chosen(store, name)
        assert (arm is not None) == (first is early)
        assert (await second.definition_of(name)).sha256 == (await first.definition_of(name)).sha256
        assert (await (await second.resume(name)).send("tea")).state == "booked"


async def test_a_promotion_leaves_the_bytes_of_running_conversations(tmp_path):
    path = write_release(tmp_path)
    store = MemoryStore()
    machine = live(path, store)
    chats = await begun(machine)

    async def stored():
        return {name: (await store.load(name), await store.records(name)) for name in chats}

    before = await stored()
    await machine.release.change(
        stable="shop-2.json", candidate=None, share=0, previous="shop.json"
    )
    assert (await machine.start()).greeting == NEWER
    assert machine.definition.states["ask"].reply == NEWER
    assert await stored() == before
    for name, chat in chats.items():
        was = (await machine.definition_of(name)).states["ask"].reply
        assert was == chat.greeting
        assert (await chat.send("tea")).state == "booked"


async def test_a_share_of_0_begins_as_without_a_release(tmp_path):
    path = write_release(tmp_path, share=0)
    texts = []
    for machine in (
        live(path, MemoryStore(), clock=lambda: 5.0),
        AsyncMachine.from_file(
            tmp_path / "shop.json", model="offline", store=MemoryStore(), clock=lambda: 5.0
        ),
    ):
        await machine.start(conversation_id="c")
        texts.append((await machine.store.load("c"), await machine.store.records("c")))
    assert texts[0] == texts[1]


BROKEN = {**CANDIDATE, "initial_state": "nowhere"}
OTHER = {**CANDIDATE, "name": "other"}


@pytest.mark.parametrize(
    ("candidate", "said"), [(BROKEN, "nowhere"), (OTHER, "one name"), (None, "cannot be read")]
)
async def test_a_candidate_with_an_error_never_starts(tmp_path, caplog, candidate, said):
    path = write_release(tmp_path, candidate=candidate, share=1)
    machine = live(path, MemoryStore())
    assert said in caplog.text
    assert {chat.greeting for chat in (await begun(machine, 5)).values()} == {"Which item?"}
    with pytest.raises((ConfigurationError, DefinitionError), match=said):
        await machine.release.change(share=0.5)
    assert json.loads(path.read_text())["share"] == 1


async def test_a_candidate_without_its_tool_begins_no_conversation(tmp_path, caplog):
    needy = {**CANDIDATE, "tools": {"search": {"registered": "search"}}}
    needy["states"] = {**needy["states"], "ask": {**needy["states"]["ask"], "tools": ["search"]}}
    machine = live(write_release(tmp_path, candidate=needy, share=1), MemoryStore())
    assert (await machine.start()).greeting == "Which item?"
    assert "search" in caplog.text


async def test_a_candidate_that_disappears_keeps_its_conversations(tmp_path):
    path = write_release(tmp_path, share=1)
    store = MemoryStore()
    chat = await live(path, store).start(conversation_id="c")
    (tmp_path / "shop-2.json").unlink()
    machine = live(path, store)
    assert (await machine.start()).greeting == "Which item?"
    again = await machine.resume("c")
    assert again.greeting == chat.greeting == NEWER
    assert (await again.send("tea")).state == "booked"


async def test_a_change_of_the_file_counts_without_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_fsm.documents.watched_file.LOOK_SECONDS", 0.0)
    path = write_release(tmp_path, share=0)
    machine = live(path, MemoryStore())
    assert (await machine.start()).greeting == "Which item?"
    write_release(tmp_path, share=1)
    assert (await machine.start()).greeting == NEWER
    path.write_text("{")
    assert (await machine.start()).greeting == NEWER
    write_release(tmp_path, share=1, stable=CANDIDATE, candidate=STABLE)
    assert (await machine.start()).greeting == "Which item?"


async def test_a_start_that_a_dead_process_left_keeps_its_arm(tmp_path):
    path = write_release(tmp_path, share=1)
    hanging = Hanging()
    store = MemoryStore()
    machine = live(path, store)
    machine.on("start_conversation")(hanging.handle)
    store = await killed_in(hanging, machine.start(conversation_id="c"), store)
    write_release(tmp_path, share=0)
    other = live(path, store)
    other.on("start_conversation")(lambda _: None)
    await other.take_up("c")
    assert (await chosen(store, "c")).arm == "candidate"
    assert (await other.resume("c")).greeting == NEWER


@pytest.mark.parametrize("policy", ["migrate", "reject", {"keys": {}}])
def test_a_release_pins_its_conversations(tmp_path, policy):
    with pytest.raises(ConfigurationError, match="leave on_change out"):
        live(write_release(tmp_path), "memory", on_change=policy)


def test_a_key_that_by_names_is_declared(tmp_path, caplog):
    live(write_release(tmp_path, by="context.plna"), "memory")
    assert "did you mean 'plan'?" in caplog.text


def test_a_machine_without_asyncio_follows_a_release(tmp_path):
    with Machine.from_release(write_release(tmp_path, share=1), model="offline") as machine:
        assert machine.start().greeting == NEWER


# -- guards

LOST = {"figure": "outcome:lost", "above": 0, "after": 3}


async def lose(machine, many):
    for number in range(many):
        chat = await machine.start(conversation_id=f"lost {number}")
        await chat.send("nothing")


async def looked(machine):
    keeper = Upkeep(lambda: [machine])
    await keeper.look()
    await keeper.stop()


async def test_a_broken_guard_sets_the_share_to_0_and_tells(tmp_path, caplog):
    path = write_release(tmp_path, share=1, guards=[LOST])
    told, seen = [], []
    wanted = sink(told.append, name="wanted", events=["ReleaseStopped"])
    other = sink(seen.append, name="other", events=["BotSaid"])
    machine = live(path, MemoryStore(), sinks=[wanted, other])
    stop = observe(lambda _, event: seen.append(event))
    await lose(machine, 3)
    running = await machine.start(conversation_id="running")
    await looked(machine)
    stop()
    written = json.loads(path.read_text())
    assert written["share"] == 0
    assert written["stopped"].startswith("outcome:lost is 1, after 3 conversations")
    [delivery] = told
    assert delivery.event["type"] == "ReleaseStopped"
    assert delivery.event["reason"] == written["stopped"]
    assert first_of(seen, ev.ReleaseStopped) is not None
    assert any(record.levelno == logging.ERROR for record in caplog.records)
    assert (await machine.start()).greeting == "Which item?"
    assert running.greeting == NEWER
    assert (await running.send("tea")).state == "booked"
    await looked(machine)
    assert len(told) == 1


async def test_a_guard_that_holds_changes_nothing(tmp_path):
    path = write_release(tmp_path, share=1, guards=[{**LOST, "above": 1}])
    text = path.read_text()
    machine = live(path, MemoryStore())
    await lose(machine, 3)
    await looked(machine)
    assert path.read_text() == text


async def test_a_sink_that_fails_is_told_again(tmp_path):
    tries = []

    def fails_once(delivery):
        tries.append(delivery.key)
        if len(tries) == 1:
            raise OSError("away")

    machine = live(
        write_release(tmp_path, share=1, guards=[LOST]),
        MemoryStore(),
        sinks=[sink(fails_once, name="s", events=["ReleaseStopped"])],
    )
    await lose(machine, 3)
    with pytest.raises(OSError, match="away"):
        await machine._engine.watch_release()
    await machine._engine.watch_release()
    assert len(tries) == 2
    assert len(set(tries)) == 1


async def test_a_file_that_cannot_be_written_stops_all_the_same(tmp_path, monkeypatch, caplog):
    machine = live(write_release(tmp_path, share=1, guards=[LOST]), MemoryStore())
    await lose(machine, 3)

    def refused(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr("llm_fsm.engine.releases.write", refused)
    await machine._engine.watch_release()
    assert "still has its share" in caplog.text
    assert (await machine.start()).greeting == "Which item?"


async def test_figures_count_both_arms_of_this_salt(tmp_path):
    moment = [1.8e9]
    path = write_release(tmp_path, share=0.5)
    machine = live(path, MemoryStore(), clock=lambda: moment[0])
    for name, chat in (await begun(machine, 30)).items():
        if int(name) % 3:
            await chat.send("tea" if int(name) % 3 == 1 else "nothing")
    status = await machine.release.status()
    arms = status["arms"]
    assert sum(arm["conversations"] for arm in arms.values()) == 30
    assert sum(arm["settled"] for arm in arms.values()) == 20
    booked = next(one for one in status["figures"] if one["figure"] == "outcome:booked")
    assert sum(booked[name]["value"] * arms[name]["settled"] for name in arms) == pytest.approx(
        10, abs=0.01
    )
    for arm in ("stable", "candidate"):
        assert booked[arm]["low"] < booked[arm]["value"] <= booked[arm]["high"]
    moment[0] += 7200
    later = await machine.release.status()
    assert sum(arm["settled"] for arm in later["arms"].values()) == 30
    await machine.release.change(salt="two")
    fresh = await machine.release.status()
    assert all(arm["conversations"] == 0 for arm in fresh["arms"].values())
