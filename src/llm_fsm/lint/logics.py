"""The rules of a document as written and as compiled: those of conditions, and those under
`set`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from llm_fsm._json import object_at, step
from llm_fsm.conditions.compiler import CompiledRule, ConditionError, compile_rule
from llm_fsm.lint.document import Document, Pairs, Placed, once, once_each


class Assigned(NamedTuple):
    """A key that a definition sets. `state`: its state; None for a global transition. `owner`: the
    object with the `set`.
    """

    state: str | None
    owner: Placed
    key: str
    pointer: str
    logic: Any


@once_each
def transitions_of(document: Document) -> Iterator[tuple[str | None, Placed]]:
    """(state id or None for a global one, transition object) of every transition."""
    for name, state in document.states.items():
        for placed in state.items("transitions"):
            yield name, placed
    for placed in document.root.items("global_transitions"):
        yield None, placed


@once_each
def conditions_of(document: Document) -> Iterator[Placed]:
    """The condition objects of all transitions."""
    for _, transition in transitions_of(document):
        yield from transition.items("conditions")


def owners_of(document: Document) -> tuple[tuple[str | None, Placed], ...]:
    """Return every object that may set or clear keys, as `transitions_of` does."""
    return (*document.states.items(), *transitions_of(document))


@once_each
def assignments_of(document: Document) -> Iterator[Assigned]:
    """Every rule under a `set`, as written."""
    for state, placed in owners_of(document):
        for key, logic in object_at(placed.value, "set").items():
            yield Assigned(state, placed, key, f"{placed.pointer}/set{step(key)}", logic)


@once_each
def clearings_of(document: Document) -> Pairs:
    """(pointer, key) of every key that is cleared."""
    for _, owner in owners_of(document):
        yield from owner.texts("clear")


@once
def assigned_keys(document: Document) -> frozenset[str]:
    """The keys that the definition itself sets or clears."""
    keys = {assignment.key for assignment in assignments_of(document)}
    return frozenset(keys.union(key for _, key in clearings_of(document)))


@once_each
def logics_of(document: Document) -> Iterator[tuple[str, Any]]:
    """(pointer, rule as written) of every condition that has logic, and of every key that is
    set.
    """
    for condition in conditions_of(document):
        logic = condition.get("logic")
        if logic is not None:
            yield condition.pointer + "/logic", logic
    for assignment in assignments_of(document):
        yield assignment.pointer, assignment.logic


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
