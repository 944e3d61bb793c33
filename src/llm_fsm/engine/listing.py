"""Which conversations a caller means: filters for listing, counting and deleting."""

from __future__ import annotations

import math
from typing import TypedDict

from llm_fsm._json import JsonDict, TextMap, without_none
from llm_fsm.conditions.coercion import is_number
from llm_fsm.stores.base import Listed, ListQuery, Order, checked_metadata, storable


class Filter(TypedDict, total=False):
    """The conversations that are meant. They match every key; without keys, all are meant.

    Attributes:
        definition: The name of the definition of their last turn.
        state: The id of their state.
        ended: True for those that have ended, False for the others.
        metadata: Labels that they all have, as {key: text}; see `AsyncMachine.start`.
        updated_since: Their last turn was at this time or later, in seconds since the epoch.
        updated_before: Their last turn was before this time, in seconds since the epoch.
    """

    definition: str | None
    state: str | None
    ended: bool | None
    metadata: TextMap | None
    updated_since: float | None
    updated_before: float | None


def query_of(
    wanted: Filter, *, after: str | Listed | None = None, limit: int = 100, order: Order = "id"
) -> ListQuery:
    """Make the query of a filter.

    Args:
        wanted: The conversations that are meant.
        after: The id or the line after which the listing goes on; with an order by time, the line.
        limit: At most this many.
        order: "id", "updated" or "-updated".

    Returns:
        The query.

    Raises:
        ValueError: A value is wrong. The message says which.
        TypeError: There is no such filter.
    """
    if unknown := sorted(wanted.keys() - Filter.__annotations__.keys()):
        known = ", ".join(Filter.__annotations__)
        raise TypeError(f"there is no filter {unknown[0]!r}; the filters are {known}")
    given: JsonDict = without_none(wanted)
    for name in ("updated_since", "updated_before"):
        if name in given:
            given[name] = _moment(name, given[name])
    for name in ("definition", "state"):
        if name in given:
            # Stores keep texts without halves of surrogate pairs, so a filter has none either.
            given[name] = storable(given[name])
    query = ListQuery(
        limit=limit, order=order, **{**given, "metadata": checked_metadata(given.get("metadata"))}
    )
    if isinstance(after, Listed):
        return query.following(after)
    if after is None:
        return query
    # An order by time needs the time of the last line, which an id does not tell.
    if order != "id":
        raise ValueError(
            f"a listing in the order {order!r} goes on after a line of it: give the line as after="
        )
    return query.following(
        Listed(storable(after), "", "", ended=False, turns=0, created=0.0, updated=0.0)
    )


def _moment(name: str, given: object) -> float:
    """Check a time in seconds since the epoch. Raises ValueError."""
    if not is_number(given) or not math.isfinite(given):
        raise ValueError(f"{name} is a time in seconds since the epoch, not {given!r:.80}")
    return float(given)
