"""What conversations have used of `limits.per`: sums over their records, kept in this process.

Before a turn begins, its sums are brought up to date. The listing names the conversations that
changed, and of each only the new records are read. So turns of other processes count, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from llm_fsm._zones import zone_of
from llm_fsm.engine.turn_runner import TurnHost
from llm_fsm.session.events import LimitReached
from llm_fsm.session.session import Session
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.base import ListQuery, Store, every_line
from llm_fsm.stores.locks.conversation_lock import KeyedQueue

_PAGE = 500
_OVERLAP = 5.0
"""Seconds by which a commit may be seen later than its time: clocks differ, and writing waits."""


class Spending:
    """The sums of one definition on a host. Each day has its own."""

    def __init__(self, host: TurnHost) -> None:
        self._host = host
        self._midnight = 0.0
        self._sums: dict[str, _Sum] = {}

    async def reached(self, session: Session) -> LimitReached | None:
        """Return the limit that is reached before a turn of a conversation; None if none is."""
        now, definition = self._host.now(), self._host.program.definition
        today = datetime.fromtimestamp(now, zone_of(definition.timezone))
        midnight = today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        if midnight != self._midnight:
            self._midnight, self._sums = midnight, {}
        for scope, query in self._counted(session).items():
            quota = getattr(definition.limits.per, scope)
            if quota is None:
                continue
            # The text of a query is as good as its name.
            found = self._sums.setdefault(str(query), _Sum(query))
            await found.look(self._host.store, now)
            for figure, spent in found.used.items():
                most = getattr(quota, figure)
                # Adding fractions of a dollar makes small errors.
                if most is not None and round(spent, 9) >= most:
                    return LimitReached(limit=figure, value=most, per=scope, spent=spent)
        return None

    def _counted(self, session: Session) -> Mapping[str, ListQuery]:
        """Return which conversations count together with this one, for each kind of limit."""
        today = ListQuery(definition=self._host.name, updated_since=self._midnight, limit=_PAGE)
        counted = {"day": today}
        user = self._host.program.limits.per.user
        label = "" if user is None else user.by.partition(".")[2]
        if label in session.metadata:
            counted["user"] = replace(today, metadata={label: session.metadata[label]})
        # One that begins has used nothing, whatever there was under its id before.
        if session.state:
            counted["conversation"] = ListQuery(ids=frozenset([session.conversation_id]))
        return counted


class _Sum:
    """Adds up the records of the conversations of a query, from its time on if it has one."""

    def __init__(self, query: ListQuery) -> None:
        self._query = query
        self._since = query.updated_since or 0.0
        self._known: dict[tuple[str, float], int] = {}
        """Id and beginning of a conversation to the number of its records that were added."""
        self._looks = KeyedQueue()
        self.used = defaultdict[str, float](float)

    async def look(self, store: Store, now: float) -> None:
        """Add what is on record by now."""
        # One look at a time, so that no record is added twice.
        async with self._looks.lock(""):
            async for line in every_line(store, self._query):
                key = line.conversation_id, line.created
                known = self._known.get(key, 0)
                if line.turns > known:
                    texts = await store.records(line.conversation_id, known)
                    self._known[key] = known + len(texts)
                    self._add(texts)
            self._query = replace(self._query, updated_since=now - _OVERLAP)

    def _add(self, texts: Sequence[str]) -> None:
        for record in map(parse, texts):
            # A conversation that begins anew has used nothing.
            if self._query.ids and record.kind == "start":
                self.used.clear()
            if (record.time or 0.0) >= self._since:
                amounts = record.usage.by_limit()
                amounts["turns"] = record.kind in ("message", "answer")
                for figure, amount in amounts.items():
                    self.used[figure] += amount
