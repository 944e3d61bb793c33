"""A release in the store: machines that share no disk follow it, and a file wins over it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import mongomock
import pytest

from llm_fsm import AsyncMachine
from llm_fsm.engine.releases import EVERY
from llm_fsm.engine.upkeep import Upkeep
from llm_fsm.errors import ConfigurationError, ConversationConflict
from llm_fsm.stores.base import ListQuery, checked_id
from llm_fsm.stores.file import FileStore
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.stores.mongodb import MongoDBStore
from llm_fsm.stores.registry import resolve
from llm_fsm.stores.sqlite import SQLiteStore
from shops import RELEASE, write_release

pytestmark = pytest.mark.anyio
OLD, NEWER = "Which item?", "What may it be?"
LOST = {"figure": "outcome:lost", "above": 0, "after": 3}


@pytest.fixture(params=["memory", "file", "sqlite", "postgresql", "redis", "mongodb"])
def opened(request, tmp_path):
    """Opens one place again and again, as servers on several machines do."""
    kind = request.param
    if kind in ("postgresql", "redis"):
        url = request.getfixturevalue(f"{kind}_url")
        return lambda: resolve(url)
    if kind == "mongodb":
        server = mongomock.MongoClient()
        return lambda: MongoDBStore("mongodb://db.example/bots", client=lambda: server)
    if kind == "memory":
        store = MemoryStore()
        return lambda: store
    place = tmp_path / "place"
    return lambda: FileStore(place) if kind == "file" else SQLiteStore(place)


def machine_of(folder, store, **settings):
    """A machine on a disk of its own that has both definitions, and no release file."""
    folder.mkdir(exist_ok=True)
    path = write_release(folder)
    path.unlink()
    return AsyncMachine.from_release(path, model="offline", store=store, **settings)


async def greeting_of(machine):
    return (await machine.start()).greeting


async def put(machine, **changes):
    await machine.release.refresh()
    await machine.release.change(**{**RELEASE, **changes})


async def test_a_release_reaches_every_machine_and_a_restart(opened, tmp_path):
    one, two = (machine_of(tmp_path / name, opened()) for name in ("one", "two"))
    assert {await greeting_of(machine) for machine in (one, two)} == {OLD}
    await put(one, share=1)
    assert {await greeting_of(machine) for machine in (one, two)} == {NEWER}
    await put(two, share=0)
    assert {await greeting_of(machine) for machine in (one, two)} == {OLD}
    await put(two, stable="shop-2.json", candidate=None, previous="shop.json", share=0)
    assert {await greeting_of(machine) for machine in (one, two)} == {NEWER}
    async with machine_of(tmp_path / "three", opened()) as restarted:
        assert await greeting_of(restarted) == NEWER
        status = await restarted.release.status()
    assert (status["source"], status["version"], status["stable"]) == ("store", 4, "shop-2.json")
    await two.close()
    await one.close()


async def test_it_shows_nowhere_among_conversations(opened, tmp_path):
    async with machine_of(tmp_path / "one", opened()) as machine:
        await put(machine, share=1)
        store = machine.store
        assert await store.list(ListQuery()) == ()
        assert await store.count(ListQuery()) == 0
        assert await store.unfinished() == ()
        assert await machine.run_due() == ()
        await machine.start(conversation_id="c")
        assert [line.conversation_id for line in await store.list(ListQuery())] == ["c"]
        await machine.delete("c")
        assert await greeting_of(machine) == NEWER


async def test_a_change_loses_no_other_change(opened, tmp_path):
    one, two = (machine_of(tmp_path / name, opened()) for name in ("one", "two"))
    await put(one, share=0.5)
    await two.release.refresh()
    await one.release.change(salt="mine")
    with pytest.raises(ConversationConflict, match="has changed: read it and try again"):
        await two.release.change(share=1)
    assert (await two.release.status())["salt"] == "mine"
    await two.release.change(share=1)
    status = await one.release.status()
    assert (status["salt"], status["share"]) == ("mine", 1)
    await two.close()
    await one.close()


async def test_of_changes_at_once_none_is_lost(opened, tmp_path):
    machines = [machine_of(tmp_path / str(number), opened()) for number in range(4)]
    await put(machines[0], share=0.5)
    for machine in machines:
        await machine.release.refresh()
    changes = (
        machine.release.change(salt=f"salt {number}") for number, machine in enumerate(machines)
    )
    done = await asyncio.gather(*changes, return_exceptions=True)
    winners = [number for number, failed in enumerate(done) if failed is None]
    assert len(winners) == 1
    assert {type(failed) for failed in done if failed is not None} == {ConversationConflict}
    for machine in machines:
        assert (await machine.release.status())["salt"] == f"salt {winners[0]}"
    for machine in machines:
        await machine.close()


async def test_a_guard_that_one_machine_trips_stops_every_machine(opened, tmp_path):
    one, two = (machine_of(tmp_path / name, opened()) for name in ("one", "two"))
    await put(one, share=1, guards=[LOST])
    for number in range(3):
        chat = await two.start(conversation_id=f"lost {number}")
        await chat.send("nothing")
    await one.run_due()
    assert {await greeting_of(machine) for machine in (one, two)} == {OLD}
    status = await two.release.status()
    assert (status["share"], status["stopped"][:15]) == (0, "outcome:lost is")
    await two.close()
    await one.close()


async def test_guards_that_two_machines_trip_at_once_stop_it_once(tmp_path, caplog):
    store = MemoryStore()
    one, two = (machine_of(tmp_path / name, store) for name in ("one", "two"))
    await put(one, share=1, guards=[LOST])
    for number in range(3):
        chat = await two.start(conversation_id=f"lost {number}")
        await chat.send("nothing")
    await asyncio.gather(one.run_due(), two.run_due())
    assert [(await machine.release.status())["share"] for machine in (one, two)] == [0, 0]
    assert (await one.release.status())["version"] == 3


async def test_upkeep_looks_into_the_store(tmp_path):
    store = MemoryStore()
    one, two = (machine_of(tmp_path / name, store) for name in ("one", "two"))
    await put(one, share=1)
    keeper = Upkeep(lambda: [two])
    await keeper.look()
    await keeper.stop()
    assert two.release.release.share == 1


async def test_a_release_that_was_looked_at_takes_no_place_from_conversations(tmp_path):
    moment = [1.8e9]
    machine = machine_of(tmp_path, MemoryStore(), clock=lambda: moment[0])
    assert machine.release.is_due
    await machine.run_due()
    assert not machine.release.is_due
    moment[0] += EVERY
    assert machine.release.is_due


async def test_a_file_wins(tmp_path):
    store = SQLiteStore(tmp_path / "shop.db")
    stored = machine_of(tmp_path / "stored", store)
    await put(stored, share=1)
    (tmp_path / "filed").mkdir()
    path = write_release(tmp_path / "filed", share=0)
    filed = AsyncMachine.from_release(path, model="offline", store=store)
    assert await greeting_of(filed) == OLD
    assert await greeting_of(stored) == NEWER
    assert (await filed.release.status())["source"] == "file"
    await filed.release.change(salt="of the file")
    assert json.loads(path.read_text())["salt"] == "of the file"
    assert (await stored.release.status())["salt"] == "one"
    await filed.close()


async def test_a_file_that_comes_and_goes_counts_while_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr("llm_fsm.documents.watched_file.LOOK_SECONDS", 0.0)
    machine = machine_of(tmp_path, MemoryStore())
    await put(machine, share=1)
    path = write_release(tmp_path, share=0)
    assert await greeting_of(machine) == OLD
    path.unlink()
    assert await greeting_of(machine) == NEWER


async def test_without_the_file_and_a_row_it_stays_as_it_was(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("llm_fsm.documents.watched_file.LOOK_SECONDS", 0.0)
    path = write_release(tmp_path, share=1)
    machine = AsyncMachine.from_release(path, model="offline", store=MemoryStore())
    path.unlink()
    assert await greeting_of(machine) == NEWER
    assert "the release stays as it was" in caplog.text
    assert "the release 'shop' in the store:1:1" in caplog.text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"share": 2}, "the release 'shop' in the store:1:.*share"),
        ({"candidate": "none.json", "share": 1}, "none.json"),
        ({"stable": "../shop.json"}, "stable"),
        ({"guards": [{"figure": "errors"}]}, "one limit"),
        ({"by": "context.plna", "share": 1}, "did you mean 'plan'"),
    ],
)
async def test_a_release_at_fault_is_not_written(tmp_path, changes, said):
    machine = machine_of(tmp_path, MemoryStore())
    with pytest.raises(Exception, match=said):
        await put(machine, **changes)
    assert (await machine.release.status())["version"] == 1
    assert await greeting_of(machine) == OLD


async def test_a_machine_without_the_candidate_begins_nobody_on_it(tmp_path, caplog):
    store = MemoryStore()
    whole, lacking = (machine_of(tmp_path / name, store) for name in ("whole", "lacking"))
    (tmp_path / "lacking" / "shop-2.json").unlink()
    await put(whole, share=1)
    assert [await greeting_of(whole), await greeting_of(lacking)] == [NEWER, OLD]
    assert "shop-2.json" in caplog.text


def test_without_definition_and_file_the_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"shop\.release\.json"):
        AsyncMachine.from_release(tmp_path / "shop.release.json", model="offline")


@pytest.mark.parametrize("name", ["llm_fsm:", "llm_fsm:release/x", "llm_fsm:end_conversation"])
def test_no_conversation_has_an_id_of_the_machine(name: str) -> None:
    with pytest.raises(ValueError, match="must not begin with 'llm_fsm:'"):
        checked_id(name, "conversation id")
