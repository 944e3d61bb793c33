"""Room in the write-ahead log of an SQLite file, made before commits need it."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from llm_fsm.stores.sqlite import connection as sqlite_worker
from llm_fsm.stores.sqlite.log import ROOM, make_room
from llm_fsm.stores.sqlite.schema import MEMORY, open_database
from llm_fsm.stores.sqlite.store import SQLiteStore
from sqlite_processes import turn

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.db"


@pytest.fixture
def db(path):
    with closing(open_database(str(path), 0.1)) as db:
        yield db


def log_of(path):
    return Path(f"{path}-wal")


def length(path):
    return log_of(path).stat().st_size


def note(db, step):
    db.execute("INSERT INTO journal VALUES ('c', ?, 'text')", (step,))


def notes(db):
    return [step for (step,) in db.execute("SELECT step FROM journal ORDER BY step")]


async def with_room(store):
    """Save turns until the store has made room, which it does while nobody waits; the number of the last."""
    number = 0
    while number < 4 or length(store.path) < ROOM:
        number += 1
        await store.save(turn(number))
        await asyncio.sleep(0.01)
    return number


async def test_a_store_that_is_used_makes_room_and_its_commits_do_not_lengthen_the_log(path):
    store = SQLiteStore(path)
    begun = await with_room(store)
    found = set()
    for number in range(begun + 1, begun + 601):
        await store.save(turn(number))
        found.add(length(path))
    assert found == {ROOM}
    assert path.stat().st_size > 600 * len(turn(1).record)  # the log was emptied into the file, and begun again
    await store.close()


async def test_a_store_that_is_hardly_used_takes_no_room(path):
    store = SQLiteStore(path)
    for number in (1, 2, 3):
        await store.save(turn(number))
    for _ in range(50):
        await store.load("c", "r1")
    assert length(path) < ROOM / 10
    await store.close()


async def test_a_store_whose_file_was_replaced_makes_room_again(path, tmp_path):
    store = SQLiteStore(path)
    await with_room(store)
    for old in tmp_path.glob("x.db*"):
        if old.is_file():
            old.rename(tmp_path / f"old{old.name}")
    await with_room(store)
    await store.close()


async def test_a_store_tries_again_where_another_program_was_writing(path, monkeypatch):
    refused = []

    def busy(db):
        if len(refused) < 2:
            refused.append(db)
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                make_room(db)
        make_room(db)

    monkeypatch.setattr("llm_fsm.stores.sqlite.connection.make_room", busy)
    store = SQLiteStore(path)
    await with_room(store)
    assert len(refused) == 2
    await store.close()


async def test_a_store_on_a_full_disk_goes_on_without_room(path, monkeypatch):
    asked = []

    def full(db):
        asked.append(db)
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("llm_fsm.stores.sqlite.connection.make_room", full)
    store = SQLiteStore(path)
    for number in range(1, 21):
        await store.save(turn(number))
        await asyncio.sleep(0.01)
    assert len(asked) == 1
    assert (await store.load("c")).version == 20
    await store.close()


def test_room_lengthens_the_log_and_nothing_else(path, db):
    note(db, 1)
    before = log_of(path).read_bytes()
    size = path.stat().st_size
    make_room(db)
    after = log_of(path).read_bytes()
    assert len(after) == ROOM
    assert after.startswith(before)
    assert not after.strip(b"\0").removeprefix(before.strip(b"\0"))
    assert path.stat().st_size == size
    make_room(db)
    assert length(path) == ROOM
    assert not db.in_transaction
    assert db.execute("PRAGMA busy_timeout").fetchone() == (100,)


def test_a_log_that_is_longer_stays_as_it_is(path, db):
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("INSERT INTO journal VALUES ('c', 1, zeroblob(?))", (ROOM,))
    before = log_of(path).read_bytes()
    make_room(db)
    assert log_of(path).read_bytes() == before


@pytest.mark.parametrize("kept", [100_000, ROOM])
def test_what_was_committed_before_and_after_is_read_from_a_log_that_nobody_closed(path, db, tmp_path, kept):
    note(db, 1)
    make_room(db)
    note(db, 2)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    shutil.copy(log_of(path), log_of(copy))
    os.truncate(log_of(copy), kept)  # killed while it made room
    with closing(open_database(str(copy), 0.1)) as found:
        assert notes(found) == [1, 2]
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_connections_that_have_the_file_open_read_and_write_on(path, db):
    note(db, 1)
    with closing(open_database(str(path), 0.1)) as other:
        other.execute("BEGIN")
        assert notes(other) == [1]
        make_room(db)
        note(db, 2)
        assert notes(other) == [1]
        other.execute("COMMIT")
        note(other, 3)
        assert notes(other) == notes(db) == [1, 2, 3]
    assert length(path) == ROOM


def test_where_another_program_is_writing_nothing_is_waited_for_and_nothing_done(path):
    with (
        closing(open_database(str(path), 30)) as db,
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other,
    ):
        note(db, 1)
        before = length(path)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(1, other.execute, ["COMMIT"])  # who waits gets the lock
        release.start()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            make_room(db)
        assert length(path) == before
        assert db.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
        release.join()
        make_room(db)
        assert length(path) == ROOM


def test_a_disk_without_the_space_keeps_what_it_had(path, db, monkeypatch):
    note(db, 1)
    before = log_of(path).read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space left"):
            make_room(db)
    assert log_of(path).read_bytes() == before
    assert not db.in_transaction
    note(db, 2)
    assert notes(db) == [1, 2]


def test_a_file_behind_a_link_has_its_log_lengthened(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with closing(open_database(str(link), 0.1)) as db:
        note(db, 1)
        make_room(db)
        assert length(path) == ROOM


def test_where_another_file_took_the_place_nothing_in_its_log_is_written_over(path, db, tmp_path, monkeypatch):
    note(db, 1)
    for old in tmp_path.glob("x.db*"):
        old.rename(tmp_path / f"old{old.name}")
    with closing(open_database(str(path), 0.1)) as other:

        def zeros(number):
            if notes(other) == []:
                note(other, 2)
            return bytes(number)

        monkeypatch.setattr("llm_fsm.stores.sqlite.log.bytes", zeros, raising=False)
        make_room(db)
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
        shutil.copy(log_of(path), log_of(copy))
    with closing(open_database(str(copy), 0.1)) as found:
        assert notes(found) == [2]


async def test_a_store_makes_no_room_in_the_log_of_a_file_that_took_the_place_of_its_own(path, tmp_path, monkeypatch):
    asked = []
    deliver = sqlite_worker._deliver

    def replaced(outcomes):
        path.rename(tmp_path / "old.db")
        path.touch()
        deliver(outcomes)

    store = SQLiteStore(path)
    for number in (1, 2, 3):
        await store.save(turn(number))
    monkeypatch.setattr(sqlite_worker, "make_room", asked.append)
    monkeypatch.setattr(sqlite_worker, "_deliver", replaced)
    await store.save(turn(4))
    await asyncio.sleep(0.05)
    await store.close()
    assert asked == []


def test_a_database_without_a_log_is_left_alone(tmp_path):
    with closing(open_database(MEMORY, 0.1)) as db:
        make_room(db)
        note(db, 1)
        assert notes(db) == [1]
    with closing(sqlite3.connect(tmp_path / "plain.db", isolation_level=None)) as db:
        db.execute("CREATE TABLE kept (number)")
        make_room(db)
        assert [found.name for found in tmp_path.iterdir()] == ["plain.db"]
