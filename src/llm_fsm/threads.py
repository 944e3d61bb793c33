"""Calling plain functions from asyncio without waiting for ones that hang."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
_Job: TypeAlias = Callable[[], Callable[[], object]]
"""What does something, and gives what tells of it."""
_PATIENCE = 1.0
"""Seconds after which a thread for which there is nothing to do ends."""
_idle: dict[_Worker, None] = {}
"""Threads that wait for the next function: having it called there takes half as long as beginning a thread for it."""


class _Worker(threading.Thread):
    """A daemon thread that calls one function after another, and ends when no other comes."""

    def __init__(self, job: _Job, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._jobs.put(job)

    def run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_PATIENCE)
            except Empty:
                if _idle.pop(self, self) is None:
                    return
                job = self._jobs.get()  # taken in this moment, so that there is one
            tell = job()
            _idle[self] = None  # before anyone can know that it is
            tell()
            del job, tell  # and all that hangs on them, while nothing comes

    def call(self, job: _Job, name: str) -> None:
        self.name = name
        self._jobs.put(job)


def _begin(job: _Job, name: str) -> None:
    """Call a function in a thread that has nothing to do, else in a new one."""
    while _idle:
        with contextlib.suppress(KeyError):  # another thread was quicker
            worker, _ = _idle.popitem()
            if worker.is_alive():  # else this is a forked child, and it was the parent's
                worker.call(job, name)
                return
    _Worker(job, name).start()


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

    def work() -> Callable[[], None]:
        value: Any = None
        error: BaseException | None = None
        try:
            value = context.run(function)
        except StopIteration as raised:
            error = RuntimeError(f"StopIteration: {raised}")
        except (Exception, KeyboardInterrupt) as raised:
            error = raised
        except BaseException as raised:
            error = RuntimeError(f"{type(raised).__name__}: {raised}")

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
                loop.call_soon_threadsafe(settle, value, error)

        return tell

    _begin(work, name)
    return await future


async def at_home() -> None:
    """Go on in the thread of the running loop, if another borrows it: see `llm_fsm.loops`.

    For what hosts write: a connection or a lock that it holds while it waits may belong to one thread.
    """
    take_back: Callable[[], bool] | None = getattr(asyncio.get_running_loop(), "take_back", None)
    if take_back is not None and take_back():
        await asyncio.sleep(0)
