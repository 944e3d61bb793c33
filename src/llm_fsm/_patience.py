"""Waiting for a coroutine for so many seconds, without the price of a timer where nothing has to be waited for.

A model in this process, or an answer that is known already, comes with the first step; only a coroutine that
stops to wait gets a timer.
"""

from __future__ import annotations

import asyncio
import time
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


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
