"""Where a process may die: named points of a turn, and stores that pass by them.

The product has no hooks for this: the store, the model, the tools and the client of the test pass
the points.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from llm_fsm.stores.sqlite import SQLiteStore


class Probe:
    """Kills this process when the point `name` is passed for the `number`-th time; never without a
    name.
    """

    def __init__(self, name: str = "", number: int = 1) -> None:
        self._name = name
        self._left = number

    def __call__(self, name: str) -> None:
        """Pass a point."""
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


STORE_METHODS = ("load", "save", "journal", "journalled", "outbox", "acknowledge")
POINTS = (
    *(f"{when} {name}" for name in STORE_METHODS for when in ("before", "after")),
    *(
        f"{when} {what}"
        for what in ("the model", "charge", "stamp", "hear", "enter", "close", "the sink")
        for when in ("before", "after")
    ),
    *("before sending", "before the acknowledgement", "after the acknowledgement", "with the lock"),
)
SQLITE_POINTS = ("in the transaction",)


class Probed:
    """A store whose calls pass the points before and after each."""

    def __init__(self, store: Any, probe: Probe) -> None:
        self._store = store
        self._probe = probe

    def lock(self, conversation_id: str, timeout: float | None = None) -> Any:
        """The lock of the store, with a point inside."""
        return _Locked(self._store.lock(conversation_id, timeout), self._probe)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in STORE_METHODS:
            return found

        async def passing(*given: Any, **named: Any) -> Any:
            self._probe(f"before {name}")
            result = await found(*given, **named)
            self._probe(f"after {name}")
            return result

        return passing


class _Locked:
    def __init__(self, lock: Any, probe: Probe) -> None:
        self._lock = lock
        self._probe = probe

    async def __aenter__(self) -> None:
        await self._lock.__aenter__()
        self._probe("with the lock")

    async def __aexit__(self, *error: Any) -> None:
        await self._lock.__aexit__(*error)


class ProbedSQLite(SQLiteStore):
    """The SQLite store with a point between what a transaction writes and its commit."""

    probe: Probe

    def _new_parts(self) -> Any:
        parts = super()._new_parts()
        serve = parts.turns.files.serve

        def served(together: Any, values: Any, *, writes: bool) -> Any:
            def passing(*given: Any) -> Any:
                outcomes = together(*given)
                self.probe("in the transaction")
                return outcomes

            return serve(passing if writes else together, values, writes=writes)

        parts.turns.files.serve = served
        return parts
