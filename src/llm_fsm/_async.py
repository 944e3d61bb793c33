"""Small helpers for waiting: time-outs, and plain functions called from asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Collection, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from llm_fsm.errors import told

T = TypeVar("T")


def is_async(function: Callable[..., Any]) -> bool:
    """Return true for a function whose call returns an awaitable."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - looked up as a call does
    )


async def in_thread(function: Callable[[], T], name: str) -> T:
    """Call a plain function in a daemon thread, so that a hanging one delays nothing, not even the
    exit.

    If the caller is cancelled, the thread continues alone.

    Args:
        function: The function; it sees the context variables of the caller.
        name: The name of the thread.

    Returns:
        The value of the function.

    Raises:
        RuntimeError: The function raised StopIteration, which no future can carry, or tried to end
            the program.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(function))
        except StopIteration as error:
            future.set_exception(RuntimeError(f"StopIteration: {error}"))
        except (Exception, KeyboardInterrupt) as error:
            future.set_exception(error)
        except BaseException as error:
            future.set_exception(RuntimeError(told(error)))

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(future)


def is_cancelled() -> bool:
    """Return true if the running task itself was cancelled, because a CancelledError may also come
    from an awaited one.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def cancel_all(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class DeadlineExceeded(Exception):
    """The time is over. A TimeoutError of the coroutine itself is another error."""


async def in_time(work: Awaitable[T], seconds: float) -> T:
    """Await for at most `seconds`. Raises DeadlineExceeded if the work was cancelled."""
    try:
        async with asyncio.timeout(seconds) as timer:
            return await work
    except TimeoutError as error:
        if timer.expired():
            raise DeadlineExceeded from error
        raise


def played(steps: Generator[Any, Any, T]) -> T | Awaitable[T]:
    """Run a generator that yields values or awaitables, and send back the value of each.

    Args:
        steps: The generator.

    Returns:
        Its result; an awaitable of it if an awaitable was among them.
    """
    found: Any = None
    try:
        while True:
            found = steps.send(found)
            if isinstance(found, Awaitable):
                return _awaited(steps, found)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _awaited(steps: Generator[Any, Any, T], found: Any) -> T:
    try:
        while True:
            found = steps.send(await found if isinstance(found, Awaitable) else found)
    except StopIteration as stop:
        result: T = stop.value
        return result


def in_words(seconds: float) -> str:
    """Write a number of seconds as people read it: `1.5`, `120`, `1200`."""
    return f"{seconds:.3g}" if seconds < 1000 else f"{seconds:.0f}"
