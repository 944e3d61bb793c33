"""The conditions of a transition can never hold, whatever values the keys have.

Why it is bad:
The transition is never taken. What it was written for does not happen, and no test run shows why.

Example:
    "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "maximum": 8}}},
    "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
        {"target_state": "large", "conditions": [{"logic": {">": [{"var": "guests"}, 8]}}]}]},
        "large": {"purpose": "Pass the party on to a colleague"}}

Fix:
Correct the condition, or the schema of the key, or take the transition out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any

from llm_fsm.conditions.compiler import ConditionError
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Placed, Subject
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.rules.conditions.constant_expression import constants
from llm_fsm.lint.rules.conditions.impossible_comparison import impossible
from llm_fsm.lint.rules.graph.unknown_state_in_condition import unknown_states
from llm_fsm.lint.solver.comparisons import ORDERINGS
from llm_fsm.lint.solver.guards import Guard, guard_of
from llm_fsm.lint.solver.mismatches import misfits
from llm_fsm.lint.solver.outcomes import operators_in
from llm_fsm.lint.solver.solver import Reasoning, read_names, reasoning
from llm_fsm.lint.solver.value_sets import EVERYTHING, NUMBERS, SET, TEXTS, UNSET, ValueSet, kinds


def check(subject: Subject) -> Iterator[Finding]:
    """Look for transitions without a case in which they are open, and for what closes them."""
    known = reasoning(subject)
    owners = [misfit.comparison.owner.pointer for misfit in misfits(subject).values()]
    owners += [owner for owner, _, _ in constants(subject)]
    owners += [found.pointer for found in (*impossible(subject), *unknown_states(subject))]
    explained = {owner.partition("/conditions/")[0] for owner in owners}
    for _, transition in subject.transitions():
        guard = known.guard(transition)
        if guard is None or transition.pointer in explained:
            continue
        if guard.never or _seems_never(known, guard, transition):
            names = read_names([guard])
            if not any((known.domain(name) & SET).empty for name in names):
                yield _finding(known, transition)


def _seems_never(known: Reasoning, guard: Guard, transition: Placed) -> bool:
    """True when no case is left where keys without a schema hold only what conditions compare them with."""
    logics = [condition.value.get("logic") for condition in transition.items("conditions")]
    ruled = [logic for logic in logics if logic is not None]
    operators = frozenset(operators_in(ruled))
    by_type = _NUMBERS if operators & ORDERINGS else _OF_TYPE
    usual = {name: found for name in read_names([guard]) if (found := _usual(known, name, by_type)) is not None}
    if not operators <= _COMPARING or not any(_is_told_twice(name, guard, ruled) for name in usual):
        return False
    narrowed = guard_of(guard.keys, ruled, lambda name: usual.get(name) or known.domain(name), compiled=guard.rules)
    return narrowed.never and not guard.test(dict.fromkeys(usual, _NO_NUMBER))


def _is_told_twice(name: str, guard: Guard, logics: list[Any]) -> bool:
    return name in guard.keys or json.dumps(logics).count(json.dumps(name)) > 1


def _usual(known: Reasoning, name: str, by_type: Mapping[str, ValueSet]) -> ValueSet | None:
    """The values that a key without a schema is compared with, by type; None for other keys and other types."""
    types = known.compared.get(name, set())
    if not types or not types <= by_type.keys() or known.domain(name) != EVERYTHING:
        return None
    return reduce(or_, (by_type[found] for found in types), UNSET)


def _finding(known: Reasoning, transition: Placed) -> Finding:
    target = transition.value.get("target_state")
    to = f" to {quoted(target)}" if isinstance(target, str) else ""
    conditions = list(transition.items("conditions"))
    for condition in conditions:
        guard = known.guard_of([condition])
        if guard is not None and guard.never:
            shown = ", ".join(map(quoted, sorted(read_names([guard]))))
            why = (
                "it contradicts itself"
                if _is_absurd(condition)
                else f"no value that {shown} may have fits it"
            )
            place = "/logic" if "logic" in condition.value else ""
            return RULE.finding(
                f"the transition{to} can never be taken: this condition cannot hold, {why}",
                pointer=condition.pointer + place,
            )
    return RULE.finding(
        f"the transition{to} can never be taken: its conditions contradict each other",
        pointer=transition.pointer + "/conditions",
        hint="all conditions of a transition must hold; write two transitions where one of them is enough",
    )


def _is_absurd(condition: Placed) -> bool:
    """True when a condition cannot hold even with keys that may have any value."""
    keys = [name for _, name in condition.texts("requires_context_keys")]
    logic = condition.value.get("logic")
    try:
        return guard_of(keys, [] if logic is None else [logic], lambda _: EVERYTHING).never
    except ConditionError:
        return False


_NO_NUMBER = "text"
_COMPARING = frozenset(
    {
        *("and", "or", "!", "!!", "if", "?:", "var", "has_context", "missing"),
        *("==", "!=", "===", "!==", *ORDERINGS),
    }
)
_NUMBERS = {"number": NUMBERS}
_OF_TYPE = {**_NUMBERS, "str": TEXTS, "bool": kinds("true", "false")}

RULE = Rule(name="never-holds", code="C203", level="warning", check=check)
