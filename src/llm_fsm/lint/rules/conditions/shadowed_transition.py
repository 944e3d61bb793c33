"""Transitions that earlier ones cover."""

from __future__ import annotations

from collections.abc import Iterator

from llm_fsm.errors import Finding
from llm_fsm.lint.document import Arc, Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import lint_rule
from llm_fsm.lint.rules.conditions.unjudged_words import unjudged
from llm_fsm.lint.rules.format.duplicate_entry import repeated
from llm_fsm.lint.solver.solver import Reasoning, reasoning


@lint_rule("C207", "warning")
def shadowed_transition(document: Document) -> Iterator[Finding]:
    """A transition is never taken, because earlier ones hold whenever it does.

    Why it is bad:
    Where conditions alone decide, the first transition that holds is taken; one that comes later and adds
    nothing is dead. Of several transitions to one target, a later one cannot demand what an earlier one does not.

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
    twice, explained = repeated(document), unjudged(document)
    for state, arcs in known.shadowed.items():
        for arc in arcs:
            if not arc.is_global and state not in explained and arc.placed.pointer not in twice:
                yield _dead(known, state, arc)
    for state in document.states:
        if document.kind_of(state) == "converse":
            yield from (found for found in _idle(known, state) if found.pointer not in twice)


def _dead(known: Reasoning, state: str, arc: Arc) -> Finding:
    covering = _covering(known, arc, known.decided(state))
    what = f"state {quoted(state)}: the transition to {quoted(arc.target)} is never taken"
    if covering is None:
        why, hint = "the transitions before it leave no case for it", None
    elif covering.auto and not arc.auto:
        why = f"the auto transition to {quoted(covering.target)} holds whenever it does and comes first"
        hint = "give the auto transition conditions that exclude it"
    else:
        first = f"{quoted(covering.target)} (priority {covering.priority})"
        why = f"the one to {first} comes first and holds whenever it does"
        hint = "give it the lower priority number, or take it out"
    return shadowed_transition.finding(f"{what}: {why}", pointer=arc.placed.pointer, hint=hint)


def _covering(known: Reasoning, arc: Arc, others: tuple[Arc, ...]) -> Arc | None:
    guard = known.guard(arc.placed)
    for other in others:
        before = known.guard(other.placed)
        if other == arc:
            return None
        if guard is not None and before is not None and known.both(guard.holds, before.fails) == ():
            return other
    return None


def _says_when(arc: Arc | None) -> bool:
    """True when words tell the model when to take a transition."""
    if arc is None:
        return False
    placed = arc.placed
    return bool(placed.text("description") or any(item.text("description") for item in arc.conditions))


def _order(arc: Arc) -> tuple[int, bool, int, str]:
    """By priority, and then as they stand in the file, global ones last."""
    return arc.priority, arc.is_global, len(arc.placed.pointer), arc.placed.pointer


def _idle(known: Reasoning, state: str) -> Iterator[Finding]:
    """Moves that the model picks: later ones to a target that demand more than an earlier one does."""
    seen: dict[str, list[Arc]] = {}
    own = known.document.own_from[state]
    targets = {arc.target for arc in own} - {state}
    shared = [arc for target in targets for arc in known.document.shared_to.get(target, ())]
    for arc in sorted((*own, *shared), key=_order):
        earlier = seen.setdefault(arc.target, [])
        guard = known.guard(arc.placed)
        if not arc.auto and guard is not None and not guard.judged and not guard.never and not arc.is_global:
            covering = _covering(known, arc, tuple(earlier[:20]))
            free = None if covering is None else known.guard(covering.placed)
            worded = free is not None and free.judged and _says_when(covering)
            if covering is not None and not worded:
                yield shadowed_transition.finding(
                    f"state {quoted(state)}: the conditions of this transition to {quoted(arc.target)} demand "
                    f"nothing: another one to it, with priority {covering.priority}, holds whenever they do",
                    pointer=arc.placed.pointer,
                    hint="take it out, or give the other one conditions as well",
                    level="info" if free is not None and free.judged else None,
                )
        if not arc.auto:
            earlier.append(arc)
