"""Stop turns that are under way, in this process and in others on the same store.

A turn of another process is stopped by a note in the store: a journal of its own, beside that of
the conversation. Each process looks for notes about the turns that run in it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import Any

from llm_fsm import ConversationConflict, StoreError
from llm_fsm._text import sha256_of
from llm_fsm.engine.journal import mark_failed
from llm_fsm.records.stuck_turns import journal_entries
from llm_fsm.server.problems import Problem
from llm_fsm.stores.base import Store

LOOK_SECONDS = 0.5
"""Seconds between two looks for notes of other processes."""
WAIT_SECONDS = 10.0
"""Seconds within which a turn must stop. A store may take some of them to finish a write."""
_TRY_SECONDS = 0.1


def _note(stored: str) -> str:
    """Return the name of the journal that holds notes about the turns of a conversation."""
    return f"stop {sha256_of(stored)}"


def stopped() -> Problem:
    """Return the problem that the sender of a stopped message gets."""
    said = "the turn was stopped on request; nothing of it is kept, unless it was being saved at that moment"
    return Problem("cancelled", said)


class Stopping:
    """The turns that run in this process, by conversation, each with a function that stops it."""

    def __init__(self) -> None:
        self._running: dict[
            str, dict[object, tuple[Store, float, Callable[[Exception], None]]]
        ] = {}

    @asynccontextmanager
    async def running(self, store: Store, stored: str) -> AsyncGenerator[None]:
        """Let the current task be stopped. Then the error that it is stopped with is raised in it."""
        task = asyncio.current_task()
        assert task is not None
        reason = None

        def stop(error: Exception) -> None:
            nonlocal reason
            reason = error
            task.cancel()

        self.add(task, store, stored, stop)
        try:
            yield
        except asyncio.CancelledError:
            if reason is None:
                raise
            task.uncancel()
            raise reason from None
        finally:
            self.remove(task, stored)

    def add(
        self, turn: object, store: Store, stored: str, stop: Callable[[Exception], None]
    ) -> None:
        """Add a turn that runs. `stop` ends it, and gives its sender the error."""
        self._running.setdefault(stored, {})[turn] = (store, time.time(), stop)

    def remove(self, turn: object, stored: str) -> None:
        """Remove a turn that is over."""
        turns = self._running.get(stored, {})
        turns.pop(turn, None)
        if not turns:
            self._running.pop(stored, None)

    def tasks(self) -> set[asyncio.Task[Any]]:
        """Return the tasks that wait for their turn, whole, as requests without a stream do."""
        running = chain.from_iterable(self._running.values())
        return {turn for turn in running if isinstance(turn, asyncio.Task)}

    def stop_all(self, error: Exception) -> None:
        """Stop every turn that runs in this process. Its sender gets the error."""
        for stored in list(self._running):
            self._stop_here(stored, error)

    async def stop(self, store: Store, stored: str) -> bool:
        """Stop what is under way in a conversation.

        Args:
            store: The store of the conversation.
            stored: Its id there.

        Returns:
            True if nothing of it is kept; false if a turn was saved before it could be stopped.

        Raises:
            Problem: No turn is under way (409), or it did not stop in time (503).
        """
        before = await _version(store, stored)
        if not self._stop_here(stored, stopped()):
            if await _is_free(store, stored):
                raise ConversationConflict(
                    "no turn is under way in this conversation, so there is nothing to stop"
                )
            await store.journal(
                _note(stored), time.time_ns() // 1000, json.dumps({"time": time.time()})
            )
        try:
            await self._until_free(store, stored)
        finally:
            await store.forget_journal(_note(stored))
        return await _version(store, stored) == before

    async def look(self) -> None:
        """Stop the turns of this process about which another one left a note."""
        for stored, turns in list(self._running.items()):
            for store, began, stop in list(turns.values()):
                with suppress(StoreError):  # looked for again after a while
                    notes = await journal_entries(store, _note(stored))
                    if any(note["time"] >= began for note in notes):
                        stop(stopped())

    async def run(self, seconds: float = LOOK_SECONDS) -> None:
        """Look for notes until it is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            await self.look()

    def _stop_here(self, stored: str, error: Exception) -> bool:
        turns = list(self._running.get(stored, {}).values())
        for _, _, stop in turns:
            stop(error)
        return bool(turns)

    async def _until_free(self, store: Store, stored: str) -> None:
        """Wait until the turn has ended, and note in its journal that nobody has to finish it."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            try:
                async with store.lock(stored, LOOK_SECONDS):
                    await mark_failed(store, stored)
                    return
            except StoreError as error:
                if not error.retryable:
                    raise
        raise Problem("unavailable", "the turn did not stop in time; ask again")


async def _version(store: Store, stored: str) -> int:
    loaded = await store.load(stored)
    return 0 if loaded is None else loaded.version


async def _is_free(store: Store, stored: str) -> bool:
    """Return true if no process plays a turn of a conversation."""
    try:
        async with store.lock(stored, _TRY_SECONDS):
            return True
    except StoreError as error:
        if error.retryable:
            return False
        raise
