"""The states in which conversations end, and the paths there."""

from __future__ import annotations

from llm_fsm.definition.graph import Graph
from llm_fsm.lint.document import Arc, Document


def ends(document: Document) -> frozenset[str]:
    """Return the states that end a conversation or a run: final ones, and work without a further transition."""
    return frozenset(
        name
        for name, state in document.states.items()
        if (kind := document.kind_of(name)) == "final"
        or (kind in ("task", "subflow") and not state.value.get("transitions"))
    )


def graph_without_returns(document: Document) -> Graph:
    """Return the graph without digressions, because a transition that returns ends no conversation."""
    if not any(placed.value.get("return") is True for placed in document.root.items("global_transitions")):
        return document.graph
    returning = {arc.target for arc in document.shared if _returns(arc)}
    returning -= {arc.target for arc in document.shared if not _returns(arc)}
    graph = dict(document.graph)
    for name, targets in document.graph.items() if returning else ():
        if document.offers(name) or document.calls(name):
            kept = {name, *(arc.target for arc in document.own_from[name])}
            graph[name] = tuple(after for after in targets if after not in returning or after in kept)
    return graph


def unsure(document: Document) -> frozenset[str]:
    """Return the states with a transition to an unknown state, so that their paths are unknown."""
    own = {arc.source for arc in document.own if arc.target not in document.states}
    if any(arc.target not in document.states for arc in document.shared):
        own.update(name for name in document.states if document.offers(name))
    return frozenset(own)


def _returns(arc: Arc) -> bool:
    return arc.placed.value.get("return") is True
