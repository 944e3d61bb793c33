"""Outcomes of a test of one key: the values with which it may be true, and those with which it may
be false.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, as_list
from llm_fsm.conditions.coercion import Meter, number_of
from llm_fsm.conditions.compiler import CompiledRule, test
from llm_fsm.lint.solver.value_sets import EVERYTHING, NOTHING, ValueSet, ordered, points

_PARTED = (dict, list)
COMPARED = frozenset({"==", "===", "<", "<="})
"""The comparisons that the others are turned into."""


def operation(rule: object) -> tuple[str, list[Any]] | None:
    """Return operator and arguments of a rule; None for a literal."""
    if not isinstance(rule, dict) or len(rule) != 1:
        return None
    [(operator, written)] = rule.items()
    return operator, as_list(written)


def operators_in(rule: object) -> Iterator[str]:
    """Yield every operator of a rule."""
    left = [rule]
    while left:
        match left.pop():
            case list(part):
                left += reversed(part)
            case dict(part) if len(part) == 1:
                [(operator, written)] = part.items()
                yield operator
                left.append(written)


def is_literal(rule: object) -> bool:
    """Return true if a rule has no operator."""
    return not isinstance(rule, _PARTED) or next(operators_in(rule), None) is None


def variable(rule: object) -> str | None:
    """Return the name that a `var` with a literal name reads."""
    found = operation(rule)
    if found is None or found[0] != "var":
        return None
    name = found[1][0] if found[1] else None
    simple = len(found[1]) == 1 or is_literal(found[1])
    if isinstance(name, str) and name and simple:
        return name
    return None


def placed(name: str, value: object) -> JsonDict:
    """Return a context in which the name has the value; null is a key that is not set."""
    return {} if value is None else {name: value}


_TRIED: JsonMap = {"null": None, "true": True, "false": False, "empty": []}


def split(
    rule: Any, compiled: CompiledRule, name: str, values: ValueSet
) -> tuple[ValueSet, ValueSet]:
    """Return the values of a key with which a test may be true, and those with which it may be
    false.
    """
    numbers, texts, whole = _shape(rule, name)
    tried = values.kinds & _TRIED.keys()
    yes = {kind for kind in tried if test(compiled, placed(name, _TRIED[kind])).holds}
    no = tried - yes
    if "." in name and _has_default(rule):  # its object may be null, for which there is no default
        yes = yes | {"null"}
        no = no | {"null"}
    wide = {"list", "object"}
    every = EVERYTHING
    may = values & ValueSet(
        kinds=frozenset(yes if whole is False else yes | wide),
        numbers=every.numbers if numbers is None else numbers.numbers,
        texts=every.texts if texts is None else texts.texts,
    )
    surely = ValueSet(
        numbers=() if numbers is None else numbers.numbers,
        texts=() if texts is None else texts.texts,
    )
    return may, values.minus(surely) & ValueSet(
        frozenset(no if whole is True else no | wide), every.numbers, every.texts
    )


def _has_default(rule: Any) -> bool:
    """Return true if some `var` in a rule has a default."""
    if isinstance(rule, list):
        return any(map(_has_default, rule))
    found = operation(rule)
    return found is not None and (
        (found[0] == "var" and len(found[1]) > 1) or any(map(_has_default, found[1]))
    )


_Shape = tuple[ValueSet | None, ValueSet | None, bool | None]
"""Numbers and texts with which a test is true, and if lists with elements and objects make it true.

None if that is unknown.
"""
_UNKNOWN: _Shape = (None, None, None)
_ZERO = points([0])
_NO_TEXT = points([""])


def _shape(rule: Any, name: str) -> _Shape:
    found = operation(rule)
    if found is None:
        return _UNKNOWN
    operator, arguments = found
    if operator == "var":
        if variable(rule) == name:
            return (~_ZERO, ~_NO_TEXT, True)
        return _UNKNOWN
    if operator == "has_context":
        return EVERYTHING, EVERYTHING, True
    if operator == "missing":
        return NOTHING, _NO_TEXT, False
    if len(arguments) < 2:
        return _UNKNOWN
    first, second = arguments[:2]
    if operator in COMPARED:
        if variable(first) == name and is_literal(second):
            return _compared(operator, second, on_left=True)
        if variable(second) == name and is_literal(first):
            return _compared(operator, first, on_left=False)
    elif operator == "in":
        return _member(first, second, name)
    elif operator == "contains":
        return _member(second, first, name)
    return _UNKNOWN


def _member(item: Any, whole: Any, name: str) -> _Shape:
    """Return the shape of the rule that an item is in a list, or a part of a text."""
    if variable(item) == name and isinstance(whole, list) and is_literal(whole):
        listed = points(whole)
        return listed, listed, None if listed.kinds & {"list", "object"} else False
    if variable(whole) == name and is_literal(item):
        return NOTHING, None, None
    return _UNKNOWN


def _compared(operator: str, literal: Any, *, on_left: bool) -> _Shape:
    """Return the shape of a comparison with a literal; `on_left`: the key is on the left."""
    simple = literal is None or isinstance(literal, str | int | float)
    if operator == "===":
        exact = NOTHING
        if simple:
            exact = points([literal])
        return exact, exact, False if simple else None
    if operator == "==" and literal is None:
        return NOTHING, NOTHING, False
    number = number_of(Meter(None), literal)
    text = literal if isinstance(literal, str) else None
    if operator == "==":
        exact = NOTHING if math.isnan(number) else points([number])
        return exact, None if text is None else points([text]), None
    closed = 0 if operator == "<=" else 1
    numbers = (
        NOTHING if math.isnan(number) else ValueSet(numbers=_side(number, closed, below=on_left))
    )
    texts = (
        None if text is None else ValueSet(texts=_side(text, closed, below=on_left, least=("", 0)))
    )
    return numbers, texts, None


def _side(value: Any, shut: int, *, below: bool, least: tuple[Any, int] | None = None) -> Any:
    if below:
        return ordered(least, (value, -shut))
    return ordered((value, shut), None)
