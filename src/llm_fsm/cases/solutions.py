"""Values with which a condition holds, or a key result passes: found from what the rules compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from typing import Any

from llm_fsm.cases.samples import matching, samples
from llm_fsm.conditions import compile_rule, test
from llm_fsm.lint.comparisons import comparisons
from llm_fsm.lint.guards import Guard
from llm_fsm.lint.outcomes import operation
from llm_fsm.lint.reasoning import Reasoning, read_names
from llm_fsm.lint.subject import SYSTEM_NAMES, Arc, Placed

BEGINNING = 1893456000.0
"""The time of tests that name none: 2030-01-01T00:00:00Z."""
SAID = "Go on."
"""What the user says."""

_DAYS = ("2030-05-17", "2030-05-18", "2029-12-30", "2030-01-02")
_MOST_VALUES = 12
_TRIED = 400


@dataclass(frozen=True)
class Solver:
    """Finds values for the conditions of one definition."""

    known: Reasoning

    def everything(self) -> dict[str, Any]:
        """A value of each key."""
        found = {key: first(self.values(key)) for key in self.known.subject.keys or {}}
        return {key: value for key, value in found.items() if value is not None}

    def solution(self, arc: Arc) -> dict[str, Any] | None:
        """Values with which an arc is open; None when none are found."""
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
                fitting = [value for value in fitting if self.known.accepts(name, value)][:4]
                choices.append([(name, value) for value in fitting] or [(name, None)])
            for chosen in islice(product(*choices), _TRIED):
                context = placed(chosen)
                if self.opens(guard, context):
                    return context
        return self._searched(guard)

    def lean(self, arc: Arc, context: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Values that open an arc and of which none can be left out: found from the first on, and from the last."""
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
        """Whether a guard holds at the time of tests, after as many messages as it asks for."""
        system = {"_timestamp": BEGINNING, "_user_input": SAID, "_turn": 1}
        turns = [1, *(value for value in self.literals.get("_turns_in_state", ()) if isinstance(value, int))]
        return any(guard.test({**context, **system, "_turns_in_state": number}) for number in turns)

    @cached_property
    def literals(self) -> Mapping[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for comparison in comparisons(self.known.subject):
            found.setdefault(comparison.key, []).append(comparison.literal)
        for _, logic in self.known.subject.logics():
            for name, pattern in _patterns(logic):
                found.setdefault(name, []).extend(matching(pattern))
        return found

    def values(self, name: str) -> list[Any]:
        """Values of a key that conditions tell apart, and plain ones."""
        schema = self.known.schema(name)
        found: list[Any] = []
        for literal in self.literals.get(name, ()):
            if isinstance(literal, int | float) and not isinstance(literal, bool):
                found += [literal, literal - 1, literal + 1]
            elif literal is not None:
                found.append(literal)
                found += _neighbours(literal) if isinstance(literal, str) else []
        plain = samples(schema, self.known.definitions)[:8] if schema is not None else ["Ada", 1, True]
        texts = [value for value in plain if isinstance(value, str)]
        begun = [value for value in found if isinstance(value, str)]
        found += [begin + text[len(begin) :] for begin in begun for text in texts[:2]]
        found += plain
        if schema is not None and schema.get("format") == "date":
            found += _DAYS
        unique = list({text(value): value for value in found}.values())
        return [value for value in unique if self.known.accepts(name, value)][:_MOST_VALUES]


def outputs(state: Placed, labels: Sequence[str], context: Mapping[str, Any]) -> Iterator[Any]:
    """Outputs with which all the rules among a state's key results hold, for each label."""
    logics = [item.value["check"] for item in state.items("key_results") if _is_rule(item.value.get("check"))]
    rules = [compile_rule(logic) for logic in logics]
    names = sorted({name for rule in rules for name in rule.reads if name.startswith("output.")})
    literals = [part for logic in logics for part in _literals_in(logic)]
    values: list[Any] = [*labels, 1, *literals, [], ["a"], "done"]
    unique = list({text(value): value for value in values}.values())[:10]
    spoken = [text for logic in logics for _, pattern in _patterns(logic) for text in matching(pattern)]
    members = {name: "a" for logic in logics for name in _members(logic)}
    lists = ([text] * count for text in ["a", *spoken] for count in range(1, 6))
    sizes = [size for size in literals if isinstance(size, int) and 1 < size < 10_000]
    long = ["a" * length for size in sizes for length in (size, size - 1, size + 1)]
    whole: list[Any] = [[members], *unique, *lists, *spoken, *long]
    parts = product(*([(name, value) for value in unique] for name in names[2::-1]))
    inner = (placed(chosen).get("output", {}) for chosen in islice(parts, _TRIED)) if names else whole
    found: set[str] = set()
    for output in inner:
        data = {"output": output, "context": context, "input": ["a"]}
        if all(test(rule, data).holds for rule in rules) and text(output) not in found:
            found.add(text(output))
            yield output


def _members(rule: object) -> Iterator[str]:
    """The names that a rule reads which are none of a task's own: members of what a loop goes over."""
    found = operation(rule)
    if found is not None and found[0] == "var" and found[1] and isinstance(found[1][0], str):
        name = found[1][0].split(".")[0]
        yield from [name] if name and name not in ("output", "context", "input") else []
    for part in found[1] if found is not None else rule if isinstance(rule, list) else ():
        yield from _members(part)


def _is_rule(check: object) -> bool:
    return isinstance(check, dict) and not check.keys() & {"judge", "registered"}


def _literals_in(rule: object) -> Iterator[Any]:
    found = operation(rule)
    parts = found[1] if found is not None else rule if isinstance(rule, list) else []
    for part in parts if found is None or found[0] != "var" else ():
        if isinstance(part, str | int | float):
            yield part
        yield from _literals_in(part)


def _patterns(rule: object) -> Iterator[tuple[str, str]]:
    """(name, expression) of the keys that a rule matches against an expression."""
    found = operation(rule)
    for part in found[1] if found is not None else rule if isinstance(rule, list) else ():
        yield from _patterns(part)
    if found is not None and found[0] == "matches" and len(found[1]) == 2:
        read = operation(found[1][0])
        if read is not None and read[0] == "var" and isinstance(read[1][0], str) and isinstance(found[1][1], str):
            yield read[1][0], found[1][1]


def _neighbours(text: str) -> list[str]:
    """Texts just below and above one that ends in digits, such as a time."""
    digits = text[len(text.rstrip("0123456789")) :]
    if not digits or len(digits) > 9:
        return []
    head, width = text[: len(text) - len(digits)], len(digits)
    return [head + str(number).zfill(width) for number in (int(digits) - 1, int(digits) + 1) if number >= 0]


def first(values: Sequence[Any]) -> Any:
    return next((value for value in values if value), values[0] if values else None)


def text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def placed(chosen: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A context of these names and values; dotted names are members of objects."""
    context: dict[str, Any] = {}
    for name, value in chosen:
        *outer, last = name.split(".")
        place = context
        for part in outer if value is not None else ():
            inner = place.setdefault(part, {})
            place = inner if isinstance(inner, dict) else {}
        if value is not None:
            place[last] = value
    return context
