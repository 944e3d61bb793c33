"""Transitions that overlap, or that earlier ones cover."""

from __future__ import annotations

from itertools import combinations

from llm_fsm._json import steps
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.data_flow import data_flow
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import Arc, Arcs, global_arcs_to, kind_of, own_arcs_from, reached_states
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.rules.conditions.words import unjudged_words
from llm_fsm.lint.rules.format.duplicate_entry import repeated_transition
from llm_fsm.lint.solver.cases import ANY
from llm_fsm.lint.solver.solver import Reasoning, described, read_names, reasoning

_MOST_ARCS = 40
"""States with more deciding transitions than this are not compared pair by pair."""


@lint_rule("C206", "warning")
def overlapping_transitions(document: Document) -> Faults:
    """Two transitions of equal priority can be open at the same time, and only conditions decide between them.

    Why it is bad:
    Their order in the file decides which one is taken. Readers do not expect that.

    Example:
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
                {"target_state": "sort", "conditions": [{"requires_context_keys": ["guests"]}]}]},
            "sort": {"kind": "decide", "transitions": [
                {"target_state": "small", "conditions": [{"logic": {"<=": [{"var": "guests"}, 8]}}]},
                {"target_state": "large", "conditions": [{"logic": {">=": [{"var": "guests"}, 8]}}]}]},
            "small": {"purpose": "Offer a table"}, "large": {"purpose": "Offer the hall"}}

    Fix:
    Make the conditions exclude each other, or give the transition that should win the lower priority number.
    """
    known = reasoning(document)
    for state in known.deciding:
        arcs = known.decided[state]
        if state not in reached_states(document) or len(arcs) > _MOST_ARCS:
            continue
        guards = [guard for arc in arcs if (guard := known.guard(arc)) is not None]
        if known.exhausted and not any(guard.holds == (ANY,) for guard in guards):
            continue
        for first, second in combinations(arcs, 2):
            if first.priority == second.priority and first.target != second.target:
                yield from _compared(known, state, arcs, first, second)


def _compared(known: Reasoning, state: str, arcs: Arcs, first: Arc, second: Arc) -> Faults:
    here = known.guard(first)
    there = known.guard(second)
    if here is None or there is None or here.always or there.always:
        return
    common = known.both(here.holds, there.holds)
    if not common:
        return
    specific = known.both(here.holds, there.fails) == ()
    earlier = [
        guard for arc in arcs[: arcs.index(first)] if (guard := known.guard(arc)) is not None
    ]
    cases = known.both(known.entries[state], common)
    needed = data_flow(known.document).must[state] & set(read_names([here, there]))
    cases = known.with_set(cases, needed)
    witness = None if not cases else known.witness(cases, [here, there], earlier)
    if witness is not None:
        yield _finding(
            state, first, second, described(witness, read_names([here, there])), specific=specific
        )


def _finding(state: str, first: Arc, second: Arc, when: str, *, specific: bool) -> Fault:
    targets = f"{quoted(first.target)} and {quoted(second.target)}"
    return Fault(
        f"state {quoted(state)}: the transitions to {targets} both hold when {when}. "
        "They have the same priority, so their order in the file decides",
        pointer=second.pointer,
        hint="give the one that is to come first a lower priority, or make them exclude each other",
        level="info" if specific else None,
    )


@lint_rule("C207", "warning")
def shadowed_transition(document: Document) -> Faults:
    """A transition is never taken, because an earlier one is open whenever it is.

    Why it is bad:
    If only conditions decide, the first open transition is taken. A later one that adds nothing is dead. Of several
    transitions to one target, a later one must not demand more than an earlier one.

    Example:
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
                {"target_state": "sort", "conditions": [{"requires_context_keys": ["guests"]}]}]},
            "sort": {"kind": "decide", "transitions": [
                {"target_state": "table", "priority": 10},
                {"target_state": "hall", "priority": 20, "conditions": [{"logic": {">": [{"var": "guests"}, 8]}}]}]},
            "table": {"purpose": "Offer a table"}, "hall": {"purpose": "Offer the hall"}}

    Fix:
    Give the more special transition the lower priority number, or take it out.
    """
    known = reasoning(document)
    twice = {found.pointer for found in repeated_transition.findings(document)}
    explained = {steps(found.pointer)[1] for found in unjudged_words.findings(document)}
    for state, arcs in known.shadowed.items():
        for arc in arcs:
            if not arc.is_global and state not in explained and arc.pointer not in twice:
                yield _dead(known, state, arc)
    for state in document.states:
        if kind_of(document, state) == "converse":
            yield from (found for found in _idle(known, state) if found.pointer not in twice)


def _dead(known: Reasoning, state: str, arc: Arc) -> Fault:
    covering = _covering(known, arc, known.decided[state])
    what = f"state {quoted(state)}: the transition to {quoted(arc.target)} is never taken"
    if covering is None:
        why = "the transitions before it leave no case for it"
        hint = None
    elif covering.auto and not arc.auto:
        why = (
            f"the auto transition to {quoted(covering.target)} holds whenever it does and comes"
            " first"
        )
        hint = "give the auto transition conditions that exclude it"
    else:
        first = f"{quoted(covering.target)} (priority {covering.priority})"
        why = f"the one to {first} comes first and holds whenever it does"
        hint = "give it the lower priority number, or take it out"
    return Fault(f"{what}: {why}", pointer=arc.pointer, hint=hint)


def _covering(known: Reasoning, arc: Arc, others: Arcs) -> Arc | None:
    guard = known.guard(arc)
    for other in others:
        before = known.guard(other)
        if other == arc:
            return None
        if guard is not None and before is not None and known.both(guard.holds, before.fails) == ():
            return other
    return None


def _says_when(arc: Arc | None) -> bool:
    """Return true if words tell the model when to take a transition."""
    if arc is None:
        return False
    placed = arc.placed
    return bool(
        placed.text("description") or any(item.text("description") for item in arc.conditions)
    )


def _order(arc: Arc) -> tuple[int, bool, int, str]:
    """Sort by priority, then by position in the file, global transitions last."""
    return arc.priority, arc.is_global, len(arc.pointer), arc.pointer


def _idle(known: Reasoning, state: str) -> Faults:
    """Find moves that the model picks and that demand more than an earlier one to the same
    target.
    """
    seen: dict[str, list[Arc]] = {}
    own = own_arcs_from(known.document)[state]
    shared: list[Arc] = []
    for target in {arc.target for arc in own} - {state}:
        shared += global_arcs_to(known.document).get(target, ())
    for arc in sorted((*own, *shared), key=_order):
        # Auto transitions are no picks: they neither cover a pick nor are covered by one here.
        if arc.auto:
            continue
        earlier = seen.setdefault(arc.target, [])
        guard = known.guard(arc)
        decided = guard is not None and not guard.judged and not guard.never
        if decided and not arc.is_global:
            covering = _covering(known, arc, tuple(earlier[:20]))
            free = None if covering is None else known.guard(covering)
            worded = free is not None and free.judged and _says_when(covering)
            if covering is not None and not worded:
                yield Fault(
                    f"state {quoted(state)}: the conditions of this transition to"
                    f" {quoted(arc.target)} demand nothing."
                    f" Another one to it, with priority {covering.priority}, holds whenever they do",
                    pointer=arc.pointer,
                    hint="take it out, or give the other one conditions as well",
                    level="info" if free is not None and free.judged else None,
                )
        earlier.append(arc)
