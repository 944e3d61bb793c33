"""One event loop in a background thread, to which other threads give work."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import sys
import threading
import time
import types
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from llm_fsm.engine.portal import Portal
from llm_fsm.errors import ConfigurationError

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


@pytest.fixture
def portal() -> Iterator[Portal]:
    made = Portal()
    yield made
    made.stop(nothing())


async def nothing() -> None:
    """Work that is done as soon as it is begun."""


async def thread() -> int:
    return threading.get_ident()


async def thread_after(seconds: float) -> tuple[int, int]:
    before = threading.get_ident()
    await asyncio.sleep(seconds)
    return before, threading.get_ident()


def test_what_fails_is_raised_where_it_was_asked_for(portal: Portal) -> None:
    async def failing(seconds: float | None) -> None:
        if seconds is not None:
            await asyncio.sleep(seconds)
        raise ValueError("no")

    for seconds in (None, 0, 0.001):
        with pytest.raises(ValueError, match="no"):
            portal.run(failing(seconds))


def test_work_sees_the_context_variables_of_its_caller(portal: Portal) -> None:
    async def name(seconds: float | None) -> str:
        if seconds is not None:
            await asyncio.sleep(seconds)
        return NAME.get()

    token = NAME.set("Ada")
    try:
        assert [portal.run(name(seconds)) for seconds in (None, 0.001, 0.001)] == ["Ada"] * 3
    finally:
        NAME.reset(token)
    assert portal.run(name(None)) == "nobody"


def interrupted(portal: Portal, work: Callable[[], Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        portal.run(work())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert portal.run(thread_after(0.001))


def test_an_interrupt_that_the_system_gave_to_another_thread_ends_the_wait(portal: Portal) -> None:
    asked, cancelled = threading.Event(), threading.Event()

    async def hang() -> None:
        asked.set()
        try:
            await asyncio.sleep(600)
        finally:
            cancelled.set()

    def meddle() -> None:
        asked.wait()
        time.sleep(0.05)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    meddler = threading.Thread(target=meddle)
    meddler.start()
    interrupted(portal, hang)
    meddler.join()
    assert cancelled.is_set()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_stops_an_interpreter_reaches_the_caller_alone(
    portal: Portal, kind: type[BaseException]
) -> None:
    async def leave(seconds: float | None) -> None:
        if seconds is not None:
            await asyncio.sleep(seconds)
        raise kind

    for seconds in (None, 0.001, 0.001):
        with pytest.raises(kind):
            portal.run(leave(seconds))
    assert portal.run(thread_after(0.001))


@pytest.mark.parametrize("seconds", [None, 0.001])
def test_work_that_waits_for_its_own_portal_is_told_so(
    portal: Portal, seconds: float | None
) -> None:
    async def within() -> None:
        if seconds is not None:
            await asyncio.sleep(seconds)
        portal.run(nothing())

    with pytest.raises(
        RuntimeError, match="waits for the machine that waits for it; await AsyncMachine there"
    ):
        portal.run(within())


def test_work_of_all_threads_is_done_in_the_thread_of_the_portal(portal: Portal) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(lambda _: portal.run(thread()), range(8))} == {portal._thread.ident}


def test_coroutine_of_another_loop_that_calls_goes_on_in_its_own(portal: Portal) -> None:
    async def failing() -> None:
        raise ValueError("no")

    async def main() -> int:
        running, task = asyncio.get_running_loop(), asyncio.current_task()
        portal.run(thread_after(0.001))
        with pytest.raises(ValueError, match="no"):
            portal.run(failing())
        assert asyncio.get_running_loop() is running
        assert asyncio.current_task() is task
        return threading.get_ident()

    assert asyncio.run(main()) == threading.get_ident()


def interrupt_when(event: threading.Event, times: int = 1) -> threading.Thread:
    def meddle() -> None:
        event.wait()
        for _ in range(times):
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

    meddler = threading.Thread(target=meddle)
    meddler.start()
    return meddler


def test_interrupt_cancels_work_that_then_clears_up(portal: Portal) -> None:
    met: list[str] = []
    begun = threading.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.sleep(30)
            met.append("waited")
        finally:
            await asyncio.sleep(0.01)
            met.append("cleared up")

    meddler = interrupt_when(begun)
    interrupted(portal, work)
    meddler.join()
    assert met == ["cleared up"]


def test_second_interrupt_does_not_wait_for_the_work(portal: Portal) -> None:
    begun, over = threading.Event(), threading.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.5)
            over.set()

    meddler = interrupt_when(begun, times=2)
    interrupted(portal, work)
    assert not over.is_set()
    meddler.join()
    assert over.wait(5)


def test_handler_of_the_host_is_left_alone(portal: Portal) -> None:
    met: list[int] = []
    begun = threading.Event()
    before = signal.signal(signal.SIGINT, lambda number, _: met.append(number))
    try:

        async def work() -> str:
            begun.set()
            await asyncio.sleep(0.2)
            return "done"

        meddler = interrupt_when(begun)
        assert portal.run(work()) == "done"
        meddler.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert met == [signal.SIGINT]


def test_error_of_a_handler_of_the_host_is_no_fault_of_the_work(portal: Portal) -> None:
    class Late(Exception):
        pass

    met: list[str] = []

    def late(*_: object) -> None:
        raise Late

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(5)
        except Exception:
            met.append("took it for its own")
        finally:
            await asyncio.sleep(0.001)
            met.append("cleared up")

    before = signal.signal(signal.SIGUSR1, late)
    try:
        with pytest.raises(Late):
            portal.run(work())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert met == ["cleared up"]
    assert portal.run(thread_after(0.001))


def test_generator_is_closed_in_the_thread_of_the_portal() -> None:
    portal = Portal()
    closed: list[int] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append(threading.get_ident())

    async def first(some: AsyncIterator[int]) -> int:
        return await anext(some)

    kept, dropped = numbers(), numbers()
    assert [portal.run(first(kept)), portal.run(first(dropped))] == [1, 1]
    del dropped
    gc.collect()
    portal.run(thread_after(0.001))
    assert len(closed) == 1
    portal.stop(nothing())
    assert closed == [portal._thread.ident] * 2


def test_portal_that_is_stopped_by_its_own_work_ends() -> None:
    portal = Portal()

    async def stop() -> None:
        portal.stop(nothing())

    portal.run(stop())
    portal._thread.join(5)
    assert not portal._thread.is_alive()


def test_work_that_comes_while_the_portal_ends_is_let_go() -> None:
    portal = Portal()
    begun, ending = threading.Event(), threading.Event()

    async def lasting() -> None:
        try:
            begun.set()
            await asyncio.sleep(600)
        finally:
            ending.set()
            # a cancelled task that holds the loop's thread up, so that more comes meanwhile
            time.sleep(0.2)

    with ThreadPoolExecutor(3) as pool:
        held = pool.submit(portal.run, lasting())
        assert begun.wait(5)
        stopped = pool.submit(portal.stop, nothing())
        assert ending.wait(5)
        late = pool.submit(portal.run, thread_after(600))
        assert isinstance(held.exception(5), CancelledError)
        assert isinstance(late.exception(5), CancelledError)
        stopped.result(5)


def wake_ups(thread: int) -> int:
    """Return how often a thread of this process woke up by itself so far."""
    status = Path(f"/proc/self/task/{thread}/status").read_text(encoding="ascii")
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def test_a_waiting_thread_sleeps_until_its_work_is_done(portal: Portal) -> None:
    begun, done = threading.Event(), asyncio.Event()
    thread: list[int] = []

    async def lasting() -> None:
        begun.set()
        await done.wait()

    def wait() -> None:
        thread.append(threading.get_native_id())
        portal.run(lasting())

    async def finish() -> None:
        done.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert begun.wait(5)
    time.sleep(0.2)  # the thread goes to sleep
    before = wake_ups(thread[0])
    time.sleep(1.2)
    assert wake_ups(thread[0]) == before
    portal.run(finish())
    waiting.join(5)
    assert not waiting.is_alive()


def test_work_for_a_stopped_portal_is_refused_and_closed() -> None:
    portal = Portal()
    portal.stop(nothing())
    work = nothing()
    with pytest.raises(RuntimeError, match="this machine is closed; make another one"):
        portal.run(work)
    assert work.cr_frame is None  # nobody is warned of work that was never awaited


@pytest.mark.parametrize(
    ("library", "module", "asks", "what"),
    [
        ("gevent", "gevent.monkey", "is_module_patched", "threading"),
        ("gevent", "gevent.monkey", "is_module_patched", "select"),
        ("eventlet", "eventlet.patcher", "is_monkey_patched", "thread"),
    ],
)
def test_patched_threads_are_refused_with_a_way_out(
    library: str, module: str, asks: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    patched: dict[str, bool] = {}
    monkeypatch.setitem(
        sys.modules, module, types.SimpleNamespace(**{asks: lambda name: patched.get(name, False)})
    )
    Portal().stop(nothing())
    patched[what] = True
    with pytest.raises(
        ConfigurationError, match=f"^{library} has patched threads, .*gunicorn -k gthread"
    ):
        Portal()
