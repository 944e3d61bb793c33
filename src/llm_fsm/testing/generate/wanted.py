"""Keep the list of what no conversation touches or tells apart yet, by states."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from llm_fsm._json import steps
from llm_fsm.testing.generate.planner import Plan, Planner

_ANYWHERE = "*"
_CALLED = "#"
_STATES_FOR_ALL = 30
"""States in which elements are tried that any state may touch. Further ones would add nothing."""


class Wanted:
    """The elements and changes that are left.

    Args:
        elements: The names of elements, as coverage has them.
        changes: The names of changes, as `Decisions` has them.
        planner: The planner of the definition.
    """

    def __init__(self, elements: Iterable[str], changes: Iterable[str], planner: Planner) -> None:
        self._planner = planner
        self._elements = dict.fromkeys(elements)
        self._changes = {*changes}
        self._order = {item: place for place, item in enumerate(self._elements)}
        self._places: dict[str, set[str]] = {}
        self._visited: set[str] = set()
        for item in self._elements:
            for place in self._places_of(item):
                self._places.setdefault(place, set()).add(item)

    @property
    def left(self) -> tuple[str, ...]:
        """The elements that nothing touched."""
        return tuple(self._elements)

    def _places_of(self, item: str) -> Iterator[str]:
        if _CALLED in item:
            yield _CALLED
        elif not item.startswith("/states/"):
            yield _ANYWHERE
        else:
            state = steps(item.split(" ", 1)[0])[1]
            yield state
            if item.count("/") == 2:
                yield from self._planner.before.get(state, ())

    def may_touch(self, plan: Plan, state: str) -> bool:
        """Return True if a plan for a state may touch an element, or tell a change apart."""
        aims = plan.aims
        if not (aims.isdisjoint(self._elements) and aims.isdisjoint(self._changes)):
            return True
        if aims and not plan.explores:
            return False
        kind = self._planner.definition.kind_of(state)
        if self._places.get(state):
            return True
        if kind == "subflow" and self._places.get(_CALLED):
            return True
        if kind not in ("converse", "subflow") or not self._places.get(_ANYWHERE):
            return False
        if len(self._visited) < _STATES_FOR_ALL:
            self._visited.add(state)
        return state in self._visited

    def take(self, touched: Collection[str], told: Collection[str]) -> tuple[str, ...] | None:
        """Cross off what a conversation did.

        Returns:
            The elements that it touched first; None if it did nothing new.
        """
        names = {item for item in touched if item in self._elements}
        reached = tuple(sorted(names, key=self._order.__getitem__))
        new = self._changes.intersection(told)
        if not reached and not new:
            return None
        self._changes -= new
        for item in reached:
            del self._elements[item]
            for place in self._places_of(item):
                self._places[place].discard(item)
        return reached
