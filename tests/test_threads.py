from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref

import pytest

from llm_fsm.threads import in_thread

pytestmark = pytest.mark.anyio
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who")


async def test_a_function_runs_in_a_daemon_thread_with_the_callers_context():
    WHO.set("me")
    thread, who = await in_thread(lambda: (threading.current_thread(), WHO.get()), "worker")
    assert (thread.daemon, thread.name, who) == (True, "worker", "me")


async def _thread() -> threading.Thread:
    return await in_thread(threading.current_thread, "worker")


async def test_functions_one_after_another_run_in_one_thread_under_their_own_names():
    first, second = await _thread(), await in_thread(threading.current_thread, "another")
    assert (first, second.name) == (second, "another")


async def test_functions_at_the_same_time_run_in_threads_of_their_own():
    met = threading.Barrier(3, timeout=30)
    await asyncio.gather(*(in_thread(met.wait, "worker") for _ in range(3)))


async def test_a_thread_that_has_nothing_to_do_ends_and_another_one_takes_its_place(monkeypatch):
    monkeypatch.setattr("llm_fsm.threads._PATIENCE", 0.01)
    first = await _thread()
    await asyncio.to_thread(first.join, 30)
    assert not first.is_alive()
    assert await _thread() is not first


async def test_a_thread_keeps_nothing_of_the_function_that_it_called():
    class Value:
        """What can be looked for."""

    value = Value()
    found = weakref.ref(value)
    await in_thread(lambda value=value: None, "worker")
    del value
    await _thread()  # the same thread: it is done with what came before
    gc.collect()
    assert found() is None


def test_a_forked_child_has_threads_of_its_own():
    script = """
import asyncio, os
from llm_fsm.threads import in_thread

def work():
    return asyncio.run(asyncio.wait_for(in_thread(os.getpid, "worker"), 30))

assert work() == os.getpid()
child = os.fork()
if child == 0:
    os._exit(0 if work() == os.getpid() else 1)
assert work() == os.getpid()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", script], check=True, timeout=90)


@pytest.mark.parametrize(
    ("raised", "kind", "says"),
    [
        (ValueError("x"), ValueError, "x"),
        (StopIteration("x"), RuntimeError, "StopIteration: x"),
        (SystemExit(2), RuntimeError, "SystemExit: 2"),
        (KeyboardInterrupt("x"), KeyboardInterrupt, "x"),
    ],
)
async def test_what_it_raises_is_raised_to_the_caller(raised, kind, says):
    def work() -> None:
        raise raised

    with pytest.raises(kind, match=says):
        await in_thread(work, "worker")


async def test_a_caller_that_is_cancelled_waits_no_longer():
    release = threading.Event()
    task = asyncio.create_task(in_thread(lambda: release.wait(60), "worker"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()


def test_a_thread_that_ends_after_its_loop_is_silent():
    release = threading.Event()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await in_thread(lambda: release.wait(60), "straggler")

    asyncio.run(leave())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "straggler"]
    release.set()
    thread.join(5)
    assert not thread.is_alive()
