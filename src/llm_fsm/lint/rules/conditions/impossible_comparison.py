"""A computed value is compared with something that makes the outcome the same every time.

Why it is bad:
Lengths are never negative and go up to `maxLength` or `maxItems`, numbers have none, `now` and `date` count seconds
and no milliseconds, and are no texts, `lower` has no capitals, and a key is always like itself: the condition does not
test what it was written for.

Example:
    "states": {"hello": {"purpose": "Ask for the day", "required_context_keys": ["day"], "transitions": [
        {"target_state": "bye", "conditions": [{"logic": {">": [{"date": [{"var": "day"}]}, "2026-01-31"]}}]}]},
        "bye": {"purpose": "Say goodbye"}}

Fix:
Compare with a value of the same kind: `{"date": ["2026-01-31"]}`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from llm_fsm.conditions.coercion import Meter, is_number, number_of
from llm_fsm.conditions.compiler import compile_rule, test
from llm_fsm.errors import Finding
from llm_fsm.lint.document import Subject
from llm_fsm.lint.rule import Rule
from llm_fsm.lint.solver.comparisons import Part, parts
from llm_fsm.lint.solver.outcomes import is_literal, operation, variable
from llm_fsm.lint.solver.solver import reasoning
from llm_fsm.lint.solver.value_sets import SET, TEXTS

_COMPARING = frozenset({"==", "!=", "===", "!==", "<", "<=", ">", ">="})
_COUNTING = {"len": "a length", "context_length": "a length", "count": "a count"}
_TELLING = frozenset((*_COUNTING, "now", "date", "lower"))
"""Operators of which the result is known to some extent."""

_LONGEST = {"string": "maxLength", "array": "maxItems"}
_MILLISECONDS = 10**11
"""Seconds of the year 5138, and milliseconds of 1973."""


def check(subject: Subject) -> Iterator[Finding]:
    """Look at every comparison of which one side is computed."""
    yield from impossible(subject)


def impossible(subject: Subject) -> tuple[Finding, ...]:
    """What this rule finds, made once."""
    return subject.once(_all_impossible)


def _all_impossible(subject: Subject) -> tuple[Finding, ...]:
    return tuple(
        found
        for inner in parts(subject).values()
        for part in inner
        if part.operator == "date" or part.operator in _COMPARING
        for found in _in_part(subject, part)
    )


def _in_part(subject: Subject, part: Part) -> Iterator[Finding]:
    place, rule, operator, arguments, positive = part
    if operator == "date" and len(arguments) == 1 and isinstance(arguments[0], str):
        yield from _literal_date(rule, arguments[0], place)
    if operator not in _COMPARING or len(arguments) != 2:
        return
    same = operation(arguments[0]) == operation(arguments[1])
    name = variable(arguments[0]) if same else None
    if name is not None:
        message = f"both sides are {json.dumps(name)[:60]}: this tests nothing"
        yield RULE.finding(message, pointer=f"{place}/{operator}/1", hint="compare with something else")
        return
    for here, there in ((0, 1), (1, 0)):
        computed = operation(arguments[here])
        if computed is None or computed[0] not in _TELLING:
            continue
        why = _odd(subject, operator, computed[0], arguments, here)
        if why is None and positive:
            why = _too_long(subject, operator, computed, arguments, here)
        if why is not None:
            yield RULE.finding(why[0], pointer=f"{place}/{operator}/{there}", hint=why[1])


def _odd(
    subject: Subject, operator: str, computed: str, arguments: list[Any], here: int
) -> tuple[str, str | None] | None:
    """(message, hint) where the other side does not go with what is computed."""
    other = arguments[1 - here]
    shown = json.dumps(other, ensure_ascii=False)[:60]
    if computed in _COUNTING and is_number(other):
        outcomes = {_outcome(operator, number, other, here) for number in _lengths(other)}
        if len(outcomes) == 1:
            always = "holds in every case" if outcomes.pop() else "never holds"
            return f"{_COUNTING[computed]} is a whole number from 0 on: this {always}", None
    if computed in _COUNTING and isinstance(other, str) and math.isnan(number_of(Meter(None), other)):
        return f"{_COUNTING[computed]} is a number, and {shown} is none", None
    if computed in ("now", "date"):
        if is_number(other) and abs(other) >= _MILLISECONDS:
            return (
                f'"{computed}" counts seconds, and {shown} looks like milliseconds',
                f"write {int(other) // 1000}",
            )
        if isinstance(other, str):
            return f'"{computed}" gives seconds, and {shown} is text', f'write {{"date": [{shown}]}}'
        name = variable(other)
        if name is not None and _is_text(subject, name):
            message = f'"{computed}" gives seconds, and "{name[:60]}" is text'
            return message, f'write {{"date": [{{"var": {json.dumps(name)[:60]}}}]}}'
    capitals = isinstance(other, str) and other != other.lower()
    if computed == "lower" and capitals and operator in ("==", "===", "!=", "!=="):
        return f'"lower" has no capitals, and {shown} has', f"write {shown.lower()}"
    return None


def _too_long(
    subject: Subject, operator: str, computed: tuple[str, list[Any]], arguments: list[Any], here: int
) -> tuple[str, str | None] | None:
    """(message, hint) where a key has no length, or would have to be longer than its schema allows."""
    other, name = arguments[1 - here], variable(computed[1][0]) if len(computed[1]) == 1 else None
    schema = None if computed[0] != "len" or name is None else reasoning(subject).schema(name)
    kind = str((schema or {}).get("type"))
    if kind in ("integer", "number", "boolean"):
        return f'{json.dumps(name)[:60]} is of type "{kind}", which has no length: this never holds', None
    word = _LONGEST.get(kind)
    most = None if schema is None or word is None else schema.get(word)
    if not isinstance(most, int) or isinstance(most, bool) or not 0 <= most < 10**6 or not is_number(other):
        return None
    lengths = sorted({0, most, *(number for number in _lengths(other) if number <= most)})
    if any(_outcome(operator, number, other, here) for number in lengths):
        return None
    return f'"{word}" of {json.dumps(name)[:60]} is {most}: this never holds', f"compare with at most {most}"


def _outcome(operator: str, number: int, other: Any, here: int) -> bool:
    pair = [number, other] if here == 0 else [other, number]
    return test(compile_rule({operator: pair}), {}).holds


def _lengths(other: float) -> list[int]:
    near = int(max(0, min(other, 10**6)))
    return sorted({0, 1, 2, max(0, near - 1), near, near + 1, 10**7})


def _is_text(subject: Subject, name: str) -> bool:
    values = reasoning(subject).domain(name) & SET
    return not values.empty and values.within(TEXTS)


def _literal_date(part: Any, text: str, place: str) -> Iterator[Finding]:
    if is_literal(text) and test(compile_rule(part), {}).error is not None:
        yield RULE.finding(
            f"{json.dumps(text, ensure_ascii=False)[:60]} is no date, so this never holds",
            pointer=place + "/date",
            hint="dates are written as 2026-01-31 or 2026-01-31T09:30:00Z",
        )


RULE = Rule(name="impossible-comparison", code="C217", level="warning", check=check)
