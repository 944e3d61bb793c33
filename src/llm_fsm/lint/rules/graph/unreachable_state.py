"""States and transitions that no conversation reaches."""

from __future__ import annotations

from llm_fsm._json import grouped, json_text
from llm_fsm._text import listed, nearest
from llm_fsm.definition.graph import reachable, reversed_graph, shortest_path
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.paths import routes
from llm_fsm.lint.facts.suggestions import quoted, route
from llm_fsm.lint.graph import (
    Arc,
    calls_definition,
    digressions_of,
    global_arcs,
    graph_of,
    offers_globals,
    own_arcs,
    path_to,
    reached_states,
)
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.solver import read_names, reasoning


@lint_rule("C214", "warning")
def unreachable_by_guards(document: Document) -> Faults:
    """A state can be reached only through transitions that are never taken.

    Why it is bad:
    A drawing of the machine shows a path to it, but no conversation ever arrives.

    Example:
        "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "maximum": 8}}},
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
            {"target_state": "large", "conditions": [{"logic": {">": [{"var": "guests"}, 8]}}]},
            {"target_state": "small", "conditions": [{"requires_context_keys": ["guests"]}]}]},
            "small": {"purpose": "Offer a table"}, "large": {"purpose": "Pass the party on to a colleague"}}

    Fix:
    Correct the conditions on the path, or remove the state.
    """
    initial = document.initial
    if initial is None:
        return
    alive = routes(document).alive
    lost = [
        state
        for state in document.states
        if state in reached_states(document) and state not in alive
    ]
    if not lost:
        return
    first: set[str] = set()
    for state in alive:
        first.update(graph_of(document)[state])
    for state in lost:
        if state not in first:
            continue
        path = shortest_path(graph_of(document), initial, [state])
        behind = len(reachable(graph_of(document), [state]) - alive) - 1
        more = f", and so can {behind} more behind it" if behind else ""
        yield Fault(
            f"state {quoted(state)} can be reached only by transitions that are never"
            f" taken{more}: {route(path)}",
            pointer=document.states[state].pointer,
            path=path,
        )


_MOST_VALUES = 4


@lint_rule("C220", "warning")
def closed_on_every_way(document: Document) -> Faults:
    """A transition is never taken, because the conditions on every path to its state exclude its own.

    Why it is bad:
    The path tests the same key with another value, and nothing may change the key in between.

    Example:
        "context_schema": {"type": "object", "properties": {"topic": {"type": "string", "enum": ["bill", "order"]}}},
        "states": {"hello": {"purpose": "Ask what it is about", "required_context_keys": ["topic"], "transitions": [
                {"target_state": "bills", "conditions": [{"logic": {"==": [{"var": "topic"}, "bill"]}}]}]},
            "bills": {"kind": "decide", "transitions": [
                {"target_state": "order", "priority": 1,
                 "conditions": [{"logic": {"==": [{"var": "topic"}, "order"]}}]},
                {"target_state": "bill", "priority": 2}]},
            "order": {"purpose": "Help with the order"}, "bill": {"purpose": "Help with the bill"}}

    Fix:
    Lead another path to the state, correct one of the conditions, or remove the transition.
    """
    for arc in routes(document).closed():
        what = f"state {quoted(arc.source)}: the transition to {quoted(arc.target)} is never taken"
        yield Fault(
            f"{what}: {_why(document, arc)}",
            pointer=arc.pointer,
            hint="nobody may write the key in between; correct one of the conditions",
            path=path_to(document, arc.source),
        )


def _why(document: Document, arc: Arc) -> str:
    """Describe the first key whose values here exclude the ones that the transition demands."""
    guard = reasoning(document).guard(arc)
    for name in read_names([] if guard is None else [guard]):
        there = routes(document).there(arc.source, name)
        wanted = [
            case.sets[name] for case in (guard.holds if guard else None) or () if name in case.sets
        ]
        values = there.finite(_MOST_VALUES)
        if values and wanted and all((there & demanded).empty for demanded in wanted):
            listed = " or ".join(map(_shown, values))
            return f"on every way here {quoted(name)} is {listed[:120]}"
    return "the conditions on every way here exclude it"


def _shown(value: object) -> str:
    return "not set" if value is None else json_text(value)


_GUESSED = 20


def _misspelt(document: Document) -> set[str | None]:
    """Return the states that unknown targets probably mean. Correcting those targets is enough."""
    own = grouped((arc.source, arc.target) for arc in own_arcs(document))
    shared = [arc.target for arc in global_arcs(document)]
    named = {}
    for name in document.states:
        named.update(dict.fromkeys(own.get(name, ())))
        if offers_globals(document, name):
            named.update(dict.fromkeys(shared))
            shared = []
    unknown = [target for target in named if target not in document.states]
    return {nearest(target, document.states) for target in unknown[:_GUESSED]}


@lint_rule("F103", "warning", at_key=True)
def unreachable_state(document: Document) -> Faults:
    """No path from the initial state leads to a state.

    Why it is bad:
    The state is never used. Mostly a transition to it is missing, or names another state.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "bye"}]},
                   "help": {"purpose": "Explain the rules", "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}}

    Fix:
    Lead a transition to it, or remove it. If the host starts conversations in it, say so under `x-lint`.
    """
    lost = [name for name in document.states if name not in reached_states(document)]
    first = document.initial
    if not lost or (
        first is not None and f"{document.states[first].pointer}/transitions" in document.unread
    ):
        return
    before = reversed_graph(graph_of(document))
    misspelt = _misspelt(document)
    for name in lost:
        if name in misspelt:
            continue
        others = [quoted(other) for other in before[name] if other != name]
        why = "no transition leads there"
        if others:
            why = f"only {listed(others, 4)} would lead there, unreachable too"
        yield Fault(
            f"state {quoted(name)} is never reached: {why}",
            pointer=document.states[name].pointer,
            hint="add a transition to it, or remove it",
        )


@lint_rule("F115", "warning")
def unreachable_global(document: Document) -> Faults:
    """A global transition is offered by no state that a conversation can be in.

    Why it is bad:
    Global transitions belong to `converse` states other than their own target. Without such a state, this one is never
    open.

    Example:
        "initial_state": "help", "states": {"help": {"purpose": "Explain", "transitions": [{"target_state": "bye"}]},
                   "bye": {"purpose": "Say goodbye"}},
        "global_transitions": [{"target_state": "help", "description": "The user is lost"}]

    Fix:
    Remove it, or let a conversation reach a state that offers it.
    """
    offering = {name for name in reached_states(document) if offers_globals(document, name)}
    calling = {name for name in reached_states(document) if calls_definition(document, name)}
    for arc in global_arcs(document):
        offered = offering
        if arc.target in digressions_of(document):
            offered = offering | calling
        if arc.target in document.states and not (len(offered) > 1 or offered - {arc.target}):
            yield Fault(
                f"no state offers the global transition to {quoted(arc.target)}",
                pointer=arc.pointer,
                hint="it is offered in converse states other than its target; this machine"
                " reaches none",
            )
