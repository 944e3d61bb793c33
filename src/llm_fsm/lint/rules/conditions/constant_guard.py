"""Transitions and conditions with the same outcome for every value of their keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any

from llm_fsm.conditions.compiler import ConditionError
from llm_fsm.conditions.operators import COMPARISONS, ORDERINGS
from llm_fsm.lint.document import Document, Placed, once_each
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.graph import states_of_kind
from llm_fsm.lint.logics import compiled_rules, conditions_of, transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.rules.conditions.constant_expression import constants
from llm_fsm.lint.rules.conditions.impossible_comparison import impossible_comparison
from llm_fsm.lint.rules.conditions.value_mismatch import unknown_state_in_condition
from llm_fsm.lint.solver.guards import GuardCases, guard_of
from llm_fsm.lint.solver.mismatches import mismatches
from llm_fsm.lint.solver.outcomes import operators_in
from llm_fsm.lint.solver.solver import Reasoning, read_names, reasoning
from llm_fsm.lint.solver.value_sets import EVERYTHING, NUMBERS, SET, TEXTS, UNSET, ValueSet, kinds


@lint_rule("C203", "warning")
def never_holds(document: Document) -> Faults:
    """The conditions of a transition can never be true, with any values of the keys.

    Why it is bad:
    The transition is never taken. Its purpose is never served, and no test run shows why.

    Example:
        "context_schema": {"type": "object", "properties": {"guests": {"type": "integer", "maximum": 8}}},
        "states": {"hello": {"purpose": "Ask how many come", "required_context_keys": ["guests"], "transitions": [
            {"target_state": "large", "conditions": [{"logic": {">": [{"var": "guests"}, 8]}}]}]},
            "large": {"purpose": "Pass the party on to a colleague"}}

    Fix:
    Correct the condition, or the schema of the key, or take the transition out.
    """
    known = reasoning(document)
    explained = {owner.partition("/conditions/")[0] for owner in _explained(document)}
    for _, transition in transitions_of(document):
        guard = known.guard(transition)
        if guard is None or transition.pointer in explained:
            continue
        if guard.never or _seems_never(known, guard, transition):
            names = read_names([guard])
            if not any((known.keys.domain(name) & SET).empty for name in names):
                yield _finding(known, transition)


@once_each
def _explained(document: Document) -> Iterator[str]:
    """Yield the pointers of conditions, or of parts of them, that another rule reports."""
    for mismatch in mismatches(document).values():
        yield mismatch.comparison.owner.pointer
    for owner, _, _ in constants(document):
        yield owner
    for rule in (impossible_comparison, unknown_state_in_condition):
        for found in rule.findings(document):
            yield found.pointer


def _seems_never(known: Reasoning, guard: GuardCases, transition: Placed) -> bool:
    """Return true if no case is left in which keys without a schema have only the values that
    conditions compare.
    """
    logics = [condition.get("logic") for condition in transition.items("conditions")]
    ruled = [logic for logic in logics if logic is not None]
    names = [name for name in read_names([guard]) if known.keys.domain(name) == EVERYTHING]
    operators = frozenset(operators_in(ruled)) if names else frozenset()
    by_type = _NUMBERS if operators & ORDERINGS else _OF_TYPE
    usual = {name: found for name in names if (found := _usual(known, name, by_type)) is not None}
    if not operators <= _USUAL or not any(_is_told_twice(name, guard, ruled) for name in usual):
        return False
    narrowed = guard_of(
        guard.keys,
        ruled,
        lambda name: usual.get(name) or known.keys.domain(name),
        compiled=guard.rules,
    )
    return narrowed.never and not guard.test(dict.fromkeys(usual, _NO_NUMBER))


def _is_told_twice(name: str, guard: GuardCases, logics: list[Any]) -> bool:
    return name in guard.keys or json.dumps(logics).count(json.dumps(name)) > 1


def _usual(known: Reasoning, name: str, by_type: Mapping[str, ValueSet]) -> ValueSet | None:
    """Return the compared values of a key without a schema, by type; None for other keys and
    types.
    """
    types = known.keys.compared.get(name, set())
    if not types or not types <= by_type.keys() or known.keys.domain(name) != EVERYTHING:
        return None
    return reduce(or_, (by_type[found] for found in types), UNSET)


def _finding(known: Reasoning, transition: Placed) -> Fault:
    target = transition.get("target_state")
    to = ""
    if isinstance(target, str):
        to = f" to {quoted(target)}"
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
            return Fault(
                f"the transition{to} can never be taken: this condition cannot hold, {why}",
                pointer=condition.pointer + place,
            )
    return Fault(
        f"the transition{to} can never be taken: its conditions contradict each other",
        pointer=transition.pointer + "/conditions",
        hint="all conditions of a transition must hold; write two transitions where one of them"
        " is enough",
    )


def _is_absurd(condition: Placed) -> bool:
    """Return true if a condition cannot be true even with keys that may have any value."""
    keys = condition.names("requires_context_keys")
    logic = condition.get("logic")
    try:
        return guard_of(keys, [] if logic is None else [logic], lambda _: EVERYTHING).never
    except ConditionError:
        return False


_NO_NUMBER = "text"
_USUAL = COMPARISONS | {"and", "or", "!", "!!", "if", "?:", "var", "has_context", "missing"}
_NUMBERS = {"number": NUMBERS}
_OF_TYPE = {**_NUMBERS, "str": TEXTS, "bool": kinds("true", "false")}


@lint_rule("C204", "info")
def always_holds(document: Document) -> Faults:
    """The logic of a condition is true in every case, so it decides nothing.

    Why it is bad:
    The author expected it to close the transition in some cases.

    Example:
        "context_schema": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 18}}},
        "states": {"hello": {"purpose": "Ask for the age", "required_context_keys": ["age"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"or": [{">=": [{"var": "age"}, 18]},
                                                                     {"!": {"has_context": "age"}}]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Take the logic out, or correct it.
    """
    known = reasoning(document)
    explained = {owner.partition("/logic")[0] for owner in _explained(document)}
    for condition in conditions_of(document):
        rule = compiled_rules(document).get(condition.pointer + "/logic")
        if rule is None or condition.pointer in explained:
            continue
        guard = known.guard_of([condition])
        if guard is not None and guard.always and rule.reads:
            names = ", ".join(map(quoted, sorted(rule.reads)))
            yield Fault(
                f"this is true in any case, with any value of {names}",
                pointer=condition.pointer + "/logic",
            )


@lint_rule("F119", "warning")
def left_at_once(document: Document) -> Faults:
    """A state that asks the user for something has an automatic transition that is always open.

    Why it is bad:
    Automatic transitions are checked when a state is entered, before the model speaks. So the user is never asked.

    Example:
        "states": {"hello": {"purpose": "Greet", "transitions": [{"target_state": "name"}]},
                   "name": {"purpose": "Ask for the name", "required_context_keys": ["name"],
                            "transitions": [{"target_state": "bye", "auto": true}]}, "bye": {"purpose": "Say goodbye"}}

    Fix:
    Let the transition demand the collected keys: `"conditions": [{"requires_context_keys": ["name"]}]`.
    """
    known = reasoning(document)
    for name, state in states_of_kind(document, "converse"):
        wanted = state.names("required_context_keys")
        for arc in known.decided[name] if wanted else ():
            guard = known.guard(arc)
            if guard is not None and guard.always and not arc.is_global:
                yield Fault(
                    f"state {quoted(name)} is left at once, before the user is asked for"
                    f" {quoted(wanted[0])}",
                    pointer=arc.pointer + "/auto",
                    hint=f'let it demand the key: "conditions": [{{"requires_context_keys":'
                    f" [{quoted(wanted[0])}]}}]",
                )
                break
