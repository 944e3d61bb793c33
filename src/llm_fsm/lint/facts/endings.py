"""Where conversations end, and which ways lead there."""

from __future__ import annotations

from llm_fsm.definition.graph import Graph
from llm_fsm.lint.document import Arc, Subject


def ends(subject: Subject) -> frozenset[str]:
    """States that end a conversation or a run: final ones, and work that leads nowhere further."""
    return frozenset(
        name
        for name, state in subject.states.items()
        if (kind := subject.kind_of(name)) == "final"
        or (kind in ("task", "subflow") and not state.value.get("transitions"))
    )


def ways(subject: Subject) -> Graph:
    """The graph without digressions: a transition that comes back ends no conversation."""
    if not any(placed.value.get("return") is True for placed in subject.root.items("global_transitions")):
        return subject.graph
    returning = {arc.target for arc in subject.shared if _returns(arc)}
    returning -= {arc.target for arc in subject.shared if not _returns(arc)}
    graph = dict(subject.graph)
    for name, targets in subject.graph.items() if returning else ():
        if subject.offers(name) or subject.calls(name):
            kept = {name, *(arc.target for arc in subject.own_from[name])}
            graph[name] = tuple(after for after in targets if after not in returning or after in kept)
    return graph


def unsure(subject: Subject) -> frozenset[str]:
    """States with a transition to an unknown state: where it leads is not known before that is mended."""
    own = {arc.source for arc in subject.own if arc.target not in subject.states}
    if any(arc.target not in subject.states for arc in subject.shared):
        own.update(name for name in subject.states if subject.offers(name))
    return frozenset(own)


def _returns(arc: Arc) -> bool:
    return arc.placed.value.get("return") is True
