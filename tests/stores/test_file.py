"""The file store keeps the contract, survives what a crash leaves behind, and names what is wrong
with its folder.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace

import pytest

from llm_fsm.errors import StoreError, UnreadableError
from llm_fsm.records.doctor import examine
from llm_fsm.stores.base import Commit, ListQuery, OutboxQuery, Outgoing
from llm_fsm.stores.file import FileStore
from llm_fsm.testing.store_contract.suite import store_suite

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", store_suite(shared=True), ids=str)
async def test_files_keep_the_contract(check, tmp_path):
    await check(lambda: FileStore(tmp_path / "x"), reopen=lambda: FileStore(tmp_path / "x"))


def turn(number, size=3000):
    body = json.dumps({"turn": number, "fill": str(number % 10) * size})
    return Commit(
        conversation_id="c", expected=number - 1, session=body, record=body, request_id=f"r{number}"
    )


async def test_construction_touches_nothing_and_files_are_private(tmp_path):
    store = FileStore(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    assert await store.load("c") is None
    await store.save(turn(1))
    made = [tmp_path / "a" / "b", *(tmp_path / "a" / "b").rglob("*")]
    assert [file.stat().st_mode & 0o077 for file in made] == [0] * len(made)
    await store.close()


async def test_a_conversation_that_was_kept_before_there_were_labels_has_none(tmp_path):
    store = FileStore(tmp_path / "x")
    await store.save(turn(1))
    (path,) = (tmp_path / "x" / "conversations").glob("*.json")
    document = json.loads(path.read_text("utf-8"))
    del document["metadata"]
    path.write_text(json.dumps(document), "utf-8")
    await store.save(turn(2))
    (line,) = await store.list(ListQuery(ids=frozenset("c")))
    assert (line.turns, line.metadata) == (2, {})
    await store.close()


async def test_ids_never_become_paths(tmp_path):
    store = FileStore(tmp_path / "x")
    await store.save(replace(turn(1), conversation_id="../../escaped"))
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (await store.list(ListQuery()))[0].conversation_id == "../../escaped"
    await store.close()


async def test_what_a_crash_left_half_written_is_not_there(tmp_path):
    store = FileStore(tmp_path / "x")
    for number in (1, 2):
        await store.save(turn(number))
    await store.journal("c", 1, '"one"')
    files = {path.suffix: path for path in (tmp_path / "x" / "conversations").iterdir()}
    with open(files[".records"], "ab") as records:
        records.write(b'[3,"r3","a record without a comm')
    with open(files[".journal"], "ab") as journal:
        journal.write(b'[2,2,"ha')
    files[".json"].with_suffix(".new").write_text('{"format":1,"vers')
    assert list(await store.records("c")) == [turn(1).record, turn(2).record]
    assert (await store.load("c", "r3")).recorded is None
    assert list(await store.journalled("c")) == ['"one"']
    await store.journal("c", 2, '"two"')
    assert list(await store.journalled("c")) == ['"one"', '"two"']
    await store.save(turn(3))
    assert (await store.load("c", "r3")).recorded == turn(3).record
    assert list(await store.records("c")) == [turn(number).record for number in (1, 2, 3)]
    await store.close()


async def test_a_journal_is_over_with_its_turn_even_if_its_file_stays(tmp_path):
    store = FileStore(tmp_path / "x")
    await store.journal("c", 1, '"old"')
    (journal,) = (tmp_path / "x" / "conversations").glob("*.journal")
    kept = journal.read_bytes()
    await store.save(turn(1))
    journal.write_bytes(kept)
    assert list(await store.journalled("c")) == []
    await store.journal("c", 1, '"new"')
    assert list(await store.journalled("c")) == ['"new"']
    await store.close()


async def test_a_turn_writes_as_much_at_turn_300_as_at_turn_10(tmp_path):
    store = FileStore(tmp_path / "x")
    sizes = {}
    for number in range(1, 301):
        await store.save(turn(number, 200))
        if number in (10, 300):
            sizes[number] = sum(path.stat().st_size for path in (tmp_path / "x").rglob("*.json"))
    assert abs(sizes[300] - sizes[10]) < 20
    await store.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("garbage", "the file is damaged: restore it from a backup, or remove it"),
        (
            '{"format": 7}',
            "written by a newer version (format 7; this one reads 1): upgrade llm-fsm",
        ),
        (
            '{"format": 1, "conversation_id": "c"}',
            "the file is damaged: restore it from a backup, or remove it",
        ),
    ],
)
async def test_a_file_that_is_not_ours_is_named(tmp_path, text, message):
    store = FileStore(tmp_path / "x")
    await store.save(turn(1))
    (head,) = (tmp_path / "x" / "conversations").glob("*.json")
    head.write_text(text)
    with pytest.raises(StoreError) as caught:
        await store.load("c")
    assert str(caught.value).startswith(f"{head}: ")
    assert message in str(caught.value)
    await store.close()


async def test_a_file_of_another_conversation_is_named(tmp_path):
    store = FileStore(tmp_path / "x")
    for name in "cd":
        await store.save(replace(turn(1), conversation_id=name))
    one, other = (tmp_path / "x" / "conversations").glob("*.json")
    one.write_bytes(other.read_bytes())
    found = await asyncio.gather(store.load("c"), store.load("d"), return_exceptions=True)
    assert [str(error) for error in found if isinstance(error, StoreError)] == [
        f"{one}: is the file of another conversation: remove it, or use another folder"
    ]
    await store.close()


@pytest.mark.parametrize(
    "damage", ["garbage", "[]", "{}", '{"format": 1}', '{"format": 1, "conversation_id": "c"}']
)
async def test_one_that_is_damaged_is_no_hindrance_for_the_others_and_its_definition_stays(
    tmp_path, damage
):
    store = FileStore(tmp_path / "x")
    pinned = {"definition_sha": "sha", "definition_text": "{}", "due": ((1.0, "remind"),)}
    await store.save(replace(turn(1), **pinned))
    (head,) = (tmp_path / "x" / "conversations").glob("*.json")
    await store.save(
        replace(
            turn(1), conversation_id="d", outbox=(Outgoing(sink="s", key="k", text="{}"),), **pinned
        )
    )
    whole = head.read_text()
    head.write_text(damage)
    assert [line.conversation_id for line in await store.list(ListQuery())] == ["d"]
    assert [row.conversation_id for row in await store.due(2.0)] == ["d"]
    assert [row.conversation_id for row in await store.outbox(OutboxQuery(sink="s"))] == ["d"]
    assert [complaint.what for complaint in await examine(store)][:1] == list(await store.faults())
    assert list(await store.faults()) == [
        f"{head}: the file is damaged: restore it from a backup, or remove it"
    ]
    assert await store.delete("d")
    head.write_text(whole)
    assert await store.definition("sha") == "{}"
    assert await store.delete("c")
    assert await store.definition("sha") is None
    await store.close()


@pytest.mark.parametrize("left", [0, 1, 3100])
async def test_records_that_are_cut_short_make_no_request_a_new_one(tmp_path, left):
    store = FileStore(tmp_path / "x")
    for number in (1, 2):
        await store.save(turn(number))
    (records,) = (tmp_path / "x" / "conversations").glob("*.records")
    os.truncate(records, left) if left else records.unlink()
    for use in (
        store.load("c", "r1"),
        store.load("c", "r2"),
        store.records("c"),
        store.save(turn(3)),
    ):
        with pytest.raises(UnreadableError, match="the file is damaged: restore it from a backup"):
            await use
    (complaint,) = await examine(store)
    assert (complaint.conversation_id, "is damaged" in complaint.what) == ("c", True)
    await store.close()


async def test_a_place_that_is_no_folder_is_named(tmp_path):
    (tmp_path / "x").touch()
    store = FileStore(tmp_path / "x")
    with pytest.raises(StoreError, match=str(tmp_path / "x")):
        await store.save(turn(1))
    await store.close()


async def test_a_commit_that_was_cut_off_leaves_the_one_before(tmp_path, monkeypatch):
    store = FileStore(tmp_path / "x")
    await store.save(turn(1))

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(StoreError, match="the disk is full"):
        await store.save(turn(2))
    monkeypatch.undo()
    assert (await store.load("c")).version == 1
    assert not list((tmp_path / "x" / "conversations").glob("*.new"))
    await store.save(turn(2))
    assert list(await store.records("c")) == [turn(1).record, turn(2).record]
    await store.close()


async def test_files_with_escaped_characters_are_read_as_they_were_meant(tmp_path):
    store = FileStore(tmp_path / "x")
    for number in (1, 2):
        await store.save(
            replace(
                turn(number), session=f'"ä{number}"', record=f'"ö{number}"', request_id=f"ü{number}"
            )
        )
    for path in (tmp_path / "x" / "conversations").iterdir():
        lines = [
            json.dumps(json.loads(line), separators=(",", ":"))
            for line in path.read_text().splitlines()
        ]
        path.write_text("\n".join(lines) + "\n" * (path.suffix == ".records"))
        if path.suffix == ".records":
            size = path.stat().st_size
    (head,) = (tmp_path / "x" / "conversations").glob("*.json")
    head.write_text(json.dumps({**json.loads(head.read_text()), "bytes": size}))
    assert await store.load("c", "ü1") == ('"ä2"', 2, '"ö1"', None)
    assert list(await store.records("c")) == ['"ö1"', '"ö2"']
    await store.close()
