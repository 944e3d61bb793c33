"""Small helpers for waiting: time-outs, and plain functions called from asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

from llm_fsm.errors import told

T = TypeVar("T")


def is_async(function: Callable[..., Any]) -> bool:
    """True for a function whose call gives something to await."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - looked up as a call does
    )


async def in_thread(function: Callable[[], T], name: str) -> T:
    """Call a plain function in a daemon thread, so that one that hangs holds up nothing, not even the exit.

    What it raises is raised here; what is neither an Exception nor KeyboardInterrupt, and StopIteration, which no
    future can carry, becomes RuntimeError. A cancelled caller leaves the thread to itself.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(function)
        except StopIteration as raised:
            error = RuntimeError(f"StopIteration: {raised}")
        except (Exception, KeyboardInterrupt) as raised:
            error = raised
        except BaseException as raised:
            error = RuntimeError(told(raised))
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future


def is_cancelled() -> bool:
    """True where the running task itself was cancelled: a CancelledError may also come out of what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def at_home() -> None:
    """Go on in the thread of the running loop, if another borrows it: see `llm_fsm.engine.portal`.

    For what hosts write: a connection or a lock that it holds while it waits may belong to one thread.
    """
    take_back: Callable[[], bool] | None = getattr(asyncio.get_running_loop(), "take_back", None)
    if take_back is not None and take_back():
        await asyncio.sleep(0)


class OutOfPatience(Exception):
    """The time is over; a TimeoutError that the coroutine raises itself is not this."""


async def in_time(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What a coroutine returns within so many seconds. Raises OutOfPatience when it has been cancelled instead."""
    began = time.monotonic()
    try:
        waiting = work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    try:
        async with asyncio.timeout(seconds - (time.monotonic() - began)) as timer:
            return await _resumed(work, waiting)
    except TimeoutError as error:
        if timer.expired():
            raise OutOfPatience from error
        raise


@types.coroutine
def _resumed(work: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """The rest of a coroutine that has stopped to wait for `waiting`."""
    try:
        while True:
            try:
                sent = yield waiting
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                waiting = work.throw(error)
            else:
                waiting = work.send(sent)
    except StopIteration as done:
        found: T = done.value
        return found


def in_words(seconds: float) -> str:
    """A number of seconds as people read it: `1.5`, `120`, `1200`."""
    return f"{seconds:.3g}" if seconds < 1000 else f"{seconds:.0f}"
