"""The states that a conversation can still reach from each state, as far as conditions can be
analysed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from llm_fsm.definition.graph import reachable, reversed_graph
from llm_fsm.definition.models import Definition
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.graph import arcs_from, kind_of
from llm_fsm.lint.solver.solver import reasoning


@dataclass(frozen=True)
class Ways:
    """The transitions of one definition that can be taken. A transition with an unknown outcome
    counts as possible.
    """

    definition: Definition

    @cached_property
    def _document(self) -> Document:
        return Document(
            Placed("", self.definition.model_dump(mode="json", by_alias=True, exclude_none=True))
        )

    @cached_property
    def graph(self) -> Mapping[str, tuple[str, ...]]:
        """State id to the states that it may lead to directly."""
        return reasoning(self._document).live

    @cached_property
    def never(self) -> frozenset[str]:
        """The pointers of the transitions that are proven to be never taken."""
        known = reasoning(self._document)
        every = set()
        possible = set()
        for state in self._document.states:
            for arc in arcs_from(self._document)[state]:
                every.add(arc.pointer)
                if known.takeable(arc):
                    possible.add(arc.pointer)
        return frozenset(every - possible)

    @cached_property
    def stuck(self) -> frozenset[str]:
        """States from which no end can be reached; empty for a machine that has no end."""
        ends = [name for name in self.graph if kind_of(self._document, name) == "final"]
        return frozenset(set(self.graph) - reachable(reversed_graph(self.graph), ends))

    @cached_property
    def rest(self) -> frozenset[str]:
        """States that are no ends and that lead only to themselves."""
        return frozenset(
            name
            for name, targets in self.graph.items()
            if set(targets) <= {name} and kind_of(self._document, name) != "final"
        )

    def beyond(self, state: str) -> frozenset[str]:
        """Return every state that can be reached from one, without itself."""
        if state in self.graph:
            return frozenset(reachable(self.graph, [state]) - {state})
        return frozenset()


def stranded(before: Ways, after: Ways) -> frozenset[str]:
    """Return the states that lost their path to an end or to another state. Both graphs use the new
    names.
    """
    lost = (after.stuck - before.stuck) | (after.rest - before.rest)
    return frozenset(name for name in lost if name in before.graph)
