"""Find values with which a condition is true, from the comparisons of the rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any

from llm_fsm.conditions.coercion import is_number
from llm_fsm.lint.document import SYSTEM_NAMES, Arc
from llm_fsm.lint.solver.cases import placed
from llm_fsm.lint.solver.comparisons import comparisons
from llm_fsm.lint.solver.guards import Guard
from llm_fsm.lint.solver.solver import Reasoning, read_names
from llm_fsm.testing.generate.clues import members, patterns, sizes
from llm_fsm.testing.generate.values import matching, samples

BEGINNING = 1893456000.0
"""The default time of tests: 2030-01-01T00:00:00Z, in seconds."""
SAID = "Go on."
"""The message of the user."""

COUNTED = ("_turn", "_turns_in_state", "_misses")
"""System names that grow with each message."""

_DAYS = ("2030-05-17", "2030-05-18", "2029-12-30", "2029-12-31", *(f"2030-01-{day:02}" for day in range(1, 8)))
_MOST_VALUES = 12
_TRIED = 400


@dataclass(frozen=True)
class Solver:
    """Finds values for the conditions of one definition. The schema of a key accepts each of its values."""

    known: Reasoning

    def everything(self) -> dict[str, Any]:
        """Return a value for each key."""
        found = {key: first(self.values(key)) for key in self.known.document.keys or {}}
        return {key: value for key, value in found.items() if value is not None}

    def solution(self, arc: Arc) -> dict[str, Any] | None:
        """Return values with which a transition is open; None if none are found."""
        guard = self.known.guard(arc.placed)
        if guard is None:
            return None
        if self.opens(guard, {}):
            return {}
        for case in islice(guard.holds or (), 16):
            choices = []
            for name, allowed in case.sets.items():
                if name in SYSTEM_NAMES:
                    continue
                fitting = [v for v in (*self.values(name), *allowed.samples()) if v is not None and allowed.has(v)]
                fitting = [value for value in fitting if self.known.keys.accepts(name, value)]
                fitting = sorted(fitting, key=lambda value: value == "")[:4]
                choices.append([(name, value) for value in fitting] or [(name, None)])
            for chosen in islice(product(*choices), _TRIED):
                context = placed(chosen)
                if self.opens(guard, context):
                    return context
        return self._searched(guard)

    def lean(self, arc: Arc, context: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Leave out values that a transition does not need: once from the first on, once from the last."""
        guard = self.known.guard(arc.placed)
        found: list[dict[str, Any]] = []
        for order in (list(context), list(context)[::-1]) if guard is not None else ():
            kept = dict(context)
            for name in order:
                left = {key: value for key, value in kept.items() if key != name}
                if guard is not None and self.opens(guard, left):
                    kept = left
            if kept not in found:
                found.append(kept)
        return found or [dict(context)]

    def _searched(self, guard: Guard) -> dict[str, Any] | None:
        names = [name for name in read_names([guard]) if name not in SYSTEM_NAMES][:4]
        choices = [[(name, value) for value in [*self.values(name), None]] for name in names]
        for chosen in islice(product(*choices), _TRIED):
            context = placed(chosen)
            if self.opens(guard, context):
                return context
        return None

    def opens(self, guard: Guard, context: Mapping[str, Any]) -> bool:
        """Return true if a guard is true in a test, after as many messages as it asks for."""
        system = {"_timestamp": BEGINNING, "_user_input": SAID}
        return any(guard.test({**context, **system, **dict.fromkeys(COUNTED, turn)}) for turn in self.turns)

    @cached_property
    def turns(self) -> list[int]:
        """List the numbers of messages at which a counting condition changes."""
        found = {value for name in COUNTED for value in self.literals.get(name, ()) if isinstance(value, int)}
        return sorted({1, *(value + shift for value in found for shift in (-1, 0, 1) if value + shift > 0)})

    @cached_property
    def literals(self) -> Mapping[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for comparison in comparisons(self.known.document):
            found.setdefault(comparison.key, []).append(comparison.literal)
        for _, logic in self.known.document.logics():
            for name, pattern in patterns(logic):
                found.setdefault(name, []).extend(matching(pattern))
        return found

    @cached_property
    def _shaped(self) -> Mapping[str, list[Any]]:
        """Map each key to lists and texts with the lengths and members that conditions ask for."""
        found: dict[str, list[Any]] = {}
        for _, logic in self.known.document.logics():
            for name, member in members(logic):
                whole = [self._whole(name, member)] if isinstance(member, dict) else [member]
                found.setdefault(name, []).extend([whole, *([member] if isinstance(member, str) else [])])
            for name, size in sizes(logic):
                items = (self.known.keys.schema(name) or {}).get("items")
                item = next(iter(samples(items, self.known.keys.definitions)), "a") if isinstance(items, dict) else "a"
                found.setdefault(name, []).extend([[item] * size, "a" * size])
        return found

    def _whole(self, name: str, member: dict[str, Any]) -> dict[str, Any]:
        """Complete a member of a list by the schema of its key."""
        items = (self.known.keys.schema(name) or {}).get("items")
        item = next(iter(samples(items, self.known.keys.definitions)), None) if isinstance(items, dict) else None
        return {**item, **member} if isinstance(item, dict) else member

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
                found += _neighbours(literal) if isinstance(literal, str) else []
        found += self._shaped.get(name, ())
        most = min(_MOST_VALUES + len(found) // 2, 3 * _MOST_VALUES)
        plain = samples(schema, self.known.keys.definitions)[:8] if schema is not None else ["Ada", 1, True]
        texts = [value for value in plain if isinstance(value, str)]
        begun = [value for value in found if isinstance(value, str)]
        found += [begin + whole[len(begin) :] for begin in begun for whole in texts[:2]]
        found += plain
        if schema is not None and schema.get("format") == "date":
            found += _DAYS
        unique = list({text(value): value for value in found}.values())
        return [value for value in unique if self.known.keys.accepts(name, value)][:most]


def _neighbours(text: str) -> list[str]:
    """List the texts just below and above one that ends in digits, such as a time."""
    digits = text[len(text.rstrip("0123456789")) :]
    if not digits or len(digits) > 9:
        return []
    head, width = text[: len(text) - len(digits)], len(digits)
    return [head + str(number).zfill(width) for number in (int(digits) - 1, int(digits) + 1) if number >= 0]


def first(values: Sequence[Any]) -> Any:
    return next((value for value in values if value), values[0] if values else None)


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
