"""The journal of one turn: results on record, so that a turn that begins again repeats nothing.

A turn that acts writes every result to the journal as it arrives. After a crash, the same message
begins the turn again, and recorded results are read instead of fetched. The first entry is the
message itself; a different message voids the journal. While a turn only talks, its entries wait. A
model's text can be fetched again, and a write that never happens costs nothing. Tool calls are
stored under their idempotency keys, because the calls of a batch may end in any order. A call that
must not run twice is also recorded before it begins.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec.structs import asdict, replace

from llm_fsm._json import JsonDict, JsonMap, has_all, in_unicode, plain, read, without
from llm_fsm.engine.exactly_once import fingerprint
from llm_fsm.errors import ConversationConflict, HandlerError, StoreError
from llm_fsm.records.stuck_turns import journal_entries
from llm_fsm.session.messages import ModelReply
from llm_fsm.stores.base import PARKED, Store
from llm_fsm.turn.effects import (
    Executed,
    HandlerResult,
    OutOfTime,
    PlannedCall,
    ToolResult,
    Unanswered,
)

Entry = JsonMap
_KEYED = "keyed"
_AHEAD = "ahead/"
"""The beginning of keys of handlers, which another message may have, too."""
BEGUN = "begun"
FAILED = "failed"
"""The turn failed, and its caller decides what follows."""
STOPPED = "stopped"
"""Somebody stopped the turn, or its caller heard of its failure. The next call resumes it."""
ATTEMPT = "attempt"
"""A turn that a process left was resumed."""
ERROR = "error"
"""An attempt ended with an error, or was handed back. The process lived, so it is no death."""
MARKS = frozenset({FAILED, STOPPED, ATTEMPT, ERROR, PARKED})
"""Kinds of entries about the turn as a whole. They hold no result."""


LOGGER = "llm_fsm.turns"
"""The log of turns that nobody waits for."""
MOST_DEATHS = 3
"""Attempts that may end their process before the turn is parked. The first time counts for none."""


class TurnParked(ConversationConflict):
    """A turn of the conversation has ended too many processes. Somebody has to see to it."""


class Journal:
    """Results of the current turn: recorded ones are read first, new ones are written."""

    def __init__(self, store: Store, conversation_id: str, origin: Entry | None = None) -> None:
        """`origin`: further fields of the first entry, which are no part of the identity."""
        self._store = store
        self._id = conversation_id
        self._origin = {} if origin is None else origin
        self._marks: list[Entry] = []
        """Attempts and errors so far, which outlive a void journal."""
        self._known: list[Entry] = []
        self._used: list[Entry] = []
        self._keyed: dict[str, Entry] = {}
        self._begun: dict[str, str] = {}
        """Key of a call to its fingerprint; see `begun`."""
        self._claimed: dict[str, str] = {}
        self._failed: dict[str, HandlerError] = {}
        self._waiting: list[Entry] = []
        self._flushing = asyncio.Lock()
        self._torn = False
        """True if it is unknown whether the first waiting entry was written."""
        self._step = 0

    async def open(
        self, turn: Entry, time: float, *, acts: bool = True, blank: bool = False
    ) -> float:
        """Begin or resume a turn.

        Args:
            turn: The identity of the turn; it becomes the first entry.
            time: Now, in seconds since the epoch.
            acts: False for a turn that may only talk. Its first step that acts writes it.
            blank: The journal is known to be empty, so nothing is read.

        Returns:
            The time at which the turn first began, in seconds since the epoch.

        Raises:
            TurnParked: The turn has ended too many processes.
        """
        entries = [] if blank else await journal_entries(self._store, self._id)
        # The same turn begins again, so what it did is read instead of done.
        if entries and has_all(entries[0], turn):
            check_not_parked(self._id, entries)
            # Steps may be missing: calls of a batch are written as they end.
            self._step = 1 + max(entry["step"] for entry in entries)
            self._used.append(entries[0])
            for entry in entries[1:]:
                if entry["kind"] == _KEYED:
                    self._keyed[entry["key"]] = entry["entry"]
                elif entry["kind"] == BEGUN:
                    self._begun[entry["key"]] = entry.get("call", "")
                elif entry["kind"] in MARKS:
                    self._marks.append(entry)
                else:
                    self._known.append(entry)
            await self._mark({"kind": ATTEMPT, "time": time})
            return float(entries[0]["time"])
        # Another message came, so the interrupted turn will never be finished.
        if entries:
            await self._store.forget_journal(self._id)
        self._used.append({**turn, **self._origin, "time": time})
        self._waiting.append(self._used[0])
        # What a call did is done, whatever the user says next: its key is its own.
        for entry in entries:
            key = entry.get("key", _AHEAD)
            if entry["kind"] == _KEYED and not key.startswith(_AHEAD):
                self._keyed[key] = entry["entry"]
                self._waiting.append(without_step(entry))
        if acts:
            await self._flush()
        return time

    async def once(
        self,
        kind: str,
        perform: Callable[[], Awaitable[Entry]],
        *,
        acts: bool = True,
        key: str = "",
    ) -> Entry:
        """Return the result of the next step: the recorded one, or a new one that is then recorded.

        Args:
            kind: The kind of step. A recorded step of another kind voids the rest of the journal.
            perform: Performs the step.
            acts: False if the step may be repeated. Its entry waits for a step that acts.
            key: The key under which `ahead` may have performed it.
        """
        before = self._keyed.pop(_AHEAD + key, None) if key else None
        if self._known:
            # Results are read in the order in which they were written. Another kind of step means
            # other code.
            entry = self._known.pop(0)
            if entry["kind"] == kind:
                self._used.append(entry)
                return entry
            await self._part_here()
        # Whatever led here must be on record before anything acts.
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
    def is_resumed(self) -> bool:
        """True if the turn began before."""
        return bool(self._marks)

    @property
    def is_ahead(self) -> bool:
        """True if steps were performed before their turn."""
        return bool(self._keyed or self._failed)

    async def ahead(self, key: str, perform: Callable[[], Awaitable[Entry]]) -> Entry:
        """Return the result of a step before its turn. `once` with the same key returns it, or
        raises its error, again."""
        if key in self._failed:
            raise self._failed[key]
        try:
            entry = self._keyed[_AHEAD + key] = await self.keyed(_AHEAD + key, perform)
        except HandlerError as error:
            self._failed[key] = error
            raise
        return entry

    @property
    def begun(self) -> Collection[str]:
        """Keys of calls that must not run twice, and that began before this turn resumed."""
        return self._begun.keys()

    def claimed(self, call: PlannedCall, *, fresh: bool = False) -> PlannedCall:
        """Return a call that must not run twice, under its key in this turn.

        That is its own key. If the reply that led to it is `fresh`, it is the key of an equal call
        on record.
        """
        if call.at_most_once and call.key not in self._claimed:
            taken = {*self._claimed.values()}
            free = without(self._begun, taken)
            key = call.key
            if fresh and key not in free:
                # A model that is asked again numbers its calls anew: an equal call is the same one.
                like = fingerprint(call)
                key = next((known for known, kind in free.items() if kind == like), key)
            # Two equal calls of one turn are two calls, so each has a key of its own.
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
        """Return the result under a key: the recorded one, or a new one.

        Args:
            key: The idempotency key.
            perform: Performs the step.
            begun: Returns the result if the step must not be repeated, and a crash interrupted it.
            call: The fingerprint of the call.
        """
        if key in self._keyed:
            return self._keyed[key]
        if begun is not None and key in self._begun:
            return begun()
        await self._flush()
        # The note that a call began is written first. A crash after it leaves an unknown outcome.
        if begun is not None:
            await self._write({"kind": BEGUN, "key": key, "call": call})
        entry = await perform()
        await self._write({"kind": _KEYED, "key": key, "entry": entry})
        return entry

    def under(self, prefix: str) -> dict[str, Entry]:
        """Return recorded results whose keys begin with a prefix, by the rest of their keys."""
        return {
            key.removeprefix(prefix): entry
            for key, entry in self._keyed.items()
            if key.startswith(prefix)
        }

    async def fail(self) -> None:
        """Record that the turn failed and its caller knows, if anything of it is recorded."""
        if self._step:
            await self._write({"kind": FAILED})

    async def stop(self, *, first: bool = False) -> None:
        """Record that somebody stopped the turn, if anything of it is recorded. `first`: also if
        nothing is."""
        if first:
            await self._flush()
        if self._step:
            await self._write({"kind": STOPPED})

    async def err(self, said: str, time: float, *, handed_back: bool = False) -> None:
        """Record that an attempt ended and its process lives. `handed_back`: it may be resumed at
        once."""
        if self._step:
            entry: JsonDict = {"kind": ERROR, "time": time, "error": said}
            await self._mark({**entry, "handed_back": True} if handed_back else entry)

    async def _mark(self, entry: Entry) -> None:
        self._marks.append(entry)
        await self._write(entry)

    async def _part_here(self) -> None:
        """Void the rest of the journal, because the host's code changed. Results read so far
        stay."""
        self._known.clear()
        await self._store.forget_journal(self._id)
        self._step = 0
        first, *others = self._used
        self._waiting = [
            first,
            *(without_step(mark) for mark in self._marks),
            *others,
            *({"kind": BEGUN, "key": key, "call": call} for key, call in self._begun.items()),
            *({"kind": _KEYED, "key": key, "entry": entry} for key, entry in self._keyed.items()),
        ]
        await self._flush()

    async def _flush(self) -> None:
        """Write waiting entries before any later one. A journal without its first entry belongs to
        no turn."""
        if not self._waiting and not self._flushing.locked():
            return
        async with self._flushing:
            # After a failed write nobody knows what the journal holds, so nothing may be put behind
            # it.
            if self._torn:
                raise StoreError(
                    "an earlier step of this turn could not be written down", retryable=True
                )
            while self._waiting:
                # Only a write that returned is known to be whole. A cancelled one is not.
                self._torn = True
                await self._write(self._waiting[0])
                self._torn = False
                del self._waiting[0]

    async def _write(self, entry: Entry) -> None:
        # Counted before the write: a number is never used twice, even if the write fails.
        step, self._step = self._step, self._step + 1
        await self._store.journal(self._id, step, in_unicode({**entry, "step": step}))


def check_not_parked(conversation_id: str, entries: Sequence[Entry]) -> None:
    """Check that the turn of a journal is not parked.

    Raises:
        TurnParked: It is.
    """
    if entries and entries[-1].get("kind") == PARKED:
        raise TurnParked(
            f"conversation {conversation_id!r} has a turn that ended {MOST_DEATHS} processes, so "
            "it is parked. See to the cause, then retry it with llm-fsm conversations retry"
        )


def without_step(entry: Entry) -> JsonDict:
    """Return an entry as it is written, before it has its place."""
    return without(entry, ("step",))


def without_kind(entry: Entry) -> JsonDict:
    """Return an entry without the fields that the journal adds."""
    return without(entry, ("kind", "step"))


def reply_entry(reply: ModelReply | OutOfTime) -> Entry:
    """Convert a model's reply, or a time-out, to a journal entry."""
    if isinstance(reply, OutOfTime):
        return {"out_of_time": reply.seconds}
    return {**asdict(reply), "tool_calls": [asdict(call) for call in reply.tool_calls]}


def entry_reply(entry: Entry) -> ModelReply | OutOfTime:
    """Convert a journal entry to a model's reply or a time-out."""
    if "out_of_time" in entry:
        return OutOfTime(seconds=entry["out_of_time"])
    return read(entry, ModelReply, "a journal cannot be read: reply")


def entry_unanswered(entry: Entry) -> Unanswered:
    """Convert a journal entry to a missing summary. Old entries only hold the reason."""
    return Unanswered(
        reason=entry["unanswered"],
        attempts=entry.get("attempts", 1),
        seconds=entry.get("seconds", 0.0),
    )


def result_entry(result: HandlerResult | ToolResult) -> Entry:
    """Convert the result of a handler or tool to a journal entry."""
    entry: Entry = plain(result)
    return entry


def entry_result(entry: Entry) -> HandlerResult:
    """Convert a journal entry to a handler's result."""
    return read(entry, HandlerResult, "a journal cannot be read: handler")


def entry_tool(entry: Entry) -> ToolResult:
    """Convert a journal entry to a tool's result."""
    return read(entry, ToolResult, "a journal cannot be read: tool")


def executed_entry(done: Executed) -> Entry:
    """Convert a function's result to a journal entry."""
    happened = [plain(event) for event in done.happened]
    return {**asdict(done), "happened": happened, "usage": asdict(done.usage)}


def entry_executed(entry: Entry) -> Executed:
    """Convert a journal entry to a function's result."""
    return read(entry, Executed, "a journal cannot be read: function")


async def mark_failed(store: Store, conversation_id: str) -> None:
    """Record that the turn in a journal was stopped and its caller knows. Call it under the
    conversation's lock.

    Args:
        store: The store.
        conversation_id: The conversation.

    Raises:
        StoreError: The store failed.
    """
    entries = await journal_entries(store, conversation_id)
    if entries:
        step = 1 + max(entry["step"] for entry in entries)
        await store.journal(conversation_id, step, json.dumps({"kind": FAILED, "step": step}))
