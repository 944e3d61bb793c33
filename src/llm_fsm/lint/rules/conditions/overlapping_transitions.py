"""Transitions that hold at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Arc, Document
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule
from llm_fsm.lint.solver.cases import ANY
from llm_fsm.lint.solver.solver import Reasoning, described, read_names, reasoning

_MOST_ARCS = 40
"""States with more deciding transitions than this are not compared pair by pair."""


@lint_rule("C206", "warning")
def overlapping_transitions(document: Document) -> Iterator[Finding]:
    """Two transitions of equal priority, between which conditions alone decide, can hold at the same time.

    Why it is bad:
    Which of them is taken depends on their order in the file, which looks as if it meant nothing.

    Example:
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
                {"target_state": "sort", "conditions": [{"requires_context_keys": ["guests"]}]}]},
            "sort": {"kind": "decide", "transitions": [
                {"target_state": "small", "conditions": [{"logic": {"<=": [{"var": "guests"}, 8]}}]},
                {"target_state": "large", "conditions": [{"logic": {">=": [{"var": "guests"}, 8]}}]}]},
            "small": {"purpose": "Offer a table"}, "large": {"purpose": "Offer the hall"}}

    Fix:
    Make the conditions exclude each other, or give the transition that is to come first the lower priority.
    """
    known = reasoning(document)
    for state in known.deciding:
        arcs = known.decided(state)
        if state not in document.reached or len(arcs) > _MOST_ARCS:
            continue
        guards = [guard for arc in arcs if (guard := known.guard(arc.placed)) is not None]
        if known.exhausted and not any(guard.holds == (ANY,) for guard in guards):
            continue
        for first, second in combinations(arcs, 2):
            if first.priority == second.priority and first.target != second.target:
                yield from _compared(known, state, arcs, first, second)


def _compared(known: Reasoning, state: str, arcs: tuple[Arc, ...], first: Arc, second: Arc) -> Iterator[Finding]:
    here, there = known.guard(first.placed), known.guard(second.placed)
    if here is None or there is None or here.always or there.always:
        return
    common = known.both(here.holds, there.holds)
    if not common:
        return
    specific = known.both(here.holds, there.fails) == ()
    earlier = [guard for arc in arcs[: arcs.index(first)] if (guard := known.guard(arc.placed)) is not None]
    cases = known.both(known.entries(state), common)
    needed = data_flow(known.document).must[state] & set(read_names([here, there]))
    cases = known.with_set(cases, needed)
    witness = None if not cases else known.witness(cases, [here, there], earlier)
    if witness is not None:
        yield _finding(state, first, second, described(witness, read_names([here, there])), specific=specific)


def _finding(state: str, first: Arc, second: Arc, when: str, *, specific: bool) -> Finding:
    targets = f"{quoted(first.target)} and {quoted(second.target)}"
    return overlapping_transitions.finding(
        f"state {quoted(state)}: the transitions to {targets} both hold when {when}; "
        f"they have the same priority, so their order in the file decides",
        pointer=second.placed.pointer,
        hint="give the one that is to come first a lower priority, or make them exclude each other",
        level="info" if specific else None,
    )
