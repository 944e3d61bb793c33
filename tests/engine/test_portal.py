"""An event loop in a thread of its own, which other threads borrow while it waits."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import selectors
import signal
import threading
import time
import types
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest

from llm_fsm._async import at_home
from llm_fsm.engine.portal import Loop, _Letting

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME", default="nobody")


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    settle(made)
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


def settle(made: Loop) -> None:
    """Wait until the loop's thread waits for input."""
    for _ in range(1000):

        async def probe() -> int:
            return threading.get_ident()

        if made.run(probe()) == threading.get_ident():
            return
        made._waiting.clear()
        time.sleep(0.001)
    pytest.fail("the loop never let itself be borrowed")


def test_work_that_waits_for_nothing_is_done_in_the_callers_thread(loop: Loop) -> None:
    assert loop.run(thread()) == threading.get_ident()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(loop.run, thread()).result() == pool.submit(threading.get_ident).result()


def test_work_that_waits_goes_on_in_the_loops_thread_and_work_of_its_kind_begins_there(loop: Loop) -> None:
    begun, ended = loop.run(thread_after(0.001))
    assert begun == threading.get_ident() != ended
    assert loop.run(thread_after(0.001)) == (ended, ended)
    beginnings = [loop.run(thread_after(0.0005))[0] for _ in range(32)]
    assert beginnings.count(threading.get_ident()) in (1, 2)  # its thread may still be on its way back


def test_what_fails_is_raised_where_it_was_asked_for(loop: Loop) -> None:
    async def failing(seconds: float | None) -> None:
        if seconds is not None:
            await asyncio.sleep(seconds)
        raise ValueError("no")

    for seconds in (None, 0, 0.001):
        with pytest.raises(ValueError, match="no"):
            loop.run(failing(seconds))


def test_what_is_left_for_later_is_done_by_the_loops_thread(loop: Loop) -> None:
    """Its thread waits without a limit of time when the work begins in another one."""
    met: dict[str, Any] = {}
    done = threading.Event()

    async def later(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        met[name] = threading.get_ident()
        if len(met) == 3:
            done.set()

    async def leave() -> None:
        running = asyncio.get_running_loop()
        met["tasks"] = [asyncio.create_task(later("soon", 0)), asyncio.create_task(later("timed", 0.01))]
        running.call_soon(int)

    loop.run(leave())
    assert done.wait(5)
    assert threading.get_ident() not in (met["soon"], met["timed"])


def test_work_that_turns_in_a_circle_meets_what_the_loops_thread_does(loop: Loop) -> None:
    async def circle() -> int:
        other = asyncio.create_task(asyncio.to_thread(threading.get_ident))
        until = time.monotonic() + 20
        while not other.done() and time.monotonic() < until:
            await asyncio.sleep(0)
        assert other.done()
        return other.result()

    assert loop.run(circle()) != threading.get_ident()


def test_work_that_keeps_to_one_thread_goes_on_in_the_loops(loop: Loop) -> None:
    async def work() -> list[int]:
        threads = [threading.get_ident()]
        await at_home()
        threads.append(threading.get_ident())
        await asyncio.sleep(0.001)
        return [*threads, threading.get_ident()]

    begun, held, ended = loop.run(work())
    assert begun == threading.get_ident() != held == ended


def test_an_event_of_a_file_that_was_closed_meanwhile_is_not_taken_for_its_successors() -> None:
    reading, writing = os.pipe()

    class Lock:
        def release(self) -> None:
            """Where the loop may be borrowed."""

        def acquire(self) -> None:
            if selector.get_key(reading).data == "first":
                selector.unregister(reading)
                selector.register(reading, selectors.EVENT_READ, "second")

    with _Letting(Lock()) as selector:  # type: ignore[arg-type]
        selector.register(reading, selectors.EVENT_READ, "first")
        os.write(writing, b"x")
        assert [selector.select(0), [key.data for key, _ in selector.select(0)]] == [[], ["second"]]
    os.close(reading)
    os.close(writing)


def test_a_callback_that_was_taken_back_is_not_called(loop: Loop) -> None:
    called: list[str] = []

    async def work() -> None:
        running = asyncio.get_running_loop()
        running.call_soon(called.append, "no").cancel()
        running.call_soon(called.append, "yes")
        await asyncio.sleep(0)

    loop.run(work())
    loop.run(nothing())
    assert called == ["yes"]


def test_work_sees_the_context_variables_of_its_caller(loop: Loop) -> None:
    async def name(seconds: float | None) -> str:
        if seconds is not None:
            await asyncio.sleep(seconds)
        return NAME.get()

    token = NAME.set("Ada")
    try:
        assert [loop.run(name(seconds)) for seconds in (None, 0.001, 0.001)] == ["Ada"] * 3
    finally:
        NAME.reset(token)
    assert loop.run(name(None)) == "nobody"


def test_a_coroutine_that_calls_waits_in_the_middle_of_its_task(loop: Loop) -> None:
    async def failing() -> None:
        raise ValueError("no")

    async def main() -> int:
        running, task = asyncio.get_running_loop(), asyncio.current_task()
        here = loop.run(thread())
        loop.run(thread_after(0.001))
        with pytest.raises(ValueError, match="no"):
            loop.run(failing())
        assert asyncio.get_running_loop() is running
        assert asyncio.current_task() is task
        return here

    assert asyncio.run(main()) == threading.get_ident()


def test_an_interrupt_of_a_program_of_asyncio_is_answered_by_asyncio(loop: Loop) -> None:
    """It cancels its own task at its next `await`; what was asked of the machine before is done."""
    met: list[object] = []

    async def work() -> str:
        met.append(threading.get_ident())
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0.001)
        return "done"

    async def main() -> None:
        met.append(loop.run(work()))
        await asyncio.sleep(5)
        met.append("went on")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert met == [threading.get_ident(), "done"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_thread_is_given_back_as_it_was(loop: Loop) -> None:
    loop.run(nothing())
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert asyncio.run(thread()) == threading.get_ident()


def test_two_threads_never_run_callbacks_at_the_same_time(loop: Loop) -> None:
    at_work: set[int] = set()
    seen: set[int] = set()
    most = 0

    async def work(pauses: int) -> None:
        nonlocal most
        for _ in range(pauses):
            at_work.add(threading.get_ident())
            seen.add(threading.get_ident())
            most = max(most, len(at_work))
            time.sleep(0.0001)  # lets the other threads try
            at_work.discard(threading.get_ident())
            await asyncio.sleep(0)

    def many(number: int) -> None:
        for turn in range(30):
            loop._waiting.clear()
            loop.run(work((number + turn) % 4))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(many, range(8)))
    assert most == 1
    assert len(seen) > 2


def interrupted(loop: Loop, work: Callable[[], Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert loop.run(thread_after(0.001))


def test_an_interrupt_in_the_callers_thread_cancels_work_that_then_clears_up(loop: Loop) -> None:
    met: list[str] = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            met.append("went on to where it waits")
            await asyncio.sleep(5)
            met.append("waited")
        finally:
            await asyncio.sleep(0.001)
            met.append("cleared up")

    interrupted(loop, work)
    assert met == ["went on to where it waits", "cleared up"]


def test_an_interrupt_of_work_that_ends_is_not_lost(loop: Loop) -> None:
    async def work() -> None:
        signal.raise_signal(signal.SIGINT)

    interrupted(loop, work)


def test_an_interrupt_that_the_system_gave_to_another_thread_ends_the_wait(loop: Loop) -> None:
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
    interrupted(loop, hang)
    meddler.join()
    assert cancelled.is_set()


def test_a_second_interrupt_does_not_wait_for_the_work(loop: Loop) -> None:
    met: list[str] = []

    async def work() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        met.append("went on")

    interrupted(loop, work)
    assert met == []


def test_a_handler_of_the_host_is_left_alone(loop: Loop) -> None:
    met: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: met.append(number))
    try:

        async def work() -> str:
            signal.raise_signal(signal.SIGINT)
            return "done"

        assert loop.run(work()) == "done"
    finally:
        signal.signal(signal.SIGINT, before)
    assert met == [signal.SIGINT]


def test_a_second_interrupt_does_not_come_between_callbacks(loop: Loop) -> None:
    """There it would lose one that was taken up and not yet run."""
    met: list[str] = []

    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    async def work() -> None:
        try:
            types.FunctionType(twice.__code__, {"__name__": "asyncio.events", "signal": signal})()
            met.append("went on")
            await asyncio.sleep(5)
        finally:
            await asyncio.sleep(0.001)
            met.append("cleared up")

    interrupted(loop, work)
    assert met == ["went on", "cleared up"]


def test_what_a_handler_of_the_host_raises_is_no_fault_of_the_work(loop: Loop) -> None:
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
            loop.run(work())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert met == ["cleared up"]
    assert loop.run(thread_after(0.001))


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_stops_an_interpreter_reaches_the_caller_alone(loop: Loop, kind: type[BaseException]) -> None:
    async def leave(seconds: float | None) -> None:
        if seconds is not None:
            await asyncio.sleep(seconds)
        raise kind

    for seconds in (None, 0.001, 0.001):
        with pytest.raises(kind):
            loop.run(leave(seconds))
    assert loop.run(thread_after(0.001))


def test_a_generator_that_is_begun_in_the_callers_thread_is_closed_in_the_loops() -> None:
    loop = Loop()
    settle(loop)
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
    assert [loop.run(first(kept)), loop.run(first(dropped))] == [1, 1]
    del dropped
    gc.collect()
    loop.run(thread_after(0.001))
    assert len(closed) == 1
    loop.stop(nothing())
    assert len(closed) == 2
    assert threading.get_ident() not in closed


def test_a_loop_ends_that_is_stopped_by_its_own_work_in_the_callers_thread() -> None:
    loop = Loop()
    settle(loop)

    async def stop() -> int:
        loop.stop(nothing())
        return threading.get_ident()

    assert loop.run(stop()) == threading.get_ident()
    loop._thread.join(5)
    assert not loop._thread.is_alive()


@pytest.mark.parametrize("seconds", [None, 0.001])
def test_work_that_waits_for_its_own_loop_is_told_so(loop: Loop, seconds: float | None) -> None:
    async def within() -> None:
        if seconds is not None:
            await asyncio.sleep(seconds)
        loop.run(nothing())

    with pytest.raises(RuntimeError, match="waits for the machine that waits for it; await AsyncMachine there"):
        loop.run(within())


def test_a_loop_of_another_policy_is_not_borrowed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(asyncio.SelectorEventLoop):
        """As a faster one would be."""

    monkeypatch.setattr(asyncio, "new_event_loop", Other)
    loop = Loop()
    try:
        assert {loop.run(thread()) for _ in range(3)} & {threading.get_ident()} == set()
    finally:
        loop.stop(nothing())


def test_a_loop_that_is_debugged_is_not_borrowed(loop: Loop) -> None:
    async def debug() -> None:
        asyncio.get_running_loop().set_debug(True)

    loop.run(debug())
    assert loop.run(thread()) != threading.get_ident()


def test_work_that_comes_while_the_loop_ends_is_let_go() -> None:
    loop = Loop()
    settle(loop)
    ending = threading.Event()

    async def lasting() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ending.set()
            time.sleep(0.2)  # a cancelled task that holds the loop's thread up, so that more comes meanwhile

    with ThreadPoolExecutor(3) as pool:
        held = pool.submit(loop.run, lasting())
        while not loop._waited:
            time.sleep(0.001)
        stopped = pool.submit(loop.stop, nothing())
        assert ending.wait(5)
        late = pool.submit(loop.run, thread_after(600))
        assert isinstance(held.exception(5), CancelledError)
        assert isinstance(late.exception(5), CancelledError)
        stopped.result(5)


def test_a_loop_that_is_stopped_in_the_middle_of_work_in_the_callers_thread_ends() -> None:
    made = Loop()
    settle(made)
    freed = threading.Event()

    async def free() -> None:
        freed.set()

    async def work() -> int:
        made.stop(free())
        return threading.get_ident()

    found: list[int] = []
    caller = threading.Thread(target=lambda: found.append(made.run(work())), daemon=True)
    caller.start()
    caller.join(30)
    assert found == [caller.ident]
    assert freed.wait(30)
    made._thread.join(30)
    assert not made._thread.is_alive()


def test_work_that_comes_at_the_moment_in_which_the_loop_is_closed_is_told_so() -> None:
    closed = Loop()
    closed.stop(nothing())
    looks = iter([False])  # what the caller saw a moment before
    closed._loop.is_closed = lambda: next(looks, True)
    work = nothing()
    with pytest.raises(RuntimeError, match="this machine is closed; make another one"):
        closed.run(work)
    assert work.cr_frame is None  # nobody is warned of work that was never awaited
