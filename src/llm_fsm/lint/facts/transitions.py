"""Transitions together with the states that offer them, in order of the file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from llm_fsm.lint.document import Document
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
    own = _by_source(
        arc
        for arc in own_arcs(document)
        if arc.source in reached_states(document) and arc.placed.pointer in pointers
    )
    shared = [arc for arc in global_arcs(document) if arc.placed.pointer in pointers]
    for state in document.states:
        yield from ((state, arc) for arc in own.get(state, ()))
        if shared and state in reached_states(document) and offers_globals(document, state):
            yield from ((state, arc) for arc in shared if arc.target != state)


def arriving(document: Document, state: str) -> Iterable[Arc]:
    """Return the arcs from reached states that lead to a state."""
    into = document.once(_own_arrivals).get(state, ())
    shared = global_arcs_to(document).get(state)
    if shared is None:
        return into
    own = _by_source(into)
    found = list[Arc]()
    for name in document.states:
        if name in reached_states(document):
            found += own.get(name, ())
            if name != state and offers_globals(document, name):
                found += [arc._replace(source=name) for arc in shared]
    return found


def _own_arrivals(document: Document) -> Mapping[str, list[Arc]]:
    found: dict[str, list[Arc]] = {}
    for arc in own_arcs(document):
        if arc.source in reached_states(document):
            found.setdefault(arc.target, []).append(arc)
    return found


def _by_source(arcs: Iterable[Arc]) -> dict[str, list[Arc]]:
    found: dict[str, list[Arc]] = {}
    for arc in arcs:
        found.setdefault(arc.source, []).append(arc)
    return found
