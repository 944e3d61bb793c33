"""Compile JsonLogic rules to closures, and evaluate them.

Source: jsonlogic.com; the definition format lists the extensions under "Conditions". Evaluation is
    pure, total and
bounded: 64 levels, 10,000 steps and 64 KiB of output. Every failure is a ConditionError with its
reason. A rule costs one step per JSON value in it. Each turn of a loop (map, filter, reduce, all,
none, some) costs one step per operator in its body. Work that grows with the data costs further
steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from llm_fsm._json import JsonMap, KeyTest, TextMap
from llm_fsm._text import nearest_ones
from llm_fsm.conditions.closures import LOOPS, SPECIAL
from llm_fsm.conditions.coercion import (
    MAX_DEPTH,
    MAX_STEPS,
    Meter,
    OperatorFault,
    byte_length,
    kind_of,
    look_up,
    result,
    truthy,
)
from llm_fsm.conditions.nodes import (
    NULL,
    ConditionError,
    Node,
    RulePlace,
    call_of,
    constant,
    list_of,
)
from llm_fsm.conditions.operators import OPERATIONS, SLOT

__all__ = [
    "CompiledRule",
    "ConditionError",
    "RuleVerdict",
    "collect_faults",
    "compile_rule",
    "could_hold",
    "evaluate",
    "look_up",
    "test",
    "truthy",
]

_OTHER_NAMES: Final[TextMap] = MappingProxyType(
    {
        "not": "!", "=": "==", "eq": "==", "equals": "==", "ne": "!=", "<>": "!=",
        "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "&&": "and", "||": "or",
        "regex": "matches", "length": "len", "size": "len", "concat": "cat", "exists": "has_context",
    }
)  # fmt: skip
"""Names that other languages use for the operators."""


_LEAST: Final[Mapping[str, int]] = MappingProxyType(
    {
        **{operator: operation.least for operator, operation in OPERATIONS.items()},
        **dict.fromkeys(LOOPS, 2),
        **dict.fromkeys(SPECIAL, 0),
        "missing_some": 2,
        "has_context": 1,
        "context_length": 1,
        "matches": 2,
    }
)
"""Operator to the least number of its arguments."""

_HOLDS, _FAILS, _BREAKS = 1, 2, 4
"""Bits of the set of outcomes that a part of a rule can have: truthy, falsy, error."""


class CompiledRule(NamedTuple):
    """A compiled rule. Call it with data to get a JSON value.

    `reads` holds the names, as written ("address.city"), that the rule reads from its data by
    literal `var`, `missing`, `missing_some`, `has_context` and `context_length`. Bodies of loops
    read elements and do not count. `reads_unknown` is true if it also reads computed names, or the
    data as a whole.
    """

    node: Node
    steps: int

    @property
    def reads(self) -> frozenset[str]:
        """The names that the rule reads from its data."""
        return self.node.reads

    @property
    def reads_unknown(self) -> bool:
        """True if the rule also reads names that only evaluation shows."""
        return self.node.reads_unknown

    def __call__(self, data: Any) -> Any:
        """Evaluate the rule.

        Args:
            data: The context, with the system names.

        Returns:
            New, plain JSON.

        Raises:
            ConditionError: The rule has no value for these data; nothing else is raised.
        """
        value = self.node.run(data, Meter(data, self.steps))
        if value is None or value is True or value is False:
            return value
        try:
            return _plain(Meter(data), value, 0)
        except OperatorFault as fault:
            raise ConditionError(f"its value cannot be given out: {fault.reason}") from fault


class RuleVerdict(NamedTuple):
    """The truth of a rule. If it could not be evaluated, it is false, and `error` gives the reason."""

    holds: bool
    error: str | None = None


def compile_rule(rule: Any, /) -> CompiledRule:
    """Compile a JSON value to a rule.

    Raises:
        ConditionError: The first fault of `collect_faults`.
    """
    compiler = _Compiler()
    node = compiler.compile(rule)
    if compiler.faults:
        raise compiler.faults[0]
    return CompiledRule(node, MAX_STEPS - compiler.values)


def collect_faults(rule: Any) -> list[ConditionError]:
    """Return every fault that prevents compilation, in the order of the rule's text."""
    compiler = _Compiler()
    compiler.compile(rule)
    return compiler.faults


def evaluate(rule: Any, data: Any) -> Any:
    """Compile a rule and evaluate it once.

    Args:
        rule: A JsonLogic rule as JSON data.
        data: The data that it reads, by key.

    Returns:
        A JSON value that shares nothing with the rule or the data.

    Raises:
        ConditionError: The rule cannot be compiled, or has no value for these data.

    Example:
        >>> evaluate({">=": [{"var": "age"}, 18]}, {"age": 36})
        True
    """
    return compile_rule(rule)(data)


def test(rule: CompiledRule, data: Any) -> RuleVerdict:
    """Test if the rule's value is truthy. A rule that fails is false, and the result gives the
    reason.
    """
    try:
        value = rule.node.run(data, Meter(data, rule.steps))
        if isinstance(value, float):
            result(value)
        return RuleVerdict(truthy(value))
    except ConditionError as error:
        return RuleVerdict(False, str(error))
    except OperatorFault as fault:
        return RuleVerdict(False, fault.reason)


def could_hold(rule: CompiledRule, data: Any, is_free: KeyTest) -> bool | None:
    """Decide a rule for all values of its free names.

    `and`, `or`, `!`, `!!`, `if` and `?:` use Kleene's three-valued logic, and one name in two
    places counts as two. Another operator that reads a free name can go either way. One that reads
    none is evaluated.

    Returns:
        True: it is always true. False: it is never true. None: it depends on free names.
    """
    outcomes = _outcomes(rule.node, data, Meter(data, rule.steps), is_free)
    if outcomes == _HOLDS:
        return True
    return None if outcomes & _HOLDS else False


def _outcomes(node: Node, data: Any, meter: Meter, is_free: KeyTest) -> int:
    """Return the set of outcomes that a part of a rule can have, as bits."""
    parts = node.arguments
    match node.operator:
        case "!" | "!!" if parts:
            inner = _outcomes(parts[0], data, meter, is_free)
            return inner if node.operator == "!!" else _swapped(inner)
        case "and" | "or" if parts:
            stop = _FAILS if node.operator == "and" else _HOLDS
            go_on = stop ^ (_HOLDS | _FAILS)
            seen = 0
            for part in parts:
                inner = _outcomes(part, data, meter, is_free)
                seen |= inner & ~go_on
                if not inner & go_on:
                    return seen
            return seen | go_on
        case "if" | "?:":
            seen = 0
            for position in range(0, len(parts) - 1, 2):
                inner = _outcomes(parts[position], data, meter, is_free)
                seen |= inner & _BREAKS
                if inner & _HOLDS:
                    seen |= _outcomes(parts[position + 1], data, meter, is_free)
                if not inner & _FAILS:
                    return seen
            return seen | (_outcomes(parts[-1], data, meter, is_free) if len(parts) % 2 else _FAILS)
    if node.reads_unknown or any(is_free(name) for name in node.reads):
        return _HOLDS | _FAILS
    try:
        return _HOLDS if truthy(node.run(data, meter)) else _FAILS
    except ConditionError:
        return _BREAKS


def _swapped(outcomes: int) -> int:
    return (
        outcomes & _BREAKS
        | (_FAILS if outcomes & _HOLDS else 0)
        | (_HOLDS if outcomes & _FAILS else 0)
    )


def _plain(meter: Meter, value: Any, depth: int) -> Any:
    """Copy a value, so that it shares nothing with the rule or the data.

    Raises:
        Fault: It is too large or not JSON.
    """
    match value:
        case str():
            meter.build(byte_length(value))
            return value
        case None | bool():
            return value
        case int() | float():
            result(value)
            return value
    if depth >= MAX_DEPTH:
        raise OperatorFault(f"it nests deeper than {MAX_DEPTH}")
    match value:
        case list() | tuple():
            meter.build(SLOT * len(value))
            return [_plain(meter, item, depth + 1) for item in value]
        case Mapping() if _has_texts_as_keys(value):
            meter.build(SLOT * len(value) + sum(map(byte_length, value)))
            return {key: _plain(meter, item, depth + 1) for key, item in value.items()}
    raise OperatorFault(f"{kind_of(value)} is no JSON value")


def _has_texts_as_keys(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) for key in value)


class _Compiler:
    """Compile one rule. `faults` collects all faults; `values` counts JSON values."""

    def __init__(self) -> None:
        self.faults: list[ConditionError] = []
        self.values = 0

    def compile(self, rule: Any) -> Node:
        """Compile the rule's node. It is only usable if there are no faults."""
        return self._node(rule, RulePlace())

    def _fault(self, reason: str, place: RulePlace, hint: str | None = None) -> Node:
        self.faults.append(ConditionError(reason, place.pointer, hint))
        return constant(None)

    def _node(self, rule: Any, place: RulePlace) -> Node:
        self.values += 1
        if self.values > MAX_STEPS:
            too_large = self.values == MAX_STEPS + 1
            return (
                self._fault(f"the rule has more than {MAX_STEPS:,} values", place)
                if too_large
                else NULL
            )
        if place.depth > MAX_DEPTH:
            return self._fault(f"the rule nests deeper than {MAX_DEPTH}", place)
        match rule:
            case float() if not math.isfinite(rule):
                return self._fault("the number is not finite", place)
            case None | str() | int() | float():
                return constant(rule)
            case list() | tuple():
                items = [self._node(item, place.under(index)) for index, item in enumerate(rule)]
                return list_of(tuple(items), place)
            case Mapping() if _has_texts_as_keys(rule):
                return self._object(rule, place)
        return self._fault(f"{kind_of(rule)} is no JSON value", place)

    def _object(self, rule: JsonMap, place: RulePlace) -> Node:
        if len(rule) == 1:
            [(operator, written)] = rule.items()
            return self._operation(operator, written, place)
        if rule and all(key in _LEAST for key in rule):
            return self._fault(
                f"an operation has one operator, here are {len(rule)}: {', '.join(rule)}",
                place,
                'write {"and": [{…}, {…}]} if all of them must hold',
            )
        return constant({key: self._data(item, place.under(key)) for key, item in rule.items()})

    def _data(self, value: Any, place: RulePlace) -> Any:
        """Compile a value inside an object that is no operation: it stays as written."""
        if place.depth <= MAX_DEPTH:
            match value:
                case list() | tuple():
                    self.values += 1
                    return [self._data(one, place.under(index)) for index, one in enumerate(value)]
                case Mapping() if _has_texts_as_keys(value):
                    self.values += 1
                    return {key: self._data(item, place.under(key)) for key, item in value.items()}
        return self._node(value, place).literal

    def _operation(self, operator: str, written: Any, place: RulePlace) -> Node:
        at = place.under(operator)
        listed = isinstance(written, (list, tuple))
        arguments: Sequence[Any] = written if listed else (written,)
        usable = self._accepts(operator, len(arguments), at)
        loop = LOOPS.get(operator)
        nodes = tuple(
            self._node(
                argument,
                at.argument(index if listed else None, inside=loop is not None and index == 1),
            )
            for index, argument in enumerate(arguments)
        )
        if not usable:
            return NULL
        try:
            return (loop or SPECIAL.get(operator) or call_of)(nodes, operator, at)
        except OperatorFault as fault:
            return self._fault(fault.reason, at)

    def _accepts(self, operator: str, given: int, at: RulePlace) -> bool:
        least = _LEAST.get(operator)
        if least is None:
            meant = _OTHER_NAMES.get(operator.lower())
            near = [meant] if meant else nearest_ones(operator, _LEAST)
            guess = " or ".join(f'"{name}"' for name in near)
            hint = f"did you mean {guess}?" if near else f"there are {' '.join(_LEAST)}"
            self._fault(f'unknown operator "{operator}"', at, hint)
            return False
        if given < least:
            needed = "1 value" if least == 1 else f"{least} values"
            self._fault(f'"{operator}" needs {needed}, here is {given or "none"}', at)
            return False
        return True
