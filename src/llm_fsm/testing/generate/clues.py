"""Read interesting values from conditions, beyond plain comparisons: patterns, lengths and members of lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llm_fsm.lint.solver.outcomes import is_literal, operation

_ORDERED = frozenset({"==", "===", "!=", "!==", "<", "<=", ">", ">="})
_MEASURES = frozenset({"len", "context_length", "count"})
_OVER = frozenset({"some", "all", "none", "filter"})
_LONGEST = 3000
"""Members or characters of a value that a test may hold."""


def patterns(rule: object) -> Iterator[tuple[str, str]]:
    """Yield (name, expression) for keys that a rule matches against an expression; "" for members of a list."""
    for operator, arguments in _operations(rule):
        if operator == "matches" and len(arguments) == 2 and isinstance(arguments[1], str):
            name = _variable(arguments[0])
            yield from [(name, arguments[1])] if name is not None else []


def sizes(rule: object) -> Iterator[tuple[str, int]]:
    """Yield (name, size) for keys whose length a rule compares: the sizes at the bound and on both of its sides."""
    for operator, arguments in _operations(rule):
        if operator not in _ORDERED:
            continue
        names = [name for part in arguments if (name := _measured(part))]
        bounds = [part for part in arguments if isinstance(part, int) and not isinstance(part, bool)]
        for name in names:
            for bound in bounds:
                yield from ((name, size) for size in (bound, bound + 1, bound - 1) if 0 <= size <= _LONGEST)


def members(rule: object) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) for keys whose members a rule reads: a member that it names."""
    for operator, arguments in _operations(rule):
        if len(arguments) < 2:
            continue
        whole, part = arguments[:2] if operator != "in" else arguments[1::-1]
        name = _variable(_lowered(whole))
        if not name:
            continue
        if operator in ("contains", "in") and is_literal(part) and not isinstance(part, list | dict):
            yield name, part
        elif operator in _OVER:
            yield from ((name, value) for value in _inner(part))


def _inner(rule: object) -> Iterator[Any]:
    """Yield members for which a rule about each member may be true."""
    for operator, arguments in _operations(rule):
        literals = [part for part in arguments if isinstance(part, str | int | float)]
        for part in arguments if operator != "var" else ():
            found = operation(part)
            if found is None or found[0] != "var":
                continue
            member = found[1][0] if found[1] else ""
            for value in literals or ["a"]:
                for near in (value, value + 1, value - 1) if type(value) is int else (value,):
                    yield {member: near} if isinstance(member, str) and member else near


def _operations(rule: object) -> Iterator[tuple[str, list[Any]]]:
    found = operation(rule)
    if found is not None:
        yield found
    for part in found[1] if found is not None else rule if isinstance(rule, list) else ():
        yield from _operations(part)


def _lowered(rule: object) -> object:
    """Return the rule inside `lower`, or the rule itself."""
    found = operation(rule)
    return found[1][0] if found is not None and found[0] == "lower" and found[1] else rule


def _variable(rule: object) -> str | None:
    """Return the name that a rule reads, "" for the item of a loop; None for any other rule."""
    found = operation(rule)
    if found is None or found[0] != "var" or not found[1] or not isinstance(found[1][0], str):
        return None
    name: str = found[1][0]
    return name


def _measured(rule: object) -> str:
    """Return the key whose length a part of a rule is."""
    found = operation(rule)
    if found is None or found[0] not in _MEASURES or not found[1]:
        return ""
    part = found[1][-1] if found[0] == "context_length" else found[1][0]
    return part if isinstance(part, str) else _variable(part) or ""
