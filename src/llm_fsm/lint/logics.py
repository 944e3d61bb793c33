"""The rules of a document as written and as compiled: those of conditions, and those under
`set`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from llm_fsm._json import object_at, step
from llm_fsm.conditions.compiler import CompiledRule, ConditionError, compile_rule
from llm_fsm.lint.document import Document, Placed, once


class Assigned(NamedTuple):
    """A key that a definition sets. `state`: its state; None for a global transition. `owner`: the
    object with the `set`.
    """

    state: str | None
    owner: Placed
    key: str
    pointer: str
    logic: Any


@once
def transitions_of(document: Document) -> Sequence[tuple[str | None, Placed]]:
    """(state id or None for a global one, transition object) of every transition."""
    transitions: list[tuple[str | None, Placed]] = []
    for name, state in document.states.items():
        for placed in state.items("transitions"):
            transitions.append((name, placed))
    for placed in document.root.items("global_transitions"):
        transitions.append((None, placed))
    return transitions


@once
def conditions_of(document: Document) -> Sequence[Placed]:
    """The condition objects of all transitions."""
    conditions: list[Placed] = []
    for _, transition in transitions_of(document):
        conditions += transition.items("conditions")
    return conditions


@once
def assignments_of(document: Document) -> tuple[Assigned, ...]:
    """Every rule under a `set`, as written."""
    owners = [*document.states.items(), *transitions_of(document)]
    assignments = []
    for state, placed in owners:
        for key, logic in object_at(placed.value, "set").items():
            pointer = f"{placed.pointer}/set{step(key)}"
            assignments.append(Assigned(state, placed, key, pointer, logic))
    return tuple(assignments)


@once
def assigned_keys(document: Document) -> frozenset[str]:
    """The keys that the definition itself sets or clears."""
    keys = {assignment.key for assignment in assignments_of(document)}
    owners = [*document.states.values()]
    owners += [placed for _, placed in transitions_of(document)]
    for owner in owners:
        keys.update(key for _, key in owner.texts("clear"))
    return frozenset(keys)


@once
def logics_of(document: Document) -> Sequence[tuple[str, Any]]:
    """(pointer, rule as written) of every condition that has logic, and of every key that is
    set.
    """
    logics = []
    for condition in conditions_of(document):
        logic = condition.get("logic")
        if logic is not None:
            logics.append((condition.pointer + "/logic", logic))
    for assignment in assignments_of(document):
        logics.append((assignment.pointer, assignment.logic))
    return logics


@once
def compiled_rules(document: Document) -> Mapping[str, CompiledRule]:
    """Pointer of a condition's `logic`, or of a rule under `set`, to the compiled rule.

    Faulty rules are left out. Rules that are written alike share one compiled rule: large files
    repeat a few rules thousands of times, and what is reasoned about one holds for all.
    """
    by_pointer = {}
    by_text = {}
    for pointer, logic in logics_of(document):
        text = repr(logic)
        if text not in by_text:
            by_text[text] = _compiled(logic)
        rule = by_text[text]
        if rule is not None:
            by_pointer[pointer] = rule
    return by_pointer


def _compiled(logic: Any) -> CompiledRule | None:
    try:
        return compile_rule(logic)
    except ConditionError:
        return None
