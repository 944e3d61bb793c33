"""Find values with which a condition is true, from the comparisons, expressions, lengths and
members in the rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, product, takewhile
from random import Random
from typing import Any

from llm_fsm._json import JsonDict, JsonMap, list_at, of_kind, without_none
from llm_fsm.conditions.coercion import is_number, is_whole, look_up
from llm_fsm.conditions.compiler import ConditionError, compile_rule, test
from llm_fsm.conditions.operators import COMPARISONS
from llm_fsm.definition.names import VALID
from llm_fsm.lint.document import SYSTEM_NAMES, Pairs
from llm_fsm.lint.graph import Arc
from llm_fsm.lint.logics import logics_of
from llm_fsm.lint.solver.cases import placed
from llm_fsm.lint.solver.comparisons import comparisons
from llm_fsm.lint.solver.guards import GuardCases
from llm_fsm.lint.solver.outcomes import is_literal, operation, variable
from llm_fsm.lint.solver.solver import Reasoning, read_names
from llm_fsm.session.session import clock_names
from llm_fsm.testing.generate.values import matching, samples
from llm_fsm.testing.scenarios.models import BEGINNING

SAID = "Go on now."
"""The message of the user."""

COUNTED = ("_turn", "_turns_in_state", "_misses")
"""System names that grow with each message."""

_DAYS = (
    "2030-05-17",
    "2030-05-18",
    "2029-12-30",
    "2029-12-31",
    *(f"2030-01-{day:02}" for day in range(1, 8)),
)
_MOST_VALUES = 12
_TRIED = 400
_MEASURES = frozenset({"len", "context_length", "count"})
_OVER = frozenset({"some", "all", "none", "filter"})
_LONGEST = 3000
"""Members or characters of a value that a test may hold."""


@dataclass(frozen=True)
class Solver:
    """Finds values for the conditions of one definition. The schema of a key accepts each of its
    values.
    """

    known: Reasoning

    def everything(self) -> JsonDict:
        """Return a value for each key."""
        found = {key: first(self.values(key)) for key in self.known.document.keys}
        return without_none(found)

    def solution(self, arc: Arc) -> JsonDict | None:
        """Return values with which a transition is open; None if none are found."""
        guard = self.known.guard(arc)
        if guard is None:
            return None
        if self.opens(guard, {}):
            return {}
        for case in islice(guard.holds or (), 16):
            choices = []
            for name, allowed in case.sets.items():
                if name in SYSTEM_NAMES:
                    continue
                fitting = [
                    v
                    for v in (*self.values(name), *allowed.samples())
                    if v is not None and allowed.has(v)
                ]
                fitting = [value for value in fitting if self.known.keys.accepts(name, value)]
                fitting = sorted(fitting, key=lambda value: value == "")[:4]
                choices.append([(name, value) for value in fitting] or [(name, None)])
            for chosen in islice(product(*choices), _TRIED):
                context = placed(chosen)
                if self.opens(guard, context):
                    return context
        return self._searched([guard], {}, {})

    def decided(self, arc: Arc, known: JsonMap) -> JsonDict | None:
        """Return further values with which a deciding state takes this transition; None if none are
        found.
        """
        arcs = [*takewhile(lambda one: one is not arc, self.known.decided[arc.source]), arc]
        guards = [guard for one in arcs if (guard := self.known.guard(one)) is not None]
        if len(guards) < len(arcs):
            return None
        return self._searched(guards, known, self.solution(arc) or {})

    def _searched(
        self, guards: Sequence[GuardCases], known: JsonMap, first: JsonMap
    ) -> JsonDict | None:
        """Try values, those of `first` first, until the last guard is the only one that is true."""
        bounds = []
        if first:
            bounds = [*filter(is_number, chain.from_iterable(self.literals.values()))]
        choices = []
        for name in [name for name in read_names(guards) if name not in SYSTEM_NAMES][:4]:
            fitting = [bound for bound in bounds if self.known.keys.accepts(name, bound)]
            choices.append(
                [(name, value) for value in (first.get(name), *self.values(name), *fitting, None)]
            )
        *before, last = guards
        for chosen in ((), *islice(product(*choices), _TRIED)):
            values = placed(chosen)
            context = {**known, **values}
            if self.opens(last, context) and not any(
                self.opens(guard, context) for guard in before
            ):
                return values
        return None

    def opens(self, guard: GuardCases, context: JsonMap) -> bool:
        """Return true if a guard is true in a test, after as many messages as it asks for."""
        zone = self.known.document.root.get("timezone")
        clock = clock_names(BEGINNING, zone if isinstance(zone, str) else "")
        system = {**clock, "_user_input": SAID}
        return any(
            guard.test({**context, **system, **dict.fromkeys(COUNTED, turn)}) for turn in self.turns
        )

    def drawn(self, names: Sequence[str], bases: Sequence[JsonMap]) -> Iterator[JsonDict]:
        """Yield contexts to try: the bases, each name with each of its values, then a mixture.

        Args:
            names: The names that conditions read.
            bases: Contexts that are known to open a way, best first.
        """
        own = [name for name in names if name not in SYSTEM_NAMES]
        flat = [{name: look_up(base, name) for name in own} for base in (*bases, {})]
        for values in flat:
            yield placed(values.items())
        choices = {name: (None, *self.values(name)) for name in own}
        for values in flat:
            for name in own:
                for value in choices[name]:
                    yield placed({**values, name: value}.items())
        if len(own) < 2:
            return
        # The same seed gives the same tests each time.
        chance = Random(0)
        for _ in range(_TRIED):
            yield placed([(name, chance.choice(choices[name])) for name in own])

    @cached_property
    def turns(self) -> list[int]:
        """List the numbers of messages at which a counting condition changes."""
        numbers = {1}
        for name in COUNTED:
            for value in self.literals.get(name, ()):
                if isinstance(value, int):
                    numbers |= {value - 1, value, value + 1}
        return sorted(number for number in numbers if number > 0)

    @cached_property
    def literals(self) -> Mapping[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for comparison in comparisons(self.known.document):
            found.setdefault(comparison.key, []).append(comparison.literal)
        for _, logic in logics_of(self.known.document):
            for name, pattern in patterns(logic):
                found.setdefault(name, []).extend(matching(pattern))
            for name, bound in between(logic):
                found.setdefault(name, []).append(bound)
        for name, rules in self.valid.items():
            for rule in rules:
                found.setdefault(name, []).extend(literals_in(rule))
        return found

    @cached_property
    def valid(self) -> Mapping[str, list[Any]]:
        """Map each key to the rules of `x-valid` for its values."""
        found = {}
        for name in self.known.document.keys:
            rules = [logic for _, logic in value_rules(self.known.keys.schema(name))]
            if rules:
                found[name] = rules
        return found

    def is_valid(self, name: str, value: Any) -> bool:
        """Return true if the rules of `x-valid` for a key hold for a value by itself."""
        data = {name: value, "_timestamp": BEGINNING}
        return all(holds(rule, data) for rule in self.valid.get(name, ()))

    @cached_property
    def _shaped(self) -> Mapping[str, list[Any]]:
        """Map each key to lists and texts with the lengths and members that conditions ask for."""
        found: dict[str, list[Any]] = {}
        for _, logic in logics_of(self.known.document):
            for name, member in members(logic):
                item = self._item(name)
                whole = member
                if isinstance(item, dict) and isinstance(member, dict):
                    whole = {**item, **member}
                found.setdefault(name, []).extend(
                    [[whole], *([member] if isinstance(member, str) else [])]
                )
            for name, size in sizes(logic):
                found.setdefault(name, []).extend([[self._item(name)] * size, "a" * size])
        return found

    def _item(self, name: str) -> Any:
        """Return a member of a list, by the schema of its key."""
        items = (self.known.keys.schema(name) or {}).get("items")
        if isinstance(items, dict):
            return next(iter(samples(items, self.known.keys.definitions)), "a")
        return "a"

    def values(self, name: str) -> list[Any]:
        """List values of a key at which conditions differ, then plain ones."""
        if name not in self._values:
            self._values[name] = self._values_of(name)
        return self._values[name]

    @cached_property
    def _values(self) -> dict[str, list[Any]]:
        return {}

    def _values_of(self, name: str) -> list[Any]:
        schema = self.known.keys.schema(name)
        found: list[Any] = []
        for literal in self.literals.get(name, ()):
            if is_number(literal):
                found += [literal, literal - 1, literal + 1]
            elif literal is not None:
                found.append(literal)
        found += self._shaped.get(name, ())
        most = min(_MOST_VALUES + len(found) // 2, 3 * _MOST_VALUES)
        plain = (
            samples(schema, self.known.keys.definitions)[:8]
            if schema is not None
            else ["Ada", 1, True]
        )
        texts = of_kind(plain, str)
        begun = of_kind(found, str)
        found += [begin + whole[len(begin) :] for begin, whole in product(begun, texts[:2])]
        found += plain
        if schema is not None and schema.get("format") == "date":
            found += _DAYS
        unique = list({text(value): value for value in found}.values())
        accepted = [value for value in unique if self.known.keys.accepts(name, value)]
        if name in self.valid:
            accepted.sort(key=lambda value: not self.is_valid(name, value))
        return accepted[:most]


def patterns(rule: object) -> Pairs:
    """Yield (name, expression) for keys that a rule matches against an expression; "" for members
    of a list.
    """
    for operator, arguments in _operations(rule):
        if operator == "matches" and len(arguments) == 2 and isinstance(arguments[1], str):
            yield variable(arguments[0]) or "", arguments[1]


def sizes(rule: object) -> Iterator[tuple[str, int]]:
    """Yield (name, size) for keys whose length a rule compares: the sizes at the bound and on both
    of its sides.
    """
    for operator, arguments in _operations(rule):
        if operator not in COMPARISONS:
            continue
        names = [name for part in arguments if (name := _measured(part))]
        bounds = [*filter(is_whole, arguments)]
        for name in names:
            for bound in bounds:
                yield from (
                    (name, size) for size in (bound, bound + 1, bound - 1) if 0 <= size <= _LONGEST
                )


def members(rule: object) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) for keys whose members a rule reads: a member that it names."""
    for operator, arguments in _operations(rule):
        if len(arguments) < 2:
            continue
        whole, part = arguments[:2] if operator != "in" else arguments[1::-1]
        lowered = operation(whole)
        name = variable(
            lowered[1][0] if lowered is not None and lowered[0] == "lower" and lowered[1] else whole
        )
        if name is None:
            continue
        if (
            operator in ("contains", "in")
            and is_literal(part)
            and not isinstance(part, list | dict)
        ):
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
    for part in inner_rules(rule):
        yield from _operations(part)


def between(rule: object) -> Iterator[tuple[str, Any]]:
    """Yield (name, bound) for keys that a rule compares with two bounds at once."""
    for operator, arguments in _operations(rule):
        if operator not in COMPARISONS or len(arguments) < 3:
            continue
        for name in filter(None, map(variable, arguments)):
            yield from ((name, bound) for bound in arguments if is_literal(bound))


def literals_in(rule: object) -> Iterator[Any]:
    """Yield the texts and numbers in a rule, without names of keys."""
    found = operation(rule)
    if found is not None and found[0] == "var":
        return
    for part in inner_rules(rule):
        if isinstance(part, str | int | float):
            yield part
        yield from literals_in(part)


def holds(rule: Any, data: JsonMap) -> bool:
    """Return true if a rule compiles and holds."""
    try:
        return test(compile_rule(rule), data).holds
    except ConditionError:
        return False


def value_rules(schema: JsonMap | None) -> Iterator[tuple[int, Any]]:
    """Yield (place, rule) of what must hold for the values of a key."""
    for number, item in enumerate(list_at(schema, VALID)):
        if isinstance(item, dict) and "logic" in item:
            yield number, item["logic"]


def inner_rules(rule: object) -> list[Any]:
    """Return the arguments of an operation, or the elements of a list; none for another value."""
    found = operation(rule)
    if found is not None:
        return found[1]
    return rule if isinstance(rule, list) else []


def _measured(rule: object) -> str | None:
    """Return the key whose length a part of a rule is."""
    found = operation(rule)
    if found is None or found[0] not in _MEASURES or not found[1]:
        return None
    part = found[1][-1] if found[0] == "context_length" else found[1][0]
    if isinstance(part, str):
        return part
    return variable(part)


def first(values: Sequence[Any]) -> Any:
    return next((value for value in values if value), values[0] if values else None)


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
