"""What a forked child does not take over: handles that would keep what a dead parent had locked, and open databases.

`os.register_at_fork` never forgets, so it is told once and not with every store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_leaving: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()
_resting: WeakKeyDictionary[Any, Callable[[Any], AbstractContextManager[None]]] = WeakKeyDictionary()
_forking = RLock()
"""Held by a thread from before its fork to after it, in both processes."""
_rests = ExitStack()


def leave_in_children(holder: T, leave: Callable[[T], None]) -> None:
    """Have every forked child call `leave(holder)`, as long as there is a holder."""
    _watch()
    _leaving[holder] = leave


def rest_in_forks(holder: T, resting: Callable[[T], AbstractContextManager[None]]) -> None:
    """Have every fork happen within `resting(holder)`, as long as there is a holder; it ends in both processes."""
    _watch()
    with _forking:
        _resting[holder] = resting


@cache
def _watch() -> None:
    if hasattr(os, "register_at_fork"):  # where processes fork
        os.register_at_fork(before=_rest, after_in_parent=_go_on, after_in_child=_begin)


def _rest() -> None:
    _forking.acquire()
    for holder, resting in tuple(_resting.items()):
        _rests.enter_context(resting(holder))


def _go_on() -> None:
    _rests.close()
    _forking.release()


def _begin() -> None:
    _go_on()
    for holder, leave in tuple(_leaving.items()):
        leave(holder)
