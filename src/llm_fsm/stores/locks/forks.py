"""Callbacks of objects before and after forks of the process, as long as the objects live.

`os.register_at_fork` keeps its callbacks for ever, so it is called once and not for every object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_around: WeakKeyDictionary[Any, Callable[[Any], AbstractContextManager[None]]] = WeakKeyDictionary()
_forking = RLock()
"""Held by a thread from before its fork to after it, in both processes."""
_entered = ExitStack()


def around_forks(holder: T, within: Callable[[T], AbstractContextManager[None]]) -> None:
    """Run every fork within `within(holder)`, which ends in the parent and in the child."""
    _register()
    with _forking:
        _around[holder] = within


def in_forked_children(holder: T, leave: Callable[[T], None]) -> None:
    """Call `leave(holder)` in every forked child."""

    @contextmanager
    def within(holder: T) -> Iterator[None]:
        process = os.getpid()
        yield
        if os.getpid() != process:
            leave(holder)

    around_forks(holder, within)


@cache
def _register() -> None:
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)


def _before() -> None:
    _forking.acquire()
    for holder, within in tuple(_around.items()):
        _entered.enter_context(within(holder))


def _after() -> None:
    _entered.close()
    _forking.release()
