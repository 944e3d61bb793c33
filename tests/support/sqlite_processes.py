"""What other processes do in the tests of the SQLite store: `python sqlite_processes.py ROLE PATH
…`.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from pathlib import Path

from llm_fsm.errors import StoreError
from llm_fsm.stores.base import Commit
from llm_fsm.stores.sqlite import SQLiteStore

NOBODY = 65534


def say(text):
    print(text, flush=True)


def turn(number, size=3000):
    body = json.dumps({"turn": number, "fill": str(number % 10) * size})
    return Commit(
        conversation_id="c", expected=number - 1, session=body, record=body, request_id=f"r{number}"
    )


async def attempt(action, reports=say):
    try:
        await action
    except StoreError as error:
        reports(f"StoreError {error}")
    else:
        reports("fine")


async def hold(path):
    """Take the lock and keep it until killed."""
    async with SQLiteStore(path).lock("c"):
        say("held")
        await asyncio.Event().wait()


async def add(path, times):
    """Add one to the session, so many times, always under the lock."""
    store = SQLiteStore(path)
    for _ in range(int(times)):
        async with store.lock("c", timeout=60):
            loaded = await store.load("c")
            version, total = (0, 0) if loaded is None else (loaded.version, int(loaded.session))
            await store.save(
                Commit(conversation_id="c", expected=version, session=str(total + 1), record="")
            )
    await store.close()


async def save_for_ever(path):
    """Save turn after turn, saying each number once it is saved."""
    store = SQLiteStore(path)
    number = 0
    while True:
        number += 1
        await store.save(turn(number))
        say(number)


async def fill(path, limit):
    """Save under a file size limit until that fails; then read, lift the limit, and save again."""
    soft, hard = int(limit), resource.RLIM_INFINITY
    store = SQLiteStore(path)
    await store.save(turn(1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    number, errors = 1, []
    while not errors and number < 1000:
        number += 1
        await attempt(
            store.save(turn(number)), lambda text: errors.append(text) if text != "fine" else None
        )
    loaded = await store.load("c")
    say(errors[0])
    say(f"kept {loaded.version == number - 1}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await attempt(store.save(turn(number)))
    say(f"goes on {(await store.load('c')).version == number}")
    await store.close()


async def as_nobody(path, action):
    """Load or save without any privilege."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresuid(NOBODY, NOBODY, NOBODY)
    store = SQLiteStore(path)
    if action == "load":
        say((await store.load("c")).session)
    elif action == "lock":
        async with store.lock("c"):
            say("held")
    else:
        loaded = await store.load("c") if action == "save" else None
        await store.save(turn(loaded.version + 1 if loaded else 1))


async def fork(path):
    """Use a store, fork, use it in both, and say what both saw."""
    store = SQLiteStore(path)
    await store.save(turn(1))
    child = os.fork()
    if child == 0:
        os._exit(in_child(store))
    await asyncio.to_thread(os.waitpid, child, 0)
    say((await store.load("c")).version)
    await store.save(turn(3))
    say((await store.load("c")).version)


def in_child(store):
    async def go():
        async with store.lock("c", timeout=10):
            await store.save(turn(2))
        await store.close()
        return 0

    asyncio._set_running_loop(None)
    return asyncio.run(go())


async def fork_and_close(path):
    """Fork, close the parent's store between two turns of the child's, and say what is in the file
    then.
    """
    store = SQLiteStore(path)
    await store.save(turn(1))
    (child_reads, goes_on), (parent_reads, saved) = os.pipe(), os.pipe()

    async def go():
        await store.save(turn(2))
        os.write(saved, b"2")
        os.read(child_reads, 1)
        await store.save(turn(3))
        os._exit(0)

    child = os.fork()
    if child == 0:
        asyncio._set_running_loop(None)
        asyncio.run(go())
    await asyncio.to_thread(os.read, parent_reads, 1)
    await store.close()
    os.write(goes_on, b"3")
    await asyncio.to_thread(os.waitpid, child, 0)
    say((await SQLiteStore(path).load("c")).version)


async def fork_while_writing(path):
    """Fork while a transaction is under way, and say how the child fared."""
    store = SQLiteStore(path, busy_timeout=1.0)
    await store.save(turn(1))
    slow = asyncio.ensure_future(store._write(lambda _: time.sleep(0.5)))
    await asyncio.sleep(0.1)
    child = os.fork()
    if child == 0:
        os._exit(in_child(store))
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    await slow
    say(f"child {status}, version {(await store.load('c')).version}")


async def fork_and_hold(path):
    """Fork while holding the lock; the child idles on, the parent is killed."""
    store = SQLiteStore(path)
    async with store.lock("c"):
        child = os.fork()
        if child == 0:
            Path("/proc/self/fd/0").exists()
            sys.stdin.read()
            os._exit(0)
        say("held")
        await asyncio.Event().wait()


async def use_and_leave(path):
    """Use a store and end without closing it."""
    await SQLiteStore(path).save(turn(1))
    say("saved")


ROLES = {
    role.__name__: role
    for role in (
        *(hold, add, save_for_ever, fill, as_nobody),
        *(fork, fork_and_close, fork_while_writing, fork_and_hold, use_and_leave),
    )
}

if __name__ == "__main__":
    try:
        asyncio.run(ROLES[sys.argv[1]](*sys.argv[2:]))
    except StoreError as error:
        say(f"StoreError {error}")
