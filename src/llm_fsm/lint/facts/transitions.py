"""Transitions together with the states that offer them, in order of the file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from llm_fsm._json import grouped
from llm_fsm.lint.document import Document, once
from llm_fsm.lint.graph import (
    Arc,
    global_arcs,
    global_arcs_to,
    offers_globals,
    own_arcs,
    reached_states,
)


def taken(document: Document, pointers: Container[str]) -> Iterator[tuple[str, Arc]]:
    """Yield (state, arc) for each reached state in which one of these transitions can be taken."""
    own = grouped(
        (arc.source, arc)
        for arc in own_arcs(document)
        if arc.source in reached_states(document) and arc.pointer in pointers
    )
    shared = [arc for arc in global_arcs(document) if arc.pointer in pointers]
    for state in document.states:
        yield from ((state, arc) for arc in own.get(state, ()))
        if shared and state in reached_states(document) and offers_globals(document, state):
            yield from ((state, arc) for arc in shared if arc.target != state)


def arriving(document: Document, state: str) -> Iterable[Arc]:
    """Return the arcs from reached states that lead to a state."""
    into = _own_arrivals(document).get(state, ())
    shared = global_arcs_to(document).get(state)
    if shared is None:
        return into
    own = grouped((arc.source, arc) for arc in into)
    found = list[Arc]()
    for name in document.states:
        if name in reached_states(document):
            found += own.get(name, ())
            if name != state and offers_globals(document, name):
                found += [arc._replace(source=name) for arc in shared]
    return found


@once
def _own_arrivals(document: Document) -> Mapping[str, list[Arc]]:
    return grouped(
        (arc.target, arc) for arc in own_arcs(document) if arc.source in reached_states(document)
    )
