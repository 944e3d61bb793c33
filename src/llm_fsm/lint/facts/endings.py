"""The states in which conversations end, and the paths there."""

from __future__ import annotations

from llm_fsm.definition.graph import Graph
from llm_fsm.lint.document import Document
from llm_fsm.lint.graph import (
    Arc,
    calls_definition,
    global_arcs,
    graph_of,
    kind_of,
    offers_globals,
    own_arcs,
    own_arcs_from,
)


def ends(document: Document) -> frozenset[str]:
    """Return the states that end a conversation or a run: final ones, and work without a further
    transition.
    """
    return frozenset(
        name
        for name, state in document.states.items()
        if (kind := kind_of(document, name)) == "final"
        or (kind in ("task", "subflow") and not state.get("transitions"))
    )


def graph_without_returns(document: Document) -> Graph:
    """Return the graph without digressions, because a transition that returns ends no
    conversation.
    """
    if not any(
        placed.get("return") is True for placed in document.root.items("global_transitions")
    ):
        return graph_of(document)
    returning = {arc.target for arc in global_arcs(document) if _returns(arc)}
    returning -= {arc.target for arc in global_arcs(document) if not _returns(arc)}
    graph = dict(graph_of(document))
    for name, targets in graph_of(document).items() if returning else ():
        if offers_globals(document, name) or calls_definition(document, name):
            kept = {name, *(arc.target for arc in own_arcs_from(document)[name])}
            graph[name] = tuple(
                after for after in targets if after not in returning or after in kept
            )
    return graph


def unsure(document: Document) -> frozenset[str]:
    """Return the states with a transition to an unknown state, so that their paths are unknown."""
    own = {arc.source for arc in own_arcs(document) if arc.target not in document.states}
    if any(arc.target not in document.states for arc in global_arcs(document)):
        own.update(name for name in document.states if offers_globals(document, name))
    return frozenset(own)


def _returns(arc: Arc) -> bool:
    return arc.placed.get("return") is True
