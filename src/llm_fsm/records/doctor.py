"""Examine the conversations of a store: unreadable parts, contradictions, and missing parts."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llm_fsm._json import frozen
from llm_fsm.errors import StoreError, UnreadableError
from llm_fsm.records.session_reader import SessionReader
from llm_fsm.records.stuck_turns import stuck_turns
from llm_fsm.records.transfer import line_of, listing_faults
from llm_fsm.session.deadlines import due_rows
from llm_fsm.session.integrity import integrity_faults
from llm_fsm.session.turn_record import Records, TurnRecord, parse
from llm_fsm.stores.base import (
    END_HANDLERS,
    Listed,
    ListQuery,
    OutboxQuery,
    Posted,
    Store,
    kept_definition,
)

_WAIT = 30.0
_PAGE = 500
_ALL = 2**31 - 1
_NOBODY = "nobody"
"""An id that no conversation has. Asking for it shows whether the store can be read."""
Due = Mapping[str, frozenset[tuple[float, str]]]
"""Conversation to its rows of the due table: time and kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProblem:
    """A problem of one conversation, or of the store as a whole if `conversation_id` is ""."""

    conversation_id: str
    what: str


async def examine(store: Store) -> Sequence[StoreProblem]:
    """Examine everything, and change nothing.

    Args:
        store: The store; it may be in use.

    Returns:
        The problems, by conversation id; empty if there are none.

    Raises:
        StoreError: The store cannot be read at all.
    """
    await store.load(_NOBODY, _NOBODY)
    await store.journalled(_NOBODY)
    await store.outbox(OutboxQuery(limit=1))
    own = getattr(store, "faults", None)
    found = [
        StoreProblem(conversation_id="", what=what) for what in (() if own is None else await own())
    ]
    found += [
        StoreProblem(conversation_id=stuck.conversation_id, what=stuck.why())
        for stuck in await stuck_turns(store, time.time())
    ]
    after = None
    while page := await store.list(ListQuery(after=after, limit=_PAGE)):
        due = await _due(store)
        for line in page:
            whats = await _settled(store, line, due)
            found += [
                StoreProblem(conversation_id=line.conversation_id, what=what) for what in whats
            ]
        after = page[-1].conversation_id
    return found


async def _due(store: Store) -> Due:
    found: dict[str, set[tuple[float, str]]] = {}
    for row in await store.due(math.inf, _ALL):
        found.setdefault(row.conversation_id, set()).add((row.time, row.kind))
    return frozen(found)


async def _settled(store: Store, line: Listed, due: Due) -> Sequence[str]:
    """Examine a conversation again under its lock, so that a turn under way causes no complaint."""
    found = await _complaints(store, line, due)
    if not found:
        return ()
    try:
        async with store.lock(line.conversation_id, _WAIT):
            now = await line_of(store, line.conversation_id)
            return () if now is None else await _complaints(store, now, await _due(store))
    except StoreError:  # a store that cannot be written gives no locks
        return found


async def _complaints(store: Store, line: Listed, due: Due) -> Sequence[str]:
    name = line.conversation_id
    loaded = await store.load(name)
    if loaded is None:
        gone = await line_of(store, name) is None  # it was deleted after it was listed
        return () if gone else ("it is listed, but cannot be loaded",)
    try:
        texts = await store.records(name)
        if loaded.version != len(texts):
            return (f"its version is {loaded.version}, but it has {len(texts)} records",)
        session, _ = await SessionReader(store).read(name, loaded.session)
        records = [_parsed(number, text) for number, text in enumerate(texts, 1)]
        pinned = await kept_definition(store, loaded.definition_sha)
    except UnreadableError as error:
        return (str(error),)
    found = []
    if session.conversation_id != name:
        found.append(f"its session is one of conversation {session.conversation_id!r}")
    unfit = integrity_faults(session, records)
    found += unfit
    if (session.state, session.ended) != (line.state, line.ended):
        found.append("the listing shows another state than the session has")
    found += listing_faults(line, records, pinned)
    if loaded.definition_sha is not None and pinned is None:
        found.append(f"the definition that it is pinned to, {loaded.definition_sha}, is missing")
    if not unfit and frozenset(due_rows(session)) != due.get(name, frozenset()):
        found.append("its rows of the due table are not those of its session")
    found += await _outbox_complaints(store, name, records)
    return [*found, *await _inbox_complaints(store, name, list(zip(texts, records, strict=True)))]


def _parsed(number: int, text: str) -> TurnRecord:
    try:
        return parse(text)
    except UnreadableError as error:
        raise UnreadableError(f"record {number} cannot be used: {error}") from error


async def _outbox_complaints(store: Store, name: str, records: Records) -> Sequence[str]:
    rows = await store.outbox(OutboxQuery(conversation_id=name, limit=_ALL))
    wrong = [row for row in rows if not _tells(row, records)]
    return [
        f"what {row.sink!r} has still to be told, {row.key!r}, is not in its records"
        for row in wrong
    ]


def _tells(row: Posted, records: Records) -> bool:
    """Return true if a row of the outbox refers to an event that is on record."""
    try:
        told = json.loads(row.text)
        if not 1 <= row.number <= len(records):
            return False
        record = records[row.number - 1]
        if row.sink == END_HANDLERS:
            return isinstance(told["text"], str)
        event = record.events[told["index"]]
        return bool(told["event"]["type"] == type(event).__name__ and told["kind"] == record.kind)
    except (ValueError, LookupError, TypeError):
        return False


async def _inbox_complaints(
    store: Store, name: str, records: Sequence[tuple[str, TurnRecord]]
) -> Sequence[str]:
    found = []
    for number, (text, record) in enumerate(records, 1):
        for request_id in record.request_ids:
            loaded = await store.load(name, request_id)
            if loaded is not None and loaded.recorded != text:
                found.append(
                    f"request {request_id!r} is not answered by record {number}, which took it"
                )
    return found
