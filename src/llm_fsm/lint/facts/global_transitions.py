"""Global transitions of all states, without a copy for every state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class GlobalTransitions(Generic[T]):
    """An item for each global transition, which is merged by priority with a state's own items.

    Made of (priority, target, item). A state gets no item that leads to itself.
    """

    def __init__(self, shared: Iterable[tuple[int, str, T]]) -> None:
        entries = sorted(shared, key=lambda entry: entry[0])
        self.items = [item for _, _, item in entries]
        self._ranks = [priority for priority, _, _ in entries]
        self._places: dict[str, list[int]] = {}
        for place, (_, target, _) in enumerate(entries):
            self._places.setdefault(target, []).append(place)

    def beside(self, state: str, own: Sequence[tuple[int, T]]) -> list[T]:
        """Return a state's own items, given with their priorities and in their order, merged with the global ones."""
        items, ranks = self.items, self._ranks
        if state in self._places:
            items, ranks = items.copy(), ranks.copy()
            for place in reversed(self._places[state]):
                del items[place], ranks[place]
        mine = [item for _, item in own]
        if not own or not items or own[-1][0] <= ranks[0]:
            return mine + items
        every, priorities = mine + items, [priority for priority, _ in own] + ranks
        return [every[place] for place in sorted(range(len(every)), key=priorities.__getitem__)]
