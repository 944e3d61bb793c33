"""Operators with a wrong number or kind of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llm_fsm._json import TextMap, step
from llm_fsm.conditions.operators import OPERATIONS
from llm_fsm.lint.document import Document
from llm_fsm.lint.facts.suggestions import quoted
from llm_fsm.lint.rule import Fault, Faults, lint_rule
from llm_fsm.lint.solver.comparisons import parts
from llm_fsm.lint.solver.outcomes import variable

_TAKEN: Mapping[str, int] = {
    **{name: one.most for name, one in OPERATIONS.items() if one.most},
    **dict.fromkeys(("map", "filter", "all", "some", "none"), 2),
    "reduce": 3,
}
"""The number of values that an operator reads."""
_COUNTED = ("", "one value: the second", "two values: the third", "three values: the fourth")
_INSTEAD: TextMap = {
    **dict.fromkeys(("==", "==="), 'for one of several values write {"in": [a, [b, c]]}'),
    "!": 'for none of several write {"!": {"or": [a, b]}}, for not all of them {"!": {"and": [a,'
    " b]}}",
}
_OF_NAMES = frozenset({"has_context", "context_length"})
_ODD = _TAKEN.keys() | _OF_NAMES | {"missing"}


@lint_rule("C221", "warning")
def odd_operation(document: Document) -> Faults:
    """An operator of a condition has more values than it reads, or a value in place of a key.

    Why it is bad:
    `{"==": [a, b, c]}` compares two values and ignores the third, and `{"!": [a, b]}` negates only the first.
    `{"has_context": {"var": "city"}}` does not test if the city is set. It looks for a key whose name is the city.

    Example:
        "states": {"hello": {"purpose": "Ask for the city", "required_context_keys": ["city"], "transitions": [
            {"target_state": "bye", "conditions": [{"logic": {"has_context": {"var": "city"}}}]}]},
            "bye": {"purpose": "Say goodbye"}}

    Fix:
    Write `{"in": [a, [b, c]]}` for one of several values, and the name itself for a key: `{"has_context": "city"}`.
    """
    for inner in parts(document).values():
        for part in inner:
            if part.operator in _ODD:
                yield from _odd(part.operator, part.arguments, part.pointer)


def _odd(operator: str, arguments: list[Any], place: str) -> Faults:
    taken = _TAKEN.get(operator, len(arguments))
    if len(arguments) > taken:
        yield Fault(
            f'"{operator}" takes {_COUNTED[taken]} and what follows do nothing',
            pointer=f"{place}{step(operator)}/{taken}",
            hint=_INSTEAD.get(operator),
        )
    named = operator == "missing" or (operator in _OF_NAMES and len(arguments) == 1)
    for name in map(variable, arguments if named else ()):
        if name is not None:
            yield Fault(
                f'"{operator}" takes the name of a key: this looks for the key that the value of'
                f" {quoted(name)} names",
                pointer=place + step(operator),
                hint=f"write {quoted(name)} itself",
            )
