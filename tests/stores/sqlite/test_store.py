"""The SQLite store among other processes, and when the file or the disk is at fault."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import warm_parent
from llm_fsm.errors import ConversationConflict, StoreError
from llm_fsm.stores.base import Commit, ListQuery, OutboxQuery, Outgoing
from llm_fsm.stores.locks import file_locks as filelock
from llm_fsm.stores.locks.file_locks import FolderLocks, NoLocks, RangeLocks, locks_beside
from llm_fsm.stores.sqlite import SQLiteStore, connection
from llm_fsm.stores.sqlite.schema import transaction
from paths import SUPPORT
from sqlite_processes import turn

pytestmark = pytest.mark.anyio
PROCESSES = str(SUPPORT.joinpath("sqlite_processes.py"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.db"


@contextmanager
def process(*args):
    command = [sys.executable, PROCESSES, *map(str, args)]
    with warm_parent.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def output_of(*args):
    command = [sys.executable, PROCESSES, *map(str, args)]
    return warm_parent.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@asynccontextmanager
async def opened(path, **options):
    store = SQLiteStore(path, **options)
    try:
        yield store
    finally:
        await store.close()


async def message_of(awaitable, retryable=False):
    with pytest.raises(StoreError) as caught:
        await awaitable
    assert caught.value.retryable is retryable
    return str(caught.value)


# --- opening
# ---------------------------------------------------------------------------------------


async def test_construction_touches_nothing_and_first_use_makes_folder_and_file(tmp_path):
    store = SQLiteStore(tmp_path / "a" / "b" / "x.db")
    assert list(tmp_path.iterdir()) == []
    assert await store.load("c") is None
    async with store.lock("c", 1.0):
        made = [tmp_path / "a" / "b", *(tmp_path / "a" / "b").iterdir()]
    assert {file.name for file in made} >= {"x.db", "x.db-locks"}
    assert [file.stat().st_mode & 0o077 for file in made] == [0] * len(made)
    await store.close()


async def test_an_unused_store_can_be_closed(path):
    await SQLiteStore(path).close()
    assert not path.exists()


async def test_the_file_says_whose_it_is_and_commits_are_durable(path):
    async with opened(path) as store:
        await store.save(turn(1))
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA application_id").fetchone() == (
                int.from_bytes(b"LFSM", "big"),
            )
            assert db.execute("PRAGMA user_version").fetchone() == (7,)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        names = ("synchronous", "foreign_keys")
        settings = await store._read(
            lambda rows: [rows.db.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
        )
        assert settings == [2, 1]


async def test_many_stores_may_create_the_file_at_once(path):
    stores = [SQLiteStore(path) for _ in range(8)]
    assert await asyncio.gather(*(store.load("c") for store in stores)) == [None] * 8
    for store in stores:
        await store.close()


async def test_a_path_with_nul_is_a_value_error():
    with pytest.raises(ValueError, match="NUL"):
        SQLiteStore("x\0.db")


# --- files that are not ours ---------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 6, 8, 1000])
async def test_another_version_is_refused_and_left_alone(path, version):
    async with opened(path) as store:
        await store.save(turn(1))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    async with opened(path) as store:
        assert await message_of(store.load("c")) == (
            f"{path}: has the schema {version}, and this llm-fsm reads only 7. "
            "Use the version that wrote it, or another file"
        )
    assert path.read_bytes() == before


async def test_another_programs_database_is_refused_and_left_alone(path):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE conversations (id)")
    before = path.read_bytes()
    async with opened(path) as store:
        wanted = f"{path}: is a database of another program: use another file"
        assert await message_of(store.save(turn(1))) == wanted
    assert path.read_bytes() == before


async def test_garbage_is_refused_and_left_alone_and_the_store_works_once_it_is_gone(path):
    path.write_bytes(b"this is no database\n" * 500)
    async with opened(path) as store:
        wanted = f"{path}: is not an SQLite database: use another file, or move this one away"
        assert await message_of(store.load("c")) == wanted
        assert await message_of(store.save(turn(1))) == wanted
        assert path.read_bytes() == b"this is no database\n" * 500
        path.unlink()
        await store.save(turn(1))
        assert (await store.load("c")).version == 1


async def test_a_turn_of_a_form_writes_at_most_eight_kilobytes(path):
    async with opened(path) as store:
        sha, log = "0" * 64, Path(f"{path}-wal")
        await store.save(replace(turn(1), definition_sha=sha, definition_text="{}"))
        before = log.stat().st_size
        for number in range(2, 22):
            form = replace(turn(number), session="s" * 1500, record="r" * 900, definition_sha=sha)
            await store.save(form)
        assert log.stat().st_size - before <= 20 * 8000


async def test_a_conversation_moves_to_another_definition_or_keeps_its_own(path):
    async with opened(path) as store:
        await store.save(replace(turn(1), definition_sha="a", definition_text="{}"))
        await store.save(replace(turn(2), definition_sha="a"))
        assert (await store.load("c")).definition_sha == "a"
        await store.save(replace(turn(3), definition_sha="b", definition_text="[]"))
        assert (await store.load("c")).definition_sha == "b"
        assert await store.definition("a") is None
        assert await store.definition("b") == "[]"


async def test_a_damaged_file_is_named(path):
    async with opened(path) as store:
        for number in range(1, 30):
            await store.save(turn(number))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    async with opened(path) as store:
        wanted = (
            f"{path}: the database is damaged (database disk image is malformed): "
            "restore it from a backup, or move it away"
        )
        assert await message_of(store.load("c")) == wanted


async def test_a_file_with_a_name_that_is_no_text_is_called_damaged(path):
    async with opened(path) as store:
        await store.save(turn(1))
    content = path.read_bytes()
    assert content.count(b"tablerecordsrecords") == 1
    path.write_bytes(content.replace(b"tablerecordsrecords", b"table\xff\xfecordsrecords"))
    async with opened(path) as store:
        said = await message_of(store.load("c"))
    assert said.startswith(f"{path}: the database is damaged (")
    assert said.endswith("): restore it from a backup, or move it away")


async def test_a_folder_in_place_of_the_file_is_named(tmp_path):
    async with opened(tmp_path) as store:
        wanted = f"{tmp_path}: is a folder, not a file: name a file, such as {tmp_path / 'conversations.db'}"
        assert await message_of(store.load("c")) == wanted


async def test_a_parent_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "sub" / "x.db"
    async with opened(place) as store:
        wanted = (
            f"{place.parent}: the folder does not exist and cannot be created (Not a directory): "
            "create it, or use a file in another folder"
        )
        assert await message_of(store.load("c")) == wanted
        with pytest.raises(StoreError) as caught:
            async with store.lock("c", 1.0):
                raise AssertionError
        assert str(caught.value) == wanted


# --- permissions: as an unprivileged user in another process
# ----------------------------------------


@pytest.fixture
def public():
    folder = Path(tempfile.mkdtemp(prefix="llm-fsm-test-"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


READ_ONLY = (
    "StoreError {}: cannot be written, because the file or its folder is read-only for this user. Locks and logs are "
    "written even if a store is only read. Change the permissions, or use another file or a copy\n"
)
DENIED = (
    "StoreError {}: permission denied for this user: change the permissions or use another file\n"
)


async def saved_in(path):
    async with opened(path) as store:
        await store.save(turn(1))
        async with store.lock("c"):
            pass


async def test_a_read_only_file_can_be_read_but_not_written(public):
    path = public / "x.db"
    await saved_in(path)
    path.chmod(0o444)
    assert output_of("as_nobody", path, "load") == turn(1).session + "\n"
    assert output_of("as_nobody", path, "save") == READ_ONLY.format(path)


async def test_a_read_only_lock_file_is_named(public):
    path = public / "x.db"
    await saved_in(path)
    (lock,) = Path(f"{path}-locks").iterdir()
    lock.chmod(0o444)
    lock.parent.chmod(0o755)
    assert output_of("as_nobody", path, "lock") == READ_ONLY.format(lock)


async def test_a_read_only_folder_is_named(public):
    path = public / "x.db"
    await saved_in(path)
    path.chmod(0o444)
    public.chmod(0o555)
    assert output_of("as_nobody", path, "create") == READ_ONLY.format(path)


async def test_an_unreadable_file_is_named(public):
    path = public / "x.db"
    await saved_in(path)
    path.chmod(0o000)
    assert output_of("as_nobody", path, "create") == DENIED.format(path)


async def test_a_folder_without_permission_is_named(public):
    public.chmod(0o000)
    assert output_of("as_nobody", public / "x.db", "create") == DENIED.format(public / "x.db")
    public.chmod(0o555)
    assert output_of("as_nobody", public / "x.db", "create") == DENIED.format(public / "x.db")
    place = public / "sub" / "x.db"
    assert output_of("as_nobody", place, "create") == (
        f"StoreError {place.parent}: the folder does not exist and cannot be created (Permission denied): "
        "create it, or use a file in another folder\n"
    )


# --- full and locked
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [100_000, 500_000])
async def test_a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_space(path, limit):
    assert output_of("fill", path, limit).splitlines() == [
        f"StoreError {path}: cannot be written, because the disk is full or the file has reached its size "
        "limit. Free some space and try again; nothing was changed",
        "kept True",
        "fine",
        "goes on True",
    ]


async def test_a_locked_database_is_a_retryable_error_and_works_once_it_is_free(path):
    async with opened(path, busy_timeout=0.05) as store:
        await store.save(turn(1))
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            wanted = (
                f"{path}: the database is locked by another program: try again, or end that program"
            )
            assert await message_of(store.save(turn(2)), retryable=True) == wanted
            assert (await store.load("c")).version == 1
            db.execute("ROLLBACK")
        await store.save(turn(2))


async def test_a_database_locked_from_the_start_is_a_retryable_error(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        async with opened(path, busy_timeout=0.05) as store:
            many = [store.load("c"), store.load("d"), store.save(turn(1)), store.save(turn(1))]
            found = await asyncio.gather(*many, return_exceptions=True)
            assert [(type(error), error.retryable) for error in found] == [(StoreError, True)] * 4
            db.execute("ROLLBACK")
            db.close()
            await store.save(turn(1))


async def test_a_removed_file_is_noticed(path):
    async with opened(path) as store:
        await store.save(turn(1))
        for file in path.parent.glob("x.db*"):
            file.unlink()
        with pytest.raises(ConversationConflict, match="is gone"):
            await store.save(turn(2))
        await store.save(turn(1))
        assert path.is_file()


# --- together
# ----------------------------------------------------------------------------------------


async def test_what_another_store_wrote_since_is_read(path):
    async with opened(path) as one, opened(path) as other:
        await one.save(turn(1))
        await other.save(turn(2))
        assert (await one.load("c")).version == 2


async def test_a_read_sees_a_write_that_was_handed_in_before_it(path):
    async with opened(path) as store:
        await store.save(turn(1))
        _, found = await asyncio.gather(store.save(turn(2)), store.load("c"))
        assert found.version == 2


async def test_a_read_stays_out_of_a_transaction_that_is_open(path):
    entered, leave = threading.Event(), threading.Event()

    def half(rows):
        rows.db.execute("UPDATE conversations SET version = 7")
        entered.set()
        leave.wait(30)
        raise StoreError("taken back")

    async with opened(path) as store:
        await store.save(turn(1))
        writing = asyncio.ensure_future(store._write(half))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        reading = asyncio.ensure_future(store.load("c"))
        await asyncio.sleep(0)
        assert not reading.done()
        leave.set()
        assert (await reading).version == 1
        assert "taken back" in await message_of(writing)


async def test_a_turn_that_keeps_its_pin_may_follow_one_that_changed_it(path):
    async with opened(path) as store:
        await store.save(replace(turn(1), definition_sha="one", definition_text="{}"))
        await store.save(replace(turn(2), definition_sha="one"))
        await store.save(replace(turn(3), definition_sha="two", definition_text="[]"))
        with pytest.raises(StoreError, match="one"):
            await store.save(replace(turn(4), definition_sha="one"))
        await store.save(replace(turn(4), definition_sha="two"))
        assert (await store.load("c")).definition_sha == "two"


async def test_a_pin_to_a_definition_that_was_taken_out_of_the_file_is_refused_alone_as_among_others(
    path,
):
    async with opened(path) as store:
        await store.save(replace(turn(1), definition_sha="one", definition_text="{}"))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("DELETE FROM definitions")
        with pytest.raises(StoreError, match="no copy of it"):
            await store.save(replace(turn(2), definition_sha="one"))


async def test_due_rows_and_the_journal_of_the_turn_before_are_gone_after_the_next(path):
    async with opened(path) as store:
        await store.journal("c", 1, "began")
        await store.save(replace(turn(1), due=((5.0, "expire"), (3.0, "remind"))))
        assert [row.kind for row in await store.due(9.0)] == ["remind", "expire"]
        await store.journal("c", 1, "began again")
        await store.save(turn(2))
        assert (await store.due(9.0), await store.journalled("c")) == ((), ())


async def test_a_failing_save_does_not_fail_those_committed_with_it(path):
    async with opened(path) as store:
        await store.save(turn(1))
        started, go_on = threading.Event(), threading.Event()
        first = asyncio.create_task(store._read(lambda _: (started.set(), go_on.wait())))
        await asyncio.to_thread(started.wait)
        saves = [store.journal(f"c{number}", 1, "{}") for number in range(10)]
        together = asyncio.gather(
            *saves, store.save(turn(1)), store.save(turn(2)), return_exceptions=True
        )
        await asyncio.sleep(0)
        go_on.set()
        *fine, refused, saved = await together
        await first
        assert fine == [None] * 10
        assert isinstance(refused, ConversationConflict)
        assert saved is None
        assert (await store.load("c")).version == 2


async def test_what_is_committed_but_not_known_to_be_on_the_disk_is_not_written_again(
    path, monkeypatch
):
    async with opened(path) as store:
        await store.save(turn(1))
        started, go_on = threading.Event(), threading.Event()
        first = asyncio.create_task(store._read(lambda _: (started.set(), go_on.wait())))
        await asyncio.to_thread(started.wait)

        @contextmanager
        def unsettled(db, begin):
            with transaction(db, begin):
                yield
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error

        monkeypatch.setattr(connection, "transaction", unsettled)
        journals = [store.journal(f"c{number}", 1, "{}") for number in range(3)]
        together = asyncio.gather(*journals, return_exceptions=True)
        await asyncio.sleep(0)
        go_on.set()
        outcomes = await together
        await first
        monkeypatch.undo()
        assert [type(outcome) for outcome in outcomes] == [StoreError] * 3
        assert [list(await store.journalled(f"c{number}")) for number in range(3)] == [["{}"]] * 3


def mixed_commits():
    """Good ones and such as are refused for every reason, some of the same conversation."""
    event = Outgoing(sink="crm", key="k", text="{}")

    def of(name, number, **more):
        plain = Commit(
            conversation_id=name,
            expected=number - 1,
            session=f'"{name} {number}"',
            record=f'"{number}"',
        )
        return replace(plain, **more)

    return [
        of("a", 1, request_id="r", due=((2.5, "expire"), (2.5, "expire")), outbox=(event, event)),
        of("a", 1),
        of("a", 2, request_id="r"),
        of("a", 2, request_id="s", definition_sha="sha", definition_text="{}", time=0.1 + 0.2),
        of("b", 2),
        of("d", 1, definition_sha="nowhere"),
        of("a", 3, definition_sha="other", definition_text="[]"),
        of("e", 1, earlier=(('"0"', "x"),), created=5.25),
        *(of(f"f{number}", 1, request_id="r") for number in range(150)),
        of("e", 3),
    ]


async def told(save):
    try:
        await save
    except (ConversationConflict, StoreError) as error:
        return str(error)
    return None


async def everything(store):
    lines = await store.list(ListQuery(limit=1000))
    kept = [
        (await store.load(line.conversation_id, "r"), await store.records(line.conversation_id))
        for line in lines
    ]
    more = (
        await store.due(9.0),
        await store.outbox(OutboxQuery(sink="crm")),
        await store.definition("sha"),
        await store.definition("other"),
    )
    return lines, kept, more


async def test_saves_together_do_what_they_do_one_after_the_other(tmp_path):
    commits = mixed_commits()
    async with opened(tmp_path / "one.db") as one, opened(tmp_path / "all.db") as together:
        for name in ("a", "f3"):
            await one.journal(name, 1, "{}")
            await together.journal(name, 1, "{}")
        single = [await told(one.save(commit)) for commit in commits]
        started, go_on = threading.Event(), threading.Event()
        first = asyncio.create_task(together._read(lambda _: (started.set(), go_on.wait())))
        await asyncio.to_thread(started.wait)
        waiting = asyncio.gather(*(told(together.save(commit)) for commit in commits))
        await asyncio.sleep(0)
        go_on.set()
        assert await waiting == single
        await first
        assert sum(outcome is not None for outcome in single) == 4
        assert await everything(together) == await everything(one)
        loads = [together.load(f"f{number}", "r") for number in range(70)]
        assert [loaded.recorded for loaded in await asyncio.gather(*loads)] == ['"1"'] * 70
        assert list(await together.journalled("a")) == []


@asynccontextmanager
async def under_way(store, count):
    """So many conversations are locked."""
    async with AsyncExitStack() as held:
        for number in range(count):
            await held.enter_async_context(store.lock(f"c{number}"))
        yield


async def test_where_many_are_under_way_one_transaction_serves_what_they_hand_in_together(path):
    async with opened(path) as store, under_way(store, 20):
        begun = []
        await store._read(lambda rows: rows.db.set_trace_callback(begun.append))
        await asyncio.gather(
            *(store.save(replace(turn(1), conversation_id=f"c{n}")) for n in range(20))
        )
        assert sum(statement.startswith("BEGIN") for statement in begun) == 1
        found = await asyncio.gather(*(store.load(f"c{number}") for number in range(20)))
        assert [loaded.version for loaded in found] == [1] * 20


async def test_many_at_once_are_handed_in_while_more_of_them_come(path):
    async with opened(path) as store, under_way(store, 20):
        await asyncio.gather(*(store.journal(f"j{number}", 1, "{}") for number in range(1500)))
        assert [len(await store.journalled(f"j{number}")) for number in (0, 63, 64, 1499)] == [
            1
        ] * 4


async def test_what_waits_for_a_batch_at_close_is_still_written(path):
    store = SQLiteStore(path)
    async with under_way(store, 20):
        saves = [asyncio.create_task(store.journal(f"c{number}", 1, "{}")) for number in range(20)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*saves)
    async with opened(path) as again:
        assert [len(await again.journalled(f"c{number}")) for number in range(20)] == [1] * 20


async def test_a_text_that_sqlite_cannot_hold_fails_alone(path):
    async with opened(path) as store:
        found = await asyncio.gather(
            store.journal("\ud800", 1, "{}"), store.journal("c", 1, "{}"), return_exceptions=True
        )
        assert isinstance(found[0], UnicodeEncodeError)
        assert found[1] is None


async def test_what_waits_at_close_is_still_written(path):
    store = SQLiteStore(path)
    saves = [asyncio.create_task(store.journal(f"c{number}", 1, "{}")) for number in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*saves)
    async with opened(path) as again:
        assert [len(await again.journalled(f"c{number}")) for number in range(50)] == [1] * 50


async def test_a_closed_store_names_its_file(path):
    store = SQLiteStore(path)
    await store.close()
    assert await message_of(store.load("c")) == f"{path}: the store is closed; open a new one"


async def test_a_dropped_store_ends_its_thread(path):
    store = SQLiteStore(path)
    await store.save(turn(1))
    thread = store._parts.turns.thread._thread
    del store
    gc.collect()
    await asyncio.to_thread(thread.join, 30)
    assert not thread.is_alive()


def test_event_loops_in_several_threads_share_a_store(path):
    store = SQLiteStore(path)

    async def talk(name):
        for number in (1, 2, 3):
            await store.journal(name, number, json.dumps(number))

    threads = [
        threading.Thread(target=asyncio.run, args=(talk(f"c{number}"),)) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def read():
        found = [list(await store.journalled(f"c{number}")) for number in range(4)]
        await store.close()
        return found

    assert asyncio.run(read()) == [["1", "2", "3"]] * 4


# --- other processes
# ---------------------------------------------------------------------------------


async def test_a_lock_holds_between_processes_and_dies_with_its_owner(path):
    async with opened(path) as store:
        with process("hold", path) as holder:
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(
                StoreError, match='conversation "c" is busy in another process'
            ) as caught:
                async with store.lock("c", timeout=0.02):
                    pass
            assert caught.value.retryable
            async with store.lock("another", timeout=0.02):
                pass
            holder.send_signal(signal.SIGKILL)
            async with store.lock("c", timeout=30):
                pass


async def test_a_lock_dies_with_its_owner_though_a_forked_child_lives_on(path):
    async with opened(path) as store:
        with process("fork_and_hold", path) as holder:
            assert holder.stdout.readline() == "held\n"
            holder.send_signal(signal.SIGKILL)
            async with store.lock("c", timeout=30):
                pass


async def test_processes_that_add_under_the_lock_lose_nothing(path):
    with process("add", path, 25) as first, process("add", path, 25) as second:
        assert [first.wait(60), second.wait(60)] == [0, 0]
    async with opened(path) as store:
        assert (await store.load("c")).session == "50"


@pytest.mark.parametrize("after", [1, 7, 40])
async def test_a_kill_in_mid_save_leaves_the_old_or_the_new_version(path, after):
    with process("save_for_ever", path) as writer:
        while int(writer.stdout.readline()) < after:
            pass
        writer.send_signal(signal.SIGKILL)
        said = [int(line) for line in writer.stdout.read().splitlines() if line]
    last = max([after, *said])
    async with opened(path) as store:
        loaded = await store.load("c", f"r{last}")
        assert loaded.version in (last, last + 1)
        assert loaded.session == turn(loaded.version).session
        assert loaded.recorded == turn(last).record
        records = await store.records("c")
        assert list(records) == [turn(number).record for number in range(1, loaded.version + 1)]
        await store.save(turn(loaded.version + 1))


async def test_a_forked_child_opens_its_own_connection(path):
    assert output_of("fork", path).splitlines() == ["2", "3"]


async def test_what_a_forked_child_saves_is_kept_though_its_parent_closes_the_store(path):
    assert output_of("fork_and_close", path) == "3\n"


async def test_a_child_that_is_forked_in_the_middle_of_a_transaction_finds_the_file_free(path):
    assert output_of("fork_while_writing", path) == "child 0, version 2\n"


async def test_a_process_ends_though_its_store_is_open(path):
    assert output_of("use_and_leave", path) == "saved\n"


async def test_a_folder_that_may_not_be_entered_is_named(public):
    inner = public / "private" / "sub"
    inner.mkdir(parents=True, mode=0o755)
    await saved_in(inner / "x.db")
    inner.parent.chmod(0o700)
    for action in ("load", "lock", "create"):
        assert output_of("as_nobody", inner / "x.db", action) == DENIED.format(inner)
    inner.parent.chmod(0o755)
    inner.chmod(0o755)
    Path(f"{inner / 'x.db'}-locks").chmod(0o700)
    (inner / "x.db").chmod(0o666)
    assert output_of("as_nobody", inner / "x.db", "lock") == READ_ONLY.format(inner / "x.db")


# --- kinds of locks
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [RangeLocks, FolderLocks])
def test_a_file_lock_excludes_others_until_it_is_given_back(kind, tmp_path):
    one, other = kind(tmp_path / "place"), kind(tmp_path / "place")
    assert one.take("a")
    assert not other.take("a")
    assert other.take("b")
    one.give("a")
    one.give("a")
    assert other.take("a")
    other.close()
    assert one.take("a")
    assert one.take("b")
    one.close()
    one.close()


def test_a_folder_lock_leaves_no_file_behind(tmp_path):
    locks = FolderLocks(tmp_path / "locks")
    for name in ("../../x", "a" * 200, "\U0001f600"):
        assert locks.take(name)
        locks.give(name)
    assert list((tmp_path / "locks").iterdir()) == []


@pytest.mark.parametrize("kind", [RangeLocks, FolderLocks])
def test_a_place_that_cannot_hold_locks_is_a_store_error(kind, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be created"):
        kind(tmp_path / "file" / "sub").take("a")


def test_the_kind_of_lock_follows_the_system(tmp_path, monkeypatch):
    assert isinstance(locks_beside(tmp_path / "x.db"), RangeLocks)
    monkeypatch.delattr(filelock.fcntl, "F_OFD_SETLK")
    assert isinstance(locks_beside(tmp_path / "x.db"), FolderLocks)
    monkeypatch.setattr(filelock, "fcntl", None)
    assert isinstance(locks_beside(tmp_path / "x.db"), NoLocks)
    assert os.listdir(tmp_path) == []
