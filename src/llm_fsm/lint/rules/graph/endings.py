"""Machines, and groups of states, without a path to an end."""

from __future__ import annotations

from llm_fsm._text import listed
from llm_fsm.definition.graph import components, reachable, shortest_round
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.endings import ends, graph_without_returns, unsure
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import (
    first_reached,
    global_arcs,
    graph_of,
    offers_globals,
    own_arcs_from,
    path_to,
    reached_states,
)
from llm_fsm.lint.rule import Fault, Faults, lint_rule


@lint_rule("F107", "info", at_key=True)
def no_final_state(document: Document) -> Faults:
    """No state of the machine ends a conversation.

    Why it is bad:
    Open-ended companions are made so on purpose. Otherwise the end was forgotten. Conversations stay open, and
    `turn.ended` is never true.

    Example:
        "states": {"ask": {"purpose": "Ask", "transitions": [{"target_state": "answer"}]},
                   "answer": {"purpose": "Answer", "transitions": [{"target_state": "ask"}]}}

    Fix:
    Add a state without transitions and lead to it. Or switch this rule off under `x-lint` and say why.
    """
    if document.states and not ends(document):
        yield Fault(
            "no state ends the conversation",
            pointer="/states",
            hint="a state without transitions is an end; open-ended machines need none",
        )


@lint_rule("F104", "warning")
def no_way_to_an_end(document: Document) -> Faults:
    """The machine has states that end a conversation, and none of them can be reached from the initial state.

    Why it is bad:
    No conversation ever ends, although its author meant it to.

    Example:
        "states": {"ask": {"purpose": "Ask", "transitions": [{"target_state": "answer"}]},
                   "answer": {"purpose": "Answer", "transitions": [{"target_state": "ask"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Add the transition that leads to the end.
    """
    last = ends(document)
    if document.initial is None or not last:
        return
    if reachable(graph_without_returns(document), [document.initial]) & (last | unsure(document)):
        return
    names = listed((quoted(name) for name in document.states if name in last), 4)
    yield Fault(
        f"no way leads from {quoted(document.initial)} to a state that ends the conversation"
        f" ({names})",
        pointer="/initial_state",
        hint="add a transition that leads there",
    )


@lint_rule("F105", "warning", at_key=True)
def trap(document: Document) -> Faults:
    """A group of states leads only to each other, while other conversations of the machine can end.

    Why it is bad:
    A user who gets in never gets out. The conversation cannot end.

    Example:
        "states": {"ask": {"purpose": "Ask", "transitions": [{"target_state": "a"}, {"target_state": "bye"}]},
                   "a": {"purpose": "Explain", "transitions": [{"target_state": "b"}]},
                   "b": {"purpose": "Explain more", "transitions": [{"target_state": "a"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Add a transition that leads out of the group.
    """
    last = ends(document)
    graph = graph_without_returns(document)
    unknown = unsure(document)
    if document.initial is None or not reachable(graph, [document.initial]) & last:
        return
    reached = reached_states(document)
    inner = {name: graph[name] for name in document.states if name in reached}
    for members in components(inner):
        group = frozenset(members)
        if len(members) < 2 or group & (last | unknown):
            continue
        if not all(group.issuperset(graph[one]) for one in members):
            continue
        entry = first_reached(document, members)
        names = listed((quoted(name) for name in document.states if name in group), 6)
        yield Fault(
            f"no way leads out of the states {names}, and none of them ends the conversation",
            pointer=document.states[entry].pointer,
            hint="add a transition that leads out",
            path=path_to(document, entry) + shortest_round(graph, entry)[1:],
        )


@lint_rule("F106", "warning", at_key=True)
def self_only_state(document: Document) -> Faults:
    """Every transition of a state leads back to the state itself.

    Why it is bad:
    Staying needs no transition, and nothing else is allowed. So the conversation never leaves this state.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "menu"}]},
                   "menu": {"purpose": "Show the menu", "transitions": [{"target_state": "menu"}]}}

    Fix:
    Lead one of them elsewhere. Or remove them all, if the conversation should end here.
    """
    # A time-out that leads away is a way out. A single state may run on.
    if len(document.states) == 1:
        return
    for name, own in own_arcs_from(document).items():
        arcs = own
        if offers_globals(document, name):
            arcs = (*own, *global_arcs(document))
        leaves = any(target != name for target in graph_of(document)[name])
        if not own or leaves or any(arc.target != name for arc in arcs):
            continue
        yield Fault(
            f"state {quoted(name)} leads only to itself and is never left",
            pointer=document.states[name].pointer,
            hint="add a transition to another state, or remove them all if this is the end",
            path=path_to(document, name),
        )
