"""Turns that nobody finishes by itself: parked ones, and those that have failed for a day."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm_fsm._json import JsonMap
from llm_fsm.stores.base import Store, every_unfinished

VISIBLE_AFTER = 86_400.0
"""Seconds of errors after which a turn counts as stuck, and people are told."""
_MARKS = ("attempt", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckTurn:
    """A turn that waits for somebody.

    Attributes:
        conversation_id: The conversation.
        definition: The name of its definition; "" for a turn of an older version.
        parked: True if it ended too many processes; false if it has failed for a day.
        since: The time at which it was parked or first failed, in seconds since the epoch.
        error: Its last error; "" for a parked turn.
    """

    conversation_id: str
    definition: str
    parked: bool
    since: float
    error: str = ""

    def why(self) -> str:
        """Return a sentence that says what is wrong, and what helps."""
        if self.parked:
            return "one of its turns ended three processes and is parked: see to the cause, then retry it"
        return f"one of its turns has failed for a day: {self.error}"


async def stuck_turns(store: Store, now: float) -> Sequence[StuckTurn]:
    """Find the stuck turns of a store.

    Args:
        store: The store; it may be in use.
        now: The time, in seconds since the epoch.

    Returns:
        The turns: parked ones first, each kind by conversation id.

    Raises:
        StoreError: The store cannot be read.
    """
    found = []
    async for name in every_unfinished(store, parked=True):
        entries = await journal_entries(store, name)
        if entries:
            found.append(_stuck(name, entries, parked=True, since=entries[-1].get("time", now)))
    async for name in every_unfinished(store):
        entries = await journal_entries(store, name)
        errors = _last_errors(entries)
        if errors and errors[0]["time"] <= now - VISIBLE_AFTER:
            said = str(errors[-1].get("error", ""))
            found.append(_stuck(name, entries, parked=False, since=errors[0]["time"], error=said))
    return found


def _stuck(name: str, entries: Sequence[JsonMap], **facts: Any) -> StuckTurn:
    return StuckTurn(conversation_id=name, definition=entries[0].get("definition", ""), **facts)


async def journal_entries(store: Store, conversation_id: str) -> Sequence[JsonMap]:
    """Read the entries of a journal, in order."""
    return [json.loads(text) for text in await store.journalled(conversation_id)]


def _last_errors(entries: Sequence[JsonMap]) -> Sequence[JsonMap]:
    """Return the errors of the attempts since the last new result, in order."""
    errors: list[JsonMap] = []
    for entry in reversed(entries[1:]):
        if entry["kind"] not in _MARKS or entry.get("handed_back"):
            break
        if entry["kind"] == "error":
            errors.insert(0, entry)
    return errors
