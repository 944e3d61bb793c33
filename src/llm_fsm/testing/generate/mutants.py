"""Small changes of what a machine decides by, and the decisions that tell them from the original.

A test notices a change of a guard only if a decision of the machine comes out otherwise with it.
So tests are kept for each decision that tells one more change apart: the rule is tried on the
values of the moment, as it is written and as it is changed.

The changes are those of mutation testing: a condition is gone, a key is not asked for, a part of
`and` or `or` is gone, an operator is its opposite or includes its bound, a value is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, list_at, of_kind, without
from llm_fsm.conditions.coercion import is_number
from llm_fsm.conditions.compiler import CompiledRule, ConditionError, compile_rule, test
from llm_fsm.conditions.operators import OF_KEYS
from llm_fsm.definition.json_schema.validator import CompiledSchema, ShapeError, compile_shape
from llm_fsm.lint.solver.outcomes import operation
from llm_fsm.turn.guards import Guard, Move, verdict

_OTHERS: Mapping[str, tuple[str, ...]] = {
    "==": ("!=",),
    "!=": ("==",),
    "===": ("!==",),
    "!==": ("===",),
    "<": (">=", "<="),
    ">=": ("<", ">"),
    ">": ("<=", ">="),
    "<=": (">", "<"),
    "and": ("or",),
    "or": ("and",),
}
"""The opposite of each operator, and the one that includes its bound or leaves it out."""
"""Operators whose texts are names of keys."""
_MOST = 60
"""The most changes of one rule. A longer rule has the first ones."""
_SIZES = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
)
_WORDS = (*_SIZES, "pattern", "format", "enum", "type", "multipleOf")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMutant:
    """A move with one change of its guards. `name` names the place and the change."""

    name: str
    pointer: str
    move: Move


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMutant:
    """One changed rule; None if the rule is gone, so that it always holds."""

    name: str
    rule: CompiledRule | None

    def holds(self, data: JsonMap) -> bool:
        return self.rule is None or test(self.rule, data).holds


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMutant:
    """The schema of a key with one change."""

    name: str
    shape: CompiledSchema

    def accepts(self, value: Any) -> bool:
        return self.shape.fault(value) is None


def move_mutants(move: Move) -> tuple[MoveMutant, ...]:
    """Return the changes of a move's guards. Conditions for the model to judge have none."""
    return tuple(
        MoveMutant(
            name=f"{move.pointer}/conditions/{number}: {change}",
            pointer=move.pointer,
            move=replace(move, guards=tuple(guards)),
        )
        for number, change, guards in _changed_guards(move)
    )


def _changed_guards(move: Move) -> Iterator[tuple[int, str, list[Guard]]]:
    for number, guard in enumerate(move.guards):
        if guard.judged:
            continue
        yield number, "gone", _with(move.guards, number)
        for key in guard.keys:
            keys = tuple(name for name in guard.keys if name != key)
            changed = replace(guard, keys=keys)
            yield number, f"without {key}", _with(move.guards, number, changed)
        for mutant in rule_mutants(guard.logic) if guard.rule is not None else ():
            changed = replace(guard, rule=mutant.rule)
            yield number, mutant.name, _with(move.guards, number, changed)


def rule_mutants(logic: Any) -> tuple[RuleMutant, ...]:
    """Return the changes of a rule that compile."""
    found: list[RuleMutant] = []
    for name, changed in _changed_rules(logic):
        if len(found) == _MOST:
            break
        with suppress(ConditionError):
            found.append(RuleMutant(name=name, rule=compile_rule(changed)))
    return tuple(found)


def _changed_rules(logic: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(logic, list):
        for number, part in enumerate(logic):
            for name, changed in _changed_rules(part):
                yield f"{number}/{name}", _with(logic, number, changed)
        return
    found = operation(logic)
    if found is None:
        return
    operator, arguments = found
    if operator in OF_KEYS:
        return
    yield from _other_operators(operator, arguments)
    for number, part in enumerate(arguments):
        for other in _other_values(part):
            yield f"{operator}/{number} is {other!r}", {operator: _with(arguments, number, other)}
        for name, changed in _changed_rules(part):
            yield f"{operator}/{number}/{name}", {operator: _with(arguments, number, changed)}


def _other_operators(operator: str, arguments: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for other in _OTHERS.get(operator, ()):
        yield f"{operator} is {other}", {other: arguments}
    if operator in ("!", "!!") and arguments:
        yield f"{operator} is turned round", {"!!" if operator == "!" else "!": arguments}
    if operator in ("and", "or") and len(arguments) > 1:
        for number, _ in enumerate(arguments):
            yield f"{operator} without {number}", {operator: _with(arguments, number)}


def _with(listed: Sequence[Any], number: int, *values: Any) -> list[Any]:
    """Put values in the place of one item; without values, the item is gone."""
    return [*listed[:number], *values, *listed[number + 1 :]]


def _other_values(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value - 1
            yield value + 1
        case str():
            yield value + "x"
        case list() if not any(isinstance(part, dict | list) for part in value):
            for number, _ in enumerate(value):
                yield _with(value, number)


@dataclass(frozen=True, slots=True)
class MutantsOfMoves:
    """The changes of the moves of one machine, each made once."""

    made: dict[str, tuple[MoveMutant, ...]] = field(default_factory=dict)

    def of(self, move: Move) -> tuple[MoveMutant, ...]:
        """Return the changes of a move."""
        if move.pointer not in self.made:
            self.made[move.pointer] = move_mutants(move)
        return self.made[move.pointer]

    def told_apart(
        self, considered: Sequence[Move], data: JsonMap, *, every: bool = False
    ) -> Iterator[str]:
        """Yield the names of the changes with which another move would be the first open one.

        Args:
            considered: The moves that a decision tries, in order.
            data: The values that their conditions read.
            every: True if the truth of each move counts, also behind the first open one.
        """
        for move in considered:
            holds = verdict(move, data).holds
            for mutant in self.of(move):
                if verdict(mutant.move, data).holds is not holds:
                    yield mutant.name
            if holds and not every:
                return


def rule_names(logic: Any, place: str) -> Iterator[str]:
    """Yield the names of the changes of one rule."""
    yield f"{place}: gone"
    yield from (f"{place}: {one.name}" for one in rule_mutants(logic))


def told_apart_rule(logic: Any, data: JsonMap, place: str) -> Iterator[str]:
    """Yield the names of the changes of one rule that give another truth."""
    try:
        holds = test(compile_rule(logic), data).holds
    except ConditionError:
        return
    if not holds:
        yield f"{place}: gone"
    for mutant in rule_mutants(logic):
        if mutant.holds(data) is not holds:
            yield f"{place}: {mutant.name}"


def schema_mutants(schema: JsonMap, definitions: JsonMap | None = None) -> tuple[SchemaMutant, ...]:
    """Return the changes of a key's schema that compile."""
    found = []
    for name, changed in _changed_schemas(schema):
        with suppress(ShapeError):
            shape = compile_shape(changed, dict(definitions) if definitions else None)
            found.append(SchemaMutant(name=name, shape=shape))
    return tuple(found)


def _changed_schemas(schema: JsonMap) -> Iterator[tuple[str, JsonDict]]:
    for word in _WORDS:
        if word in schema:
            yield f"without {word}", without(schema, {word})
    for word in _SIZES:
        size = schema.get(word)
        if is_number(size):
            yield f"{word} {size + 1}", {**schema, word: size + 1}
            if size > 0 or word in ("minimum", "maximum"):
                yield f"{word} {size - 1}", {**schema, word: size - 1}
    listed = list_at(schema, "enum")
    for number, value in enumerate(listed):
        left = _with(listed, number)
        if left:
            yield f"enum without {value!r}", {**schema, "enum": left}
        if isinstance(value, str):
            yield f"enum with {value}x", {**schema, "enum": _with(listed, number, value + "x")}
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        if pattern.startswith("^") and len(pattern) > 1:
            yield "pattern without ^", {**schema, "pattern": pattern[1:]}
        if pattern.endswith("$") and not pattern.endswith("\\$"):
            yield "pattern without $", {**schema, "pattern": pattern[:-1]}


def edges(schema: JsonMap, typical: Iterable[Any], limit: int = 3000) -> list[Any]:
    """List values at the bounds of a schema and on both of their sides, without duplicates.

    Args:
        schema: The schema of a key.
        typical: Values that it accepts.
        limit: The most characters or members of a value.
    """
    usual = [*typical]
    found: list[Any] = []
    for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        bound = schema.get(word)
        if is_number(bound):
            found += _around(bound)
    texts = of_kind(usual, str)
    lists = [value for value in usual if isinstance(value, list) and value]
    for word in ("minLength", "maxLength"):
        size = schema.get(word)
        if isinstance(size, int) and texts and size < limit:
            found += [_sized(texts, max(length, 0)) for length in _around(size)]
    for word in ("minItems", "maxItems"):
        size = schema.get(word)
        if isinstance(size, int) and lists and size < limit:
            many = lists[0] * (size + 1)
            found += [many[: max(length, 0)] for length in _around(size)]
    for value in schema.get("enum") or ():
        found += [value, f"{value}x"] if isinstance(value, str) else [value]
    if "pattern" in schema or "format" in schema:
        for text in texts[:2]:
            found += (f"~{text}", f"{text}~")
        found.append("~ ?")
    found += [*usual, "some words", 7, 7.5, True, ["a"], {"a": 1}]
    unique: JsonDict = {}
    for value in found:
        unique.setdefault(f"{type(value).__name__} {value!r}", value)
    return list(unique.values())


def _around(bound: Any) -> tuple[Any, ...]:
    return bound, bound - 1, bound + 1


def _sized(texts: Sequence[str], length: int) -> str:
    """Return a text of a length, like one of these if it can be."""
    fitting = next((text for text in texts if len(text) == length), None)
    if fitting is not None:
        return fitting
    return (texts[0] + "a" * length)[:length]
