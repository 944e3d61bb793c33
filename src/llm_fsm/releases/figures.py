"""The figures of both arms of a release, counted from stored conversations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from llm_fsm._json import TextMap
from llm_fsm.releases.arms import ARMS
from llm_fsm.releases.file import OUTCOME, Release
from llm_fsm.session import events as ev
from llm_fsm.session.turn_record import events_of, parse, without_undone
from llm_fsm.stores.base import ListQuery, Store, every_line

SETTLED_AFTER = 3600.0
"""Seconds of silence after which a conversation counts for shares, although it has not ended.

The candidate's conversations are younger on average, so fewer of them have ended.
"""
_PAGE = 500
_OVERLAP = 60.0
"""Seconds for which the clocks of two machines may differ."""


class Facts(NamedTuple):
    """The share of one conversation in the figures of its arm."""

    arm: str
    names: frozenset[str]
    errors: int
    ended: bool
    updated: float


@dataclass(slots=True)
class ArmFigures:
    """The counts of one arm. `settled`: conversations that count for shares; `hits`: figure to
    those of them that have it.
    """

    conversations: int = 0
    settled: int = 0
    errors: int = 0
    hits: dict[str, int] = field(default_factory=dict)


def chosen_of(
    release: Release, shas: TextMap, events: ev.Events
) -> tuple[str, frozenset[str], int]:
    """Return the arm, the names of shares and the number of errors of a conversation; "" as the arm
    if it belongs to another salt or to other definitions.
    """
    arm, errors = "", 0
    names: set[str] = set()
    for event in events:
        match event:
            case ev.ReleaseChosen():  # it may begin again after its end
                is_ours = event.salt == release.salt and event.sha == shas.get(event.arm)
                arm, names, errors = event.arm if is_ours else "", set(), 0
            case ev.Repaired(pattern="handover"):
                names.add("handover_share")
            case ev.Missed():
                names.add("missed_share")
            case ev.FunctionFailed() | ev.HandlerFailed() | ev.TurnFailed() | ev.ReplyFailed():
                names.add("error_share")
                errors += 1
            case ev.Ended(outcome=outcome):
                names.add(OUTCOME + outcome)
    return arm, frozenset(names), errors


class Tally:
    """The conversations of one release as it stands, each read again only when it has changed."""

    def __init__(self) -> None:
        self._facts: dict[str, Facts] = {}
        self._since = 0.0

    async def count(
        self, store: Store, release: Release, shas: TextMap, now: float
    ) -> Mapping[str, ArmFigures]:
        """Return the figures of both arms.

        Args:
            store: The store of the conversations.
            release: The release. Conversations with another salt do not count.
            shas: Arm to the SHA-256 of its definition. Others do not count.
            now: Seconds since the epoch.
        """
        query = ListQuery(
            metadata={"release": release.release}, updated_since=self._since, limit=_PAGE
        )
        self._since = now - _OVERLAP
        async for line in every_line(store, query):
            records = map(parse, await store.records(line.conversation_id))
            kept = [record for _, record in without_undone(records)]
            found = chosen_of(release, shas, events_of(kept))
            self._facts[line.conversation_id] = Facts(*found, line.ended, line.updated)
        figures: dict[str, ArmFigures] = {arm: ArmFigures() for arm in ARMS}
        for facts in self._facts.values():
            if facts.arm in figures:
                _add(figures[facts.arm], facts, now)
        return figures


def _add(figures: ArmFigures, facts: Facts, now: float) -> None:
    figures.conversations += 1
    figures.errors += facts.errors
    if facts.ended or facts.updated < now - SETTLED_AFTER:
        figures.settled += 1
        for name in facts.names:
            figures.hits[name] = figures.hits.get(name, 0) + 1
