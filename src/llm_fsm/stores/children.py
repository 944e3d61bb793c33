"""What a forked child lets go of at once: its copies of handles would keep what a dead parent had locked.

`os.register_at_fork` never forgets, so it is told once and not with every store.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

_leaving: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def leave_in_children(holder: T, leave: Callable[[T], None]) -> None:
    """Have every forked child call `leave(holder)`, as long as there is a holder."""
    _watch()
    _leaving[holder] = leave


@cache
def _watch() -> None:
    if hasattr(os, "register_at_fork"):  # where processes fork
        os.register_at_fork(after_in_child=_leave)


def _leave() -> None:
    for holder, leave in tuple(_leaving.items()):
        leave(holder)
