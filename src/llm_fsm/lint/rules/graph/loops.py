"""Loops that the machine runs through without asking anybody, and transitions to the state
itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from llm_fsm.definition.graph import components
from llm_fsm.definition.names import root_of
from llm_fsm.errors import Level
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted, route
from llm_fsm.lint.graph import first_reached, graph_of, kind_of, path_to, reached_states
from llm_fsm.lint.logics import assigned_keys, transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.cases import Cases
from llm_fsm.lint.solver.guards import GuardCases
from llm_fsm.lint.solver.solver import Reasoning, described, read_names, reasoning

_MOST_WAYS = 200
"""The most paths from a state that are followed."""


def _forced(document: Document, name: str) -> str | None:
    """Return the state that follows at once in any case; None if something is asked or tested."""
    if kind_of(document, name) not in ("converse", "decide"):
        return None
    arcs = reasoning(document).decided[name]
    if not arcs or arcs[0].placed.get("conditions") or arcs[0].target not in document.states:
        return None
    return arcs[0].target


@lint_rule("F108", "warning", at_key=True)
def auto_loop(document: Document) -> Faults:
    """A loop of states runs without asking anybody, and nothing can end it.

    Why it is bad:
    A turn in the loop runs until `limits.auto_steps` stops it, and the user waits for nothing.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "a"}]},
                   "a": {"kind": "decide", "transitions": [{"target_state": "b"}]},
                   "b": {"kind": "decide", "transitions": [{"target_state": "a"}]}}

    Fix:
    Give one of the transitions a condition, or add a state to the loop that waits for the user.
    """
    always = list(_always(document))
    yield from always
    if not always and document.has_schema:
        yield from _for_some(reasoning(document))


def _for_some(known: Reasoning) -> Faults:
    """Find loops of deciding states that read only keys which no program changes."""
    document = known.document
    graph = {
        name: tuple(target for target in targets if kind_of(document, target) == "decide")
        for name, targets in graph_of(document).items()
        if kind_of(document, name) == "decide" and name in reached_states(document)
    }
    for members in components(graph):
        first = first_reached(document, members)
        if len(members) > 1 or first in graph[first]:
            found = _circle(known, first, frozenset(members))
            if found is not None:
                circle, when, level = found
                yield Fault(
                    f"nothing stops the machine from going round when {when}: {route(circle)}",
                    pointer=document.states[first].pointer,
                    hint="lead to a state that waits for the user, or test for what ends it",
                    level=level,
                    path=(*path_to(document, first)[:-1], *circle),
                )


def _circle(
    known: Reasoning, first: str, members: frozenset[str]
) -> tuple[list[str], str, Level] | None:
    """Find a path from a state back to it, and values for which every step of it is taken.

    The program may end a loop by its own key.
    """
    start = _Way([first], known.entries[first], [], [])
    for way in islice(_ways(known, [start], members), _MOST_WAYS):
        if way.states[-1] == first and len(way.states) > 1:
            context = known.witness(way.cases or (), way.kept, way.refused)
            if context is not None and not _is_counted(known, way.kept):
                names = read_names([*way.kept, *way.refused])
                level: Level = "info" if _is_counted(known, way.refused) else "warning"
                return way.states, described(context, names), level
    return None


def _is_counted(known: Reasoning, guards: list[GuardCases]) -> bool:
    """Return true if a guard reads a key that only the program writes, or that the definition sets
    or clears.
    """
    document = known.document
    return any(
        document.source_of(name) == "host" or name in assigned_keys(document)
        for name in (root_of(name) for name in read_names(guards))
    )


def _ways(known: Reasoning, waiting: list[_Way], members: frozenset[str]) -> Iterator[_Way]:
    """Yield paths through deciding states, each step with the cases in which it is taken, breadth
    first.
    """
    for way in waiting:
        yield way
        if way.states[-1] in way.states[:-1]:
            continue
        left = way.cases
        before = way.refused
        for arc in known.decided[way.states[-1]]:
            guard = known.guard(arc)
            if guard is None or not left:
                break
            taken = known.both(left, guard.holds)
            if taken and arc.target in members and arc.target not in way.states[1:]:
                waiting.append(_Way([*way.states, arc.target], taken, [*way.kept, guard], before))
            left = known.both(left, guard.fails)
            before = [*before, guard]


class _Way(NamedTuple):
    """A path of states, the cases in which it is taken, and the guards that are then true or
    false.
    """

    states: list[str]
    cases: Cases | None
    kept: list[GuardCases]
    refused: list[GuardCases]


def _always(document: Document) -> Faults:
    """Find loops in which each state takes its first transition in any case."""
    forced: dict[str, tuple[str, ...]] = {}
    for name in document.states:
        after = _forced(document, name)
        forced[name] = () if after is None or name not in reached_states(document) else (after,)
    for members in components(forced):
        if len(members) == 1 and members[0] not in forced[members[0]]:
            continue
        first = first_reached(document, members)
        circle = [first]
        after = forced[first][0]
        while after != circle[0]:
            circle.append(after)
            after = forced[after][0]
        circle.append(after)
        yield Fault(
            f"nothing stops the machine from going round: {route(circle)}",
            pointer=document.states[first].pointer,
            hint="give a transition of the circle a condition",
            path=(*path_to(document, first)[:-1], *circle),
        )


@lint_rule("T516", "warning")
def retry_loop(document: Document) -> Faults:
    """A task without attempts left leads back to itself.

    Why it is bad:
    It starts again with all its attempts, for ever. So `max_retries` limits nothing.

    Example:
        "states": {"write": {"kind": "task", "purpose": "Write the report", "on_exhausted": "write",
                             "key_results": [{"name": "long", "description": "Has 200 words"}]}}

    Fix:
    Raise `max_retries`, and name another state, `continue` or `raise`.
    """
    for name, state in document.states.items():
        for key, event in (
            ("on_exhausted", "attempts are used up"),
            ("on_timeout", "time is over"),
        ):
            if state.get(key) == name:
                yield Fault(
                    f"when its {event}, state {quoted(name)} starts again, for ever",
                    pointer=f"{state.pointer}/{key}",
                    hint="name another state",
                    path=(name, name),
                )


@lint_rule("F111", "info")
def self_transition(document: Document) -> Faults:
    """A transition leads from a state to itself.

    Why it is bad:
    Staying is always possible and needs no transition. This one makes the menu longer, and models pick it when they
    should ask again.

    Example:
        "states": {"ask": {"purpose": "Ask", "transitions": [
            {"target_state": "ask", "description": "The answer is not clear"}, {"target_state": "bye"}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Remove it, and say in the instructions when to stay.
    """
    # A task may repeat itself by a label.
    for name, transition in transitions_of(document):
        if name is None or transition.get("target_state") != name:
            continue
        if kind_of(document, name) in ("task", "wait", "subflow"):
            continue
        yield Fault(
            f"transition of state {quoted(name)} to itself",
            pointer=transition.pointer + "/target_state",
            hint="staying is always possible and needs no transition",
        )
