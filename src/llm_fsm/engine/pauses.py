"""The conversations that wait for a person, for an operators' list.

The store lists them by an index. Only those of the page are read, and none of their records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from llm_fsm._json import JsonMap, TextMap
from llm_fsm.engine.listing import Filter, query_of
from llm_fsm.session.session import parse_stored_session
from llm_fsm.stores.base import ANY_PAUSE, Listed, ListQuery, Store

PauseKind = Literal["wait", "approval", "break", "unknown_outcome"]


class OpenPause(Struct, frozen=True, kw_only=True):
    """A conversation that waits for an answer.

    Attributes:
        conversation_id: The conversation.
        kind: wait, approval, break or unknown_outcome; see `Paused`.
        what: A name or a sentence for what it waits for.
        id: The id of the pause. Give it as `pause=` of an answer, so that no later pause is
            answered.
        call: The tool call in question as {"name", "arguments"}; None for other kinds.
        state: The id of the state that waits.
        definition: The name of the definition.
        schema: JSON Schema of the answer.
        expires: The time at which it gives up, in seconds since the epoch; None: never.
        messages: record if the user may write meanwhile, else refuse.
        by: The person who spoke last since it waits; "" if nobody did.
        updated: The time of the last turn, in seconds since the epoch.
        metadata: The labels of the conversation, as {key: text}.
    """

    conversation_id: str
    kind: PauseKind
    what: str
    id: str
    call: JsonMap | None = None
    state: str = ""
    definition: str = ""
    schema: JsonMap = {}
    expires: float | None = None
    messages: Literal["refuse", "record"] = "refuse"
    by: str = ""
    updated: float = 0.0
    metadata: TextMap = {}


KINDS: tuple[str, ...] = get_args(PauseKind)


def paused_query(
    wanted: Filter, kind: str | None, *, after: OpenPause | None = None, limit: int = 100
) -> ListQuery:
    """Make the query of conversations that wait, the longest untouched first.

    Args:
        wanted: Filters, as of `conversations`.
        kind: Only pauses of this kind; None: all.
        after: The last pause of the page before.
        limit: At most this many.

    Returns:
        The query.

    Raises:
        ValueError: There is no such kind, or a filter has a wrong value.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind= is one of {', '.join(KINDS)}, not {kind!r:.40}")
    query = query_of(wanted, limit=limit, order="updated")
    query = replace(query, paused=ANY_PAUSE if kind is None else kind)
    if after is None:
        return query
    return replace(query, after=after.conversation_id, after_updated=after.updated)


async def open_pause(store: Store, line: Listed) -> OpenPause | None:
    """Read the pause of a listed conversation.

    Args:
        store: The store of the conversation.
        line: Its line in a listing.

    Returns:
        The pause; None if it was answered meanwhile, or the store ignores `ListQuery.paused`.
    """
    # The listing may be older than the conversation, so the pause is read from it.
    loaded = await store.load(line.conversation_id)
    if loaded is None:
        return None
    session, _ = parse_stored_session(loaded.session)
    pause = session.pause
    if pause is None or session.ended:
        return None
    return OpenPause(
        **asdict(pause),
        conversation_id=line.conversation_id,
        definition=line.definition,
        by=session.operator,
        updated=line.updated,
        metadata=line.metadata,
    )


async def open_pauses(store: Store, query: ListQuery) -> Sequence[OpenPause]:
    """Return the pauses of the conversations that match a query, in its order.

    Args:
        store: The store.
        query: The conversations to list. `paused` names a kind, or any.

    Returns:
        At most as many as the limit of the query.
    """
    found: list[OpenPause] = []
    for line in await store.list(query):
        pause = await open_pause(store, line)
        # A page may be shorter than its limit, because some were answered meanwhile.
        if pause is not None:
            found.append(pause)
    return tuple(found)
