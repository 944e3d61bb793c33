"""Where conversations end, and which ways lead there."""

from __future__ import annotations

from llm_fsm.graph import Graph
from llm_fsm.lint.subject import Arc, Subject


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
    every = {(arc.source, arc.target) for arc in subject.arcs}
    plain = {(arc.source, arc.target) for arc in subject.arcs if not _returns(arc)}
    gone = every - plain
    if not gone:
        return subject.graph
    return {
        name: tuple(after for after in targets if (name, after) not in gone)
        for name, targets in subject.graph.items()
    }


def unsure(subject: Subject) -> frozenset[str]:
    """States with a transition to an unknown state: where it leads is not known before that is mended."""
    return frozenset(arc.source for arc in subject.arcs if arc.target not in subject.states)


def _returns(arc: Arc) -> bool:
    return arc.is_global and arc.placed.value.get("return") is True
