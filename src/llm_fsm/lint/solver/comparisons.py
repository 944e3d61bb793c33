"""The comparisons of one key with literals in conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from llm_fsm._json import JsonMap, step
from llm_fsm.conditions.closures import LOOPS
from llm_fsm.conditions.operators import COMPARISONS, ORDERINGS
from llm_fsm.lint.document import Document, Placed, once, once_each
from llm_fsm.lint.logics import compiled_rules, conditions_of, logics_of
from llm_fsm.lint.solver.outcomes import is_literal, operation, variable

_COMPARING = COMPARISONS | {"in", "contains"}
_LOGICAL = frozenset({"!!", "and", "or"})


_LISTED = 20_000
"""The most values in lists that are compared in one file."""


class Comparison(NamedTuple):
    """A key beside a literal. `owner`: the condition; `pointer`: the operator; `at`: the literal.

    `positive`: the condition needs it to be true; False: to be false; None: either.
    """

    owner: Placed
    pointer: str
    operator: str
    rule: Any
    key: str
    literal: Any
    at: str
    positive: bool | None

    @property
    def ordering(self) -> bool:
        """True for less and greater."""
        return self.operator in ORDERINGS


class ContextOperation(NamedTuple):
    """An operation in a condition that reads the context. `positive`: as in `Comparison`."""

    pointer: str
    rule: JsonMap
    operator: str
    arguments: list[Any]
    positive: bool | None


@once
def parts(document: Document) -> Mapping[str, list[ContextOperation]]:
    """Return the pointer of the logic of each condition to the operations in it, outer ones
    first.
    """
    return {
        pointer: list(operations(logic, pointer, True))
        for pointer, logic in logics_of(document)
        if pointer in compiled_rules(document)
    }


def operations(rule: Any, pointer: str, positive: bool | None = None) -> Iterator[ContextOperation]:
    """Yield the operations in a rule, outer ones first, without those on the items of a list."""
    if isinstance(rule, list):
        for index, item in enumerate(rule):
            yield from operations(item, f"{pointer}/{index}")
    found = operation(rule)
    if found is None:
        return
    operator, arguments = found
    yield ContextOperation(pointer, rule, operator, arguments, positive)
    turned = positive if operator in _LOGICAL else None
    if operator == "!" and positive is not None:
        turned = not positive
    below = pointer + step(operator)
    if not isinstance(rule[operator], list):
        yield from operations(rule[operator], below, turned)
        return
    for index, argument in enumerate(arguments):
        if index != 1 or operator not in LOOPS:
            yield from operations(argument, f"{below}/{index}", turned)


@once_each
def comparisons(document: Document) -> Iterator[Comparison]:
    """Yield every comparison of a key with a literal in the conditions that compile."""
    listed = 0
    every = parts(document)
    for condition in conditions_of(document):
        for part in every.get(condition.pointer + "/logic", ()):
            if part.operator not in _COMPARING:
                continue
            if part.operator in ("in", "contains"):
                listed += sum(len(side) for side in part.arguments if isinstance(side, list))
                if listed > _LISTED:
                    continue
            yield from _in_operation(condition, part)


def _in_operation(owner: Placed, comparing: ContextOperation) -> Iterator[Comparison]:
    pointer, _, operator, written, positive = comparing
    if len(written) < 2:
        return
    below = f"{pointer}/{operator}"

    def compared(key: str, index: int, literal: Any, at: str, form: Any) -> Comparison:
        return Comparison(
            owner, below, operator, form, key, literal, f"{below}/{index}{at}", positive
        )

    if operator in COMPARISONS:
        for left in range(min(len(written), 3) - 1):
            pair = written[left : left + 2]
            for here, there in ((0, 1), (1, 0)):
                key = variable(pair[here])
                if key is not None and is_literal(pair[there]):
                    yield compared(key, left + there, pair[there], "", {operator: pair})
    elif operator in ("in", "contains"):
        part, whole = (0, 1) if operator == "in" else (1, 0)
        key = variable(written[part])
        if key is not None and isinstance(written[whole], list) and is_literal(written[whole]):
            for number, item in enumerate(written[whole]):
                yield compared(key, whole, item, f"/{number}", {"===": [written[part], item]})
