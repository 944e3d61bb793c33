"""`llm-fsm worker`: takes up what a killed process left, and ends within its time."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time

from cli_command import desk
from llm_fsm.stores.sqlite import SQLiteStore

__all__ = ["desk"]
BOT = {
    "name": "bot",
    "initial_state": "one",
    "states": {
        "one": {
            "kind": "task",
            "purpose": "Do it",
            "execute": "slow",
            "transitions": [{"target_state": "over"}],
        },
        "over": {"kind": "final"},
    },
}
TOOLS = """
import pathlib, time

def slow(task):
    with open("ran", "a") as file:
        file.write("x")
    while pathlib.Path("hangs").exists():
        time.sleep(0.05)
    return "done"

FUNCTIONS = {"slow": slow}
"""


def until(check, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not check() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert check()


def records(path):
    async def read():
        store = SQLiteStore(path)
        try:
            return len(await store.records("c"))
        finally:
            await store.close()

    return asyncio.run(read())


def test_a_worker_finishes_the_run_of_a_killed_process_and_ends_by_sigterm(desk):
    desk.write("bot.json", BOT)
    desk.write("tools.py", TOOLS)
    desk.write("hangs", "")
    db = f"sqlite:///{desk.folder}/bots.db"
    begin = [sys.executable, "-m", "llm_fsm"]
    options = ["bot.json", "--tools", "tools.py", "--db", db, "--model", "offline"]
    with subprocess.Popen([*begin, "run", *options, "--id", "c"], cwd=desk.folder) as run:
        until((desk.folder / "ran").exists)
        run.kill()
    (desk.folder / "hangs").unlink()
    with subprocess.Popen(
        [*begin, "worker", *options, "--every", "0.2"], cwd=desk.folder
    ) as worker:
        until(lambda: records(desk.folder / "bots.db") == 2)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
    assert (desk.folder / "ran").read_text() == "xx"


def test_a_worker_needs_a_store_that_others_see(desk):
    desk.write("bot.json", BOT)
    done = desk.run("worker", "bot.json", "--db", "memory")
    assert (done.code, "nobody else sees --db memory" in done.err) == (2, True)


def test_a_worker_without_the_functions_of_a_definition_says_so(desk):
    desk.write("bot.json", BOT)
    done = desk.run("worker", "bot.json", "--db", f"sqlite:///{desk.folder}/bots.db")
    assert (done.code, "slow" in done.err) == (2, True)
