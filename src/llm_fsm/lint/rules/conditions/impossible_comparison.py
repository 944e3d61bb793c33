"""Computed values that are compared with something that fixes the outcome."""

from __future__ import annotations

import math
from typing import Any

from llm_fsm.conditions.coercion import Meter, is_number, is_whole, number_of
from llm_fsm.conditions.compiler import compile_rule, test
from llm_fsm.conditions.operators import COMPARISONS, EQUALITIES
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import as_json
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.comparisons import ContextOperation, parts
from llm_fsm.lint.solver.outcomes import is_literal, operation, variable
from llm_fsm.lint.solver.solver import reasoning
from llm_fsm.lint.solver.value_sets import SET, TEXTS

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
