"""The comparisons of one key with literals that stand in conditions, and what is odd about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from llm_fsm.codes import step
from llm_fsm.lint.outcomes import is_literal, operation, variable
from llm_fsm.lint.subject import Placed, Subject

ORDERINGS = frozenset({"<", "<=", ">", ">="})
_EQUALITIES = frozenset({"==", "!=", "===", "!=="})
_LOOPS = frozenset({"map", "filter", "all", "some", "none", "reduce"})


_LISTED = 20_000
"""So many values in lists are compared in one file."""


class Comparison(NamedTuple):
    """A key beside a literal. `owner`: the condition; `pointer`: the operator; `at`: the literal.

    `positive`: the condition needs it to hold; False: to fail; None: either, as the case may be.
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


def parts(rule: object, pointer: str, positive: bool | None = True) -> Iterator[tuple[Any, str, bool | None]]:
    """(rule, pointer, polarity) of a rule and of all operations in it that read the context."""
    found = operation(rule)
    if found is None:
        for index, item in enumerate(rule if isinstance(rule, list) else ()):
            if isinstance(item, dict | list):
                yield from parts(item, f"{pointer}/{index}", None)
        return
    operator, arguments = found
    yield rule, pointer, positive
    written = rule[operator] if isinstance(rule, dict) else None
    below = pointer + step(operator)
    if operator in ("!", "!!", "and", "or"):
        turned = positive if operator != "!" or positive is None else not positive
    else:
        turned = None
    for index, argument in enumerate(arguments):
        if isinstance(argument, dict | list) and (operator not in _LOOPS or index != 1):
            place = f"{below}/{index}" if isinstance(written, list) else below
            yield from parts(argument, place, turned)


def comparisons(subject: Subject) -> tuple[Comparison, ...]:
    """Every comparison of a key with a literal in the conditions that compile; made once."""
    return subject.once(_all_comparisons)


def _all_comparisons(subject: Subject) -> tuple[Comparison, ...]:
    found: list[Comparison] = []
    listed = 0
    for _, transition in subject.transitions():
        for condition in transition.items("conditions"):
            if condition.pointer + "/logic" not in subject.rules:
                continue
            for rule, pointer, positive in parts(condition.value["logic"], condition.pointer + "/logic"):
                if "in" in rule or "contains" in rule:
                    listed += sum(len(part) for part in _sides(rule) if isinstance(part, list))
                    if listed > _LISTED:
                        continue
                found.extend(_in_operation(condition, rule, pointer, positive))
    return tuple(found)


def _sides(rule: Any) -> list[Any]:
    [written] = rule.values()
    return written if isinstance(written, list) else []


def _in_operation(owner: Placed, rule: Any, pointer: str, positive: bool | None) -> Iterator[Comparison]:
    [(operator, written)] = rule.items()
    if not isinstance(written, list) or len(written) < 2:
        return
    below = pointer + step(operator)

    def compared(key: str, index: int, literal: Any, at: str, form: Any) -> Comparison:
        return Comparison(
            owner,
            f"{pointer}{step(operator)}",
            operator,
            form,
            key,
            literal,
            f"{below}/{index}{at}",
            positive,
        )

    if operator in _EQUALITIES or operator in ORDERINGS:
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


def owners(found: Iterator[Comparison]) -> frozenset[str]:
    """The pointers of the conditions in which these comparisons stand."""
    return frozenset(comparison.owner.pointer for comparison in found)
