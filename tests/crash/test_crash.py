"""Workers killed at every point of a turn and at random: nothing is lost, doubled or out of order.
Short here.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from audit import faults
from bot import SHOP, TURNS, message
from ledger import Ledger
from llm_fsm.stores.sqlite import SQLiteStore
from naive import IllegalError, Replayed
from probes import Probe
from worker import work

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
KILLS = int(os.environ.get("CRASH_KILLS", "2"))


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of this folder as a process of its own."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_nothing_is_lost_or_done_twice_wherever_workers_are_killed(
    store: str, request: pytest.FixtureRequest
) -> None:
    place = store if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    done = run(HERE, "--store", place, "--kills", KILLS, "--each", 1, "--latest", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    named, _, at_random, *_ = done.stdout.splitlines()
    assert named.endswith(" 0 faults")
    assert at_random.startswith(f"{store}, at random: {KILLS} kills")


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_what_killed_processes_leave_is_finished_by_a_worker(store: str) -> None:
    done = run(HERE / "workers.py", "--store", store, "--kills", KILLS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{store}, beside a worker: {KILLS} kills")


def test_a_store_that_is_stopped_hard_loses_and_doubles_no_turn() -> None:
    done = run(HERE / "workers.py", "--stop-store", 1, "--turns", 40)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "48 turns acknowledged" in done.stdout


def test_a_lost_server_of_temporal_loses_no_reminder_and_no_message() -> None:
    done = run(HERE / "temporal_kills.py", "--kills", 0, "--losses", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 time-outs" in done.stdout


async def conversation(folder: Path) -> tuple[Ledger, Path]:
    """One whole conversation in which nobody was killed."""
    ledger, path = Ledger(folder / "ledger"), folder / "bots.db"
    ledger.write("sent", c="c0-0", turn=0)
    await work(lambda _: SQLiteStore(path), ledger, Probe(), 1, last=True)
    return ledger, path


async def audited(ledger: Ledger, path: Path) -> list[str]:
    store = SQLiteStore(path)
    try:
        return await faults(ledger, store)
    finally:
        await store.close()


Doctoring = Callable[[Ledger, sqlite3.Connection], object]


def _sql(text: str, *values: object) -> Doctoring:
    return lambda _, db: db.execute(text, values)


def _line(what: str, **facts: object) -> Doctoring:
    return lambda ledger, _: ledger.write(what, c="c0-0", **facts)


def _in_record(number: int, old: str, new: str) -> Doctoring:
    return _sql(
        "UPDATE records SET record = replace(record, ?, ?) WHERE number = ?", old, new, number
    )


@pytest.mark.parametrize(
    ("doctoring", "words"),
    [
        (_sql("DELETE FROM records WHERE number = 13"), "version 13, but 12 records"),
        (_sql("DELETE FROM conversations"), "is gone"),
        (
            _sql("UPDATE conversations SET session = replace(session, 'item 10', 'item 7')"),
            "the session says",
        ),
        (
            _in_record(4, '"UserSaid","text":"more 3"', '"UserSaid","text":"more 2"'),
            "lost, doubled or out of order",
        ),
        (_in_record(4, "You said more 3", "You said nothing"), "was acknowledged with"),
        (_in_record(2, '"state":"pay"', '"state":"bye"'), "moved from ask to bye"),
        (_in_record(2, '"count":2', '"count":0'), "moved from ask to pay"),
        (
            _in_record(
                3, '"source":"tool","values":{"receipt"', '"source":"model","values":{"receipt"'
            ),
            "belongs to tool",
        ),
        (_line("effect", name="charge", turn=2, key="k"), "charged 2 times for turn 2"),
        (_line("effect", name="stamp", turn=2, key="k"), "stamped under 2 keys"),
        (_line("effect", name="hear", turn=2, key="k"), "hear ran under 13 keys, 12 are on record"),
        (_line("effect", name="close", turn=0, key="k"), "close ran under 2 keys, 1 are on record"),
        (_line("told", key="c0-0/99/0", event={}), "the sink heard of"),
        (_line("told", key="c0-0/2/0", event={}), "of other events than those on record"),
        (_line("ack", turn=13, text="?"), "turn 13 was acknowledged"),
        (_line("model", said="want 1", state="ask", asked=2), "asked 2 times about 'want 1'"),
    ],
)
async def test_audit_finds_what_was_done_wrong(
    doctoring: Doctoring, words: str, tmp_path: Path
) -> None:
    ledger, path = await conversation(tmp_path)
    assert await audited(ledger, path) == []
    with sqlite3.connect(path) as db:
        doctoring(ledger, db)
    db.close()
    found = await audited(ledger, path)
    assert any(words in fault for fault in found), found


def test_naive_interpreter_takes_no_move_that_is_not_open() -> None:
    entered = {"type": "StateEntered", "previous": "ask", "state": "pay", "by": "model"}
    update = {"type": "ContextSet", "source": "model", "values": {"item": "x", "count": 1}}
    assert Replayed(SHOP, [{"kind": "start", "events": [update, entered]}]).state == "pay"
    for events in ([entered], [update, {**entered, "state": "thank"}], [update, entered, entered]):
        with pytest.raises(IllegalError):
            Replayed(SHOP, [{"kind": "start", "events": events}])


@pytest.mark.parametrize("role", ["full", "unsafe"])
def test_failing_disk_is_a_typed_error_and_the_message_can_be_sent_again(
    role: str, tmp_path: Path
) -> None:
    library, flag = tmp_path / "fsync.so", tmp_path / "flag"
    environment = {}
    if role == "unsafe":
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("a failing fsync needs a C compiler: apt-get install gcc libc6-dev")
        command = (compiler, "-shared", "-fPIC", "-o", str(library), str(HERE / "fsync.c"), "-ldl")
        subprocess.run(command, check=True)
        environment = {"LD_PRELOAD": str(library), "FAILING_FSYNC": str(flag)}
    done = run(HERE / "disk.py", role, tmp_path / "bots.db", flag, **environment)
    assert done.returncode == 0, done.stderr
    error, outcome, audit = map(json.loads, done.stdout.splitlines())
    assert str(tmp_path / "bots.db") in error["error"]
    assert ("is full" if role == "full" else "disk I/O error") in error["error"]
    assert outcome == {"failed": 2, "ended": True, "version": TURNS + 1}
    assert audit == {"faults": []}
    assert message(TURNS).startswith("leave")
