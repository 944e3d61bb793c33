"""Stored conversations: their list, and how often each state and transition was used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from llm_fsm import events as ev
from llm_fsm._json import step
from llm_fsm.editor import models
from llm_fsm.errors import UnreadableError
from llm_fsm.session.turn_record import TurnRecord, first_of, parse, without_undone
from llm_fsm.stores.base import Listed, ListQuery, Store

PAGE = 50
MOST_PAGES = 100
"""Pages that one search looks through."""
_COSTLESS = frozenset({"undo", "migrate", "heard", "end"})


async def stored_page(store: Store, words: str, after: str | None) -> models.StoredPage:
    """Return a page of stored conversations, the newest first.

    Args:
        store: The store.
        words: Only conversations that have this in their id, definition or state; "": all.
        after: `next` of the page before; None: the first page.

    Returns:
        The page. It may be short, and have a `next`, if many conversations do not match.
    """
    found = []
    for _ in range(MOST_PAGES):
        query = ListQuery(limit=PAGE, order="-updated")
        if after is not None:
            moment, _, name = after.partition(" ")
            query = replace(query, after=name, after_updated=float(moment))
        lines = await store.list(query)
        found += [await _row(store, line) for line in lines if _has(line, words)]
        after = f"{lines[-1].updated!r} {lines[-1].conversation_id}" if len(lines) == PAGE else None
        if after is None or len(found) >= PAGE:
            break
    return models.StoredPage(conversations=found, next=after)


def _has(line: Listed, words: str) -> bool:
    text = f"{line.conversation_id} {line.definition} {line.state}"
    return words.casefold() in text.casefold()


async def _row(store: Store, line: Listed) -> models.StoredRow:
    outcome = None
    if line.ended:
        with suppress(UnreadableError):  # one damaged record hides no other conversation
            last = await store.records(line.conversation_id, after=line.turns - 1)
            ends = [first_of(parse(text).events, ev.Ended) for text in last]
            outcome = next((end.outcome for end in ends if end is not None), None)
    return models.StoredRow(
        id=line.conversation_id,
        definition=line.definition,
        state=line.state,
        turns=line.turns,
        ended=line.ended,
        outcome=outcome,
        created=line.created,
        updated=line.updated,
        paused=line.paused or None,
    )


async def overlays(store: Store, definition: str, limit: int) -> models.Overlays:
    """Count over the newest stored conversations of a definition.

    Args:
        store: The store.
        definition: The name of the definition.
        limit: The most conversations that are counted.

    Returns:
        Visits, drop-outs, misses and costs of each state and transition that was used.
    """
    query = ListQuery(limit=limit + 1, order="-updated", definition=definition)
    lines = list(await store.list(query))
    flows: defaultdict[str, models.FlowFigures] = defaultdict(_no_figures)
    for line in lines[:limit]:
        texts = await store.records(line.conversation_id)
        records = [record for _, record in without_undone(parse(text) for text in texts)]
        last = _count(records, flows)
        if not line.ended and last:
            flows["/states" + step(last)].drop_outs += 1
    for pointer, figures in flows.items():
        figures.pointer = pointer
    return models.Overlays(
        conversations=len(lines[:limit]), truncated=len(lines) > limit, flows=list(flows.values())
    )


def _no_figures() -> models.FlowFigures:
    return models.FlowFigures(pointer="")


def _count(records: Iterable[TurnRecord], flows: defaultdict[str, models.FlowFigures]) -> str:
    """Count one conversation, and return the state of the definition itself in which it rests."""
    state = ""
    depth = 0
    for record in records:
        heard = state
        for event in record.events:
            match event:
                case ev.FlowPushed(kind="subflow"):
                    depth += 1
                case ev.FlowReturned():
                    depth = max(0, depth - 1)
                case ev.Started() | ev.Restarted() | ev.StateEntered() if depth == 0:
                    state = event.state
                    flows["/states" + step(state)].visits += 1
                    if isinstance(event, ev.StateEntered) and event.transition:
                        flows[event.transition].visits += 1
        place = heard or state
        if place and record.kind not in _COSTLESS:
            _spend(flows["/states" + step(place)], record)
    return state


def _spend(figures: models.FlowFigures, record: TurnRecord) -> None:
    figures.misses += record.missed
    figures.tokens += record.usage.input_tokens + record.usage.output_tokens
    figures.seconds += record.usage.seconds
    if record.usage.cost:
        figures.cost = (figures.cost or 0.0) + record.usage.cost
