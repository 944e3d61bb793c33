"""Conditions and comparisons that have the same outcome every time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any

from llm_fsm.conditions.coercion import Meter, is_number, is_whole, number_of
from llm_fsm.conditions.compiler import ConditionError, compile_rule, test
from llm_fsm.conditions.operators import CLOCKS, COMPARISONS, EQUALITIES, ORDERINGS
from llm_fsm.lint.document import SYSTEM_NAMES, Document, Placed, once, texts_of_states
from llm_fsm.lint.facts.suggestions import as_json, quoted
from llm_fsm.lint.graph import states_of_kind
from llm_fsm.lint.logics import compiled_rules, conditions_of, transitions_of
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.rules.conditions.value_mismatch import unknown_state_in_condition
from llm_fsm.lint.solver.comparisons import ContextOperation, parts
from llm_fsm.lint.solver.guards import GuardCases, guard_of
from llm_fsm.lint.solver.mismatches import mismatches
from llm_fsm.lint.solver.outcomes import is_literal, operation, operators_in, variable
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


@once
def _explained(document: Document) -> list[str]:
    """Return the pointers of conditions, or of parts of them, that another rule reports."""
    owners = [mismatch.comparison.owner.pointer for mismatch in mismatches(document).values()]
    owners += [owner for owner, _, _ in constants(document)]
    for rule in (impossible_comparison, unknown_state_in_condition):
        owners += [found.pointer for found in rule.findings(document)]
    return owners


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
    keys = [name for _, name in condition.texts("requires_context_keys")]
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


_DECIDING = COMPARISONS | {"!", "!!", "and", "or", "if", "?:", "in", "contains", "matches"}
_READING = CLOCKS | {"var", "missing", "missing_some", "has_context", "context_length"}
"""Operators whose value may differ each time."""
_COMPUTED = re.compile(r"[=!<>]=?|\b(?:and|or|not|in)\b|\{\{")
"""Operators of expressions in other languages."""

Constant = tuple[str, str, Any]


@once
def constants(document: Document) -> tuple[Constant, ...]:
    """Return (pointer of the condition, pointer of the part, part) for each part that reads no
    key.
    """
    rules = compiled_rules(document)
    parts: list[Constant] = []
    for condition in conditions_of(document):
        if condition.pointer + "/logic" in rules:
            for pointer, rule in _constant_parts(condition, document):
                parts.append((condition.pointer, pointer, rule))
    return tuple(parts)


def _constant_parts(condition: Placed, document: Document) -> Iterator[tuple[str, Any]]:
    logic = condition.value["logic"]
    pointer = condition.pointer + "/logic"
    if operation(logic) is None or not _reads(logic):
        yield pointer, logic
        return
    outer: str | None = None
    for place, rule, operator, _, _ in parts(document)[pointer]:
        if operator not in _DECIDING or (outer is not None and place.startswith(outer)):
            continue
        if not _reads(rule):
            outer = place + "/"
            yield place, rule


def _reads(rule: Any) -> bool:
    """Return true if any part of a rule reads a key. The common comparisons take a short cut."""
    for written in rule.values() if isinstance(rule, dict) and len(rule) == 1 else ():
        if (
            isinstance(written, list)
            and written
            and isinstance(written[0], dict)
            and [*written[0]] == ["var"]
        ):
            return True
    return not _READING.isdisjoint(operators_in(rule))


@lint_rule("C205", "warning")
def constant_expression(document: Document) -> Faults:
    """A condition, or a comparison in it, reads no key and so has the same outcome each time.

    Why it is bad:
    Mostly a `var` was forgotten: `{"==": ["tier", "gold"]}` compares two texts and is never true.

    Example:
        "states": {"hello": {"purpose": "Ask for the tier", "required_context_keys": ["tier"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"==": ["tier", "gold"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Read the key by `{"var": "tier"}`, or take the condition out.
    """
    for _, pointer, rule in constants(document):
        outcome = "never holds"
        if test(compile_rule(rule), {}).holds:
            outcome = "holds"
        message = f"this reads no key: it {outcome} in every case"
        yield Fault(message, pointer=pointer, hint=_hint(document, rule))


def _hint(document: Document, rule: Any) -> str | None:
    key = _forgotten(document, rule)
    if key is not None:
        return f'write {{"var": {quoted(key)}}} where the value of the key is meant'
    if isinstance(rule, list) and any(operation(item) is not None for item in rule):
        return 'a list is no rule: write {"and": [ … ]} where all are to hold'
    if isinstance(rule, str) and _COMPUTED.search(rule):
        return 'text is not computed: write JsonLogic, such as {"==": [{"var": "key"}, "value"]}'
    return None


def _forgotten(document: Document, rule: Any) -> str | None:
    """Return a text of the rule that is the name of a key."""
    found = operation(rule)
    keys = {key for _, _, key in texts_of_states(document, "required_context_keys")}
    keys |= set(document.keys or ()) | SYSTEM_NAMES
    texts = [rule] if found is None else found[1]
    return next((text for text in texts if isinstance(text, str) and text in keys), None)


_COUNTING = {"len": "a length", "context_length": "a length", "count": "a count"}
_TELLING = frozenset((*_COUNTING, "now", "date", "lower"))
"""Operators with a result that is partly known."""

_LONGEST = {"string": "maxLength", "array": "maxItems"}
_MILLISECONDS = 10**11
"""Seconds of the year 5138, and milliseconds of 1973."""


@lint_rule("C217", "warning")
def impossible_comparison(document: Document) -> Faults:
    """A computed value is compared with something that makes the outcome the same every time.

    Why it is bad:
    The condition does not test what the author meant. Lengths are never negative and at most `maxLength` or `maxItems`.
    Numbers have no length. `now` and `date` are seconds, neither milliseconds nor texts. `lower` gives no capitals, and
    a key always equals itself.

    Example:
        "states": {"hello": {"purpose": "Ask for the day", "required_context_keys": ["day"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {">": [{"date": [{"var": "day"}]}, "2026-01-31"]}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Compare with a value of the same kind: `{"date": ["2026-01-31"]}`.
    """
    for inner in parts(document).values():
        for part in inner:
            if part.operator == "date" or part.operator in COMPARISONS:
                yield from _in_part(document, part)


def _in_part(document: Document, part: ContextOperation) -> Faults:
    place, rule, operator, arguments, positive = part
    if operator == "date" and len(arguments) == 1 and isinstance(arguments[0], str):
        yield from _literal_date(rule, arguments[0], place)
    if operator not in COMPARISONS or len(arguments) != 2:
        return
    same = operation(arguments[0]) == operation(arguments[1])
    name = variable(arguments[0]) if same else None
    if name is not None:
        message = f"both sides are {as_json(name)}: this tests nothing"
        hint = "compare with something else"
        yield Fault(message, pointer=f"{place}/{operator}/1", hint=hint)
        return
    for here, there in ((0, 1), (1, 0)):
        computed = operation(arguments[here])
        if computed is None or computed[0] not in _TELLING:
            continue
        why = _odd(document, operator, computed[0], arguments, here)
        if why is None and positive:
            why = _too_long(document, operator, computed, arguments, here)
        if why is not None:
            yield Fault(why[0], pointer=f"{place}/{operator}/{there}", hint=why[1])


def _odd(
    document: Document, operator: str, computed: str, arguments: list[Any], here: int
) -> tuple[str, str | None] | None:
    """Return (message, hint) if the other side does not fit the computed value."""
    other = arguments[1 - here]
    shown = as_json(other)
    if computed in _COUNTING and is_number(other):
        outcomes = {_outcome(operator, number, other, here) for number in _lengths(other)}
        if len(outcomes) == 1:
            always = "holds in every case" if outcomes.pop() else "never holds"
            return f"{_COUNTING[computed]} is a whole number from 0 on: this {always}", None
    if (
        computed in _COUNTING
        and isinstance(other, str)
        and math.isnan(number_of(Meter(None), other))
    ):
        return f"{_COUNTING[computed]} is a number, and {shown} is none", None
    if computed in ("now", "date"):
        if is_number(other) and abs(other) >= _MILLISECONDS:
            return (
                f'"{computed}" counts seconds, and {shown} looks like milliseconds',
                f"write {int(other) // 1000}",
            )
        if isinstance(other, str):
            return (
                f'"{computed}" gives seconds, and {shown} is text',
                f'write {{"date": [{shown}]}}',
            )
        name = variable(other)
        if name is not None and _is_text(document, name):
            message = f'"{computed}" gives seconds, and "{name[:60]}" is text'
            return message, f'write {{"date": [{{"var": {as_json(name)}}}]}}'
    capitals = isinstance(other, str) and other != other.lower()
    if computed == "lower" and capitals and operator in EQUALITIES:
        return f'"lower" has no capitals, and {shown} has', f"write {shown.lower()}"
    return None


def _too_long(
    document: Document,
    operator: str,
    computed: tuple[str, list[Any]],
    arguments: list[Any],
    here: int,
) -> tuple[str, str | None] | None:
    """Return (message, hint) if a key has no length, or would have to be longer than its schema
    allows.
    """
    other = arguments[1 - here]
    name = variable(computed[1][0]) if len(computed[1]) == 1 else None
    schema = None if computed[0] != "len" or name is None else reasoning(document).keys.schema(name)
    kind = str((schema or {}).get("type"))
    if kind in ("integer", "number", "boolean"):
        return f'{as_json(name)} is of type "{kind}", which has no length: this never holds', None
    word = _LONGEST.get(kind)
    most = None if schema is None or word is None else schema.get(word)
    if not is_whole(most) or not 0 <= most < 10**6 or not is_number(other):
        return None
    lengths = sorted({0, most, *(number for number in _lengths(other) if number <= most)})
    if any(_outcome(operator, number, other, here) for number in lengths):
        return None
    return (
        f'"{word}" of {as_json(name)} is {most}: this never holds',
        f"compare with at most {most}",
    )


def _outcome(operator: str, number: int, other: Any, here: int) -> bool:
    pair = [number, other] if here == 0 else [other, number]
    return test(compile_rule({operator: pair}), {}).holds


def _lengths(other: float) -> list[int]:
    near = int(max(0, min(other, 10**6)))
    return sorted({0, 1, 2, max(0, near - 1), near, near + 1, 10**7})


def _is_text(document: Document, name: str) -> bool:
    values = reasoning(document).keys.domain(name) & SET
    return not values.empty and values.within(TEXTS)


def _literal_date(part: Any, text: str, place: str) -> Faults:
    if is_literal(text) and test(compile_rule(part), {}).error is not None:
        yield Fault(
            f"{as_json(text)} is no date, so this never holds",
            pointer=place + "/date",
            hint="dates are written as 2026-01-31 or 2026-01-31T09:30:00Z",
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
        wanted = [key for _, key in state.texts("required_context_keys")]
        for arc in known.decided[name] if wanted else ():
            guard = known.guard(arc.placed)
            if guard is not None and guard.always and not arc.is_global:
                yield Fault(
                    f"state {quoted(name)} is left at once, before the user is asked for"
                    f" {quoted(wanted[0])}",
                    pointer=arc.placed.pointer + "/auto",
                    hint=f'let it demand the key: "conditions": [{{"requires_context_keys":'
                    f" [{quoted(wanted[0])}]}}]",
                )
                break
