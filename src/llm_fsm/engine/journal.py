"""The journal of one turn: results that came back, so that a turn begun again does nothing twice.

A turn that acts writes every result down as it arrives. After a crash the same message begins the turn again;
results that are written down are read instead of fetched. The first entry is the message itself; a different
message makes the journal void. As long as a turn only talks, its entries wait: a model's words alone cost nothing
to fetch again, and what is not written costs no time. Tool calls stand under their idempotency keys, because a
batch may end in any order; a call that must not run twice is written down before it begins, too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from msgspec.structs import asdict, replace

from llm_fsm._json import in_unicode
from llm_fsm.engine.exactly_once import likeness
from llm_fsm.errors import HandlerError, StoreError
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.serialization import read, to_dict
from llm_fsm.stores.base import Store
from llm_fsm.turn.effects import Executed, HandlerResult, OutOfTime, PlannedCall, ToolResult, Unanswered

Entry = Mapping[str, Any]
_KEYED = "keyed"
BEGUN = "begun"
FAILED = "failed"
_TALK = frozenset({"model", BEGUN, FAILED})


class Journal:
    """Results of the turn under way, read while there are any, then written."""

    def __init__(self, store: Store, conversation_id: str) -> None:
        self._store = store
        self._id = conversation_id
        self._known: list[Entry] = []
        self._used: list[Entry] = []
        self._keyed: dict[str, Entry] = {}
        self._begun: dict[str, str] = {}
        """Key of a call to its `likeness`, see `begun`."""
        self._claimed: dict[str, str] = {}
        self._failed: dict[str, HandlerError] = {}
        self._waiting: list[Entry] = []
        self._flushing = asyncio.Lock()
        self._torn = False
        """True where nobody knows whether the first of those that wait was written."""
        self._step = 0

    async def open(self, turn: Entry, time: float, *, acts: bool = True, blank: bool = False) -> float:
        """Begin or take up a turn; `turn` says which one it is. Gives the time at which it first began.

        `acts` False: the turn may only talk, and is written down with its first step that acts. `blank`: nothing is
        written down yet, so nothing is read.
        """
        entries = [] if blank else [json.loads(text) for text in await self._store.journalled(self._id)]
        if entries and all(entries[0].get(name) == value for name, value in turn.items()):
            self._step = 1 + max(entry["step"] for entry in entries)
            self._used.append(entries[0])
            for entry in entries[1:]:
                if entry["kind"] == _KEYED:
                    self._keyed[entry["key"]] = entry["entry"]
                elif entry["kind"] == BEGUN:
                    self._begun[entry["key"]] = entry.get("call", "")
                elif entry["kind"] != FAILED:
                    self._known.append(entry)
            return float(entries[0]["time"])
        if entries:
            await self._store.forget_journal(self._id)
        self._used.append({**turn, "time": time})
        self._waiting.append(self._used[0])
        if acts:
            await self._flush()
        return time

    async def once(
        self, kind: str, perform: Callable[[], Awaitable[Entry]], *, acts: bool = True, key: str = ""
    ) -> Entry:
        """The result of the next step: as written down, or performed now and then written down.

        `acts` False: it may be fetched again, so writing it down waits for a step that acts. `key`: the one under
        which it may have been performed `ahead`.
        """
        before = self._keyed.pop(key, None) if key else None
        if self._known:
            entry = self._known.pop(0)
            if entry["kind"] == kind:
                self._used.append(entry)
                return entry
            await self._part_here()
        if acts:
            await self._flush()
        if key in self._failed:
            raise self._failed[key]
        entry = {**(await perform() if before is None else before), "kind": kind}
        self._used.append(entry)
        self._waiting.append(entry)
        if acts:
            await self._flush()
        return entry

    @property
    def is_ahead(self) -> bool:
        """True when results are there before their turn."""
        return bool(self._keyed or self._failed)

    async def ahead(self, key: str, perform: Callable[[], Awaitable[Entry]]) -> Entry:
        """The result of a step before its turn; `once` with the same key gives it again, or raises its error again."""
        if key in self._failed:
            raise self._failed[key]
        try:
            entry = self._keyed[key] = await self.keyed(key, perform)
        except HandlerError as error:
            self._failed[key] = error
            raise
        return entry

    @property
    def begun(self) -> Collection[str]:
        """The keys of calls that must not run twice, and were begun before this turn was taken up."""
        return self._begun.keys()

    def claimed(self, call: PlannedCall, *, fresh: bool = False) -> PlannedCall:
        """A call that must not run twice, under the key that it has here.

        That is its own, or, where what led to it is `fresh`, that of one like it on record: whoever comes back for
        that one is to make another call. See `once`.
        """
        if call.at_most_once and call.key not in self._claimed:
            taken, like = {*self._claimed.values()}, likeness(call)
            alike = (known for known, kind in self._begun.items() if fresh and kind == like and known not in taken)
            key = call.key if call.key in self._begun and call.key not in taken else next(alike, call.key)
            while key in taken:
                key += "+"
            self._claimed[call.key] = key
        return replace(call, key=self._claimed[call.key]) if call.at_most_once else call

    async def keyed(
        self,
        key: str,
        perform: Callable[[], Awaitable[Entry]],
        *,
        begun: Callable[[], Entry] | None = None,
        call: str = "",
    ) -> Entry:
        """The result under a key: as written down, or performed now.

        `begun`: the result of a step that must not be repeated, where it was begun and nobody knows its end. `call`:
        its likeness.
        """
        if key in self._keyed:
            return self._keyed[key]
        if begun is not None and key in self._begun:
            return begun()
        await self._flush()
        if begun is not None:
            await self._write({"kind": BEGUN, "key": key, "call": call})
        entry = await perform()
        await self._write({"kind": _KEYED, "key": key, "entry": entry})
        return entry

    def under(self, prefix: str) -> dict[str, Entry]:
        """The results that were there when the turn was taken up, of keys that begin so, by what comes after that."""
        return {key.removeprefix(prefix): entry for key, entry in self._keyed.items() if key.startswith(prefix)}

    async def fail(self) -> None:
        """Write down that the turn failed and its caller was told, where anything was written of it."""
        if self._step:
            await self._write({"kind": FAILED})

    async def _part_here(self) -> None:
        """The host's code changed since: what follows is another turn. What was read so far stays."""
        self._known.clear()
        await self._store.forget_journal(self._id)
        self._waiting = [
            *self._used,
            *({"kind": BEGUN, "key": key, "call": call} for key, call in self._begun.items()),
            *({"kind": _KEYED, "key": key, "entry": entry} for key, entry in self._keyed.items()),
        ]
        await self._flush()

    async def _flush(self) -> None:
        """Write down what waits, before anything that comes after it: without its first entry a journal is nobody's."""
        if not self._waiting and not self._flushing.locked():
            return
        async with self._flushing:
            if self._torn:
                raise StoreError("an earlier step of this turn could not be written down", retryable=True)
            while self._waiting:
                self._torn = True
                await self._write(self._waiting[0])
                self._torn = False
                del self._waiting[0]

    async def _write(self, entry: Entry) -> None:
        step, self._step = self._step, self._step + 1
        await self._store.journal(self._id, step, in_unicode({**entry, "step": step}))


def acts(kind: str) -> bool:
    """True for the kind of an entry that is the result of something done, not of words."""
    return kind not in _TALK


def without_kind(entry: Entry) -> dict[str, Any]:
    """What was performed, without what the journal says of it."""
    return {name: value for name, value in entry.items() if name not in ("kind", "step")}


def reply_entry(reply: ModelReply | OutOfTime) -> Entry:
    """A model's reply, or that none came in time, as a journal entry."""
    if isinstance(reply, OutOfTime):
        return {"out_of_time": reply.seconds}
    return {**asdict(reply), "tool_calls": [asdict(call) for call in reply.tool_calls]}


def entry_reply(entry: Entry) -> ModelReply | OutOfTime:
    """The reply of a journal entry."""
    if "out_of_time" in entry:
        return OutOfTime(seconds=entry["out_of_time"])
    return read(entry, ModelReply, "a journal cannot be read: reply")


def entry_unanswered(entry: Entry) -> Unanswered:
    """That nobody made a summary, of a journal entry, in which an older version kept the reason alone."""
    return Unanswered(reason=entry["unanswered"], attempts=entry.get("attempts", 1), seconds=entry.get("seconds", 0.0))


def result_entry(result: HandlerResult | ToolResult) -> Entry:
    """The result of a handler or tool as a journal entry."""
    return asdict(result)


def entry_result(entry: Entry) -> HandlerResult:
    """A handler's result of a journal entry."""
    return read(entry, HandlerResult, "a journal cannot be read: handler")


def entry_tool(entry: Entry) -> ToolResult:
    """A tool's result of a journal entry."""
    return read(entry, ToolResult, "a journal cannot be read: tool")


def executed_entry(done: Executed) -> Entry:
    """What a function gave back as a journal entry."""
    happened = [to_dict(event) for event in done.happened]
    return {**asdict(done), "happened": happened, "usage": asdict(done.usage)}


def entry_executed(entry: Entry) -> Executed:
    """What a function gave back, of a journal entry."""
    return read(entry, Executed, "a journal cannot be read: function")
