"""The journal of one turn: results that came back, so that a turn begun again does nothing twice.

A turn that runs handlers writes every result down as it arrives. After a crash the same message begins the
turn again; results that are written down are read instead of fetched. The first entry is the message itself;
a different message makes the journal void.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from llm_fsm.course import Heard
from llm_fsm.effects import HandlerResult
from llm_fsm.messages import ModelReply
from llm_fsm.stores.base import Store

Entry = Mapping[str, Any]


class Journal:
    """Results of the turn under way, read while there are any, then written."""

    def __init__(self, store: Store, conversation_id: str) -> None:
        self._store = store
        self._id = conversation_id
        self._known: list[Entry] = []
        self._step = 0

    async def open(self, heard: Heard) -> Heard:
        """Begin or take up a turn. Gives the message with the time at which it was first heard."""
        entries = [json.loads(text) for text in await self._store.journalled(self._id)]
        same = ("request_id", "text")
        if entries and all(entries[0].get(name) == getattr(heard, name) for name in same):
            self._known = entries[1:]
            self._step = 1
            return Heard(text=heard.text, time=entries[0]["time"], request_id=heard.request_id)
        if entries:
            await self._store.forget_journal(self._id)
        await self._write({"kind": "message", **{name: getattr(heard, name) for name in (*same, "time")}})
        return heard

    async def once(self, kind: str, perform: Callable[[], Awaitable[Entry]]) -> Entry:
        """The result of the next step: as written down, or performed now and then written down."""
        if self._known:
            entry = self._known.pop(0)
            if entry["kind"] == kind:
                self._step += 1
                return entry
            self._known.clear()  # the host's handlers changed since: what follows is another turn
        entry = {**await perform(), "kind": kind}
        await self._write(entry)
        return entry

    async def _write(self, entry: Entry) -> None:
        await self._store.journal(self._id, self._step, json.dumps(entry, separators=(",", ":")))
        self._step += 1


def reply_entry(reply: ModelReply) -> Entry:
    """A model's reply as a journal entry."""
    return asdict(reply)


def entry_reply(entry: Entry) -> ModelReply:
    """The reply of a journal entry."""
    return ModelReply(**{name: value for name, value in entry.items() if name != "kind"})


def result_entry(result: HandlerResult) -> Entry:
    """A handler's result as a journal entry."""
    return asdict(result)


def entry_result(entry: Entry) -> HandlerResult:
    """The result of a journal entry."""
    return HandlerResult(**{name: value for name, value in entry.items() if name != "kind"})
