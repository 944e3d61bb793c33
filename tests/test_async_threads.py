from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from llm_fsm._async import in_thread

pytestmark = pytest.mark.anyio
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who")


async def test_a_function_runs_in_a_daemon_thread_with_the_callers_context():
    WHO.set("me")
    thread, who = await in_thread(lambda: (threading.current_thread(), WHO.get()), "worker")
    assert (thread.daemon, thread.name, who) == (True, "worker", "me")


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
