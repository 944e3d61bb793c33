"""What a task may put out: outputs with which its key results pass, and some with which they do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from llm_fsm.conditions.coercion import is_number
from llm_fsm.conditions.compiler import Rule, compile_rule, test
from llm_fsm.lint.document import Placed
from llm_fsm.lint.solver.cases import placed
from llm_fsm.lint.solver.outcomes import operation
from llm_fsm.testing.generate.hints import patterns, sizes
from llm_fsm.testing.generate.solutions import text
from llm_fsm.testing.generate.values import matching

_TRIED = 400
_MOST_VALUES = 16
_MOST_FAILING = 24
_LONGEST_LIST = 50


def outputs(state: Placed, labels: Sequence[str], context: Mapping[str, Any]) -> Iterator[Any]:
    """Outputs with which all the rules among a state's key results hold, for each label."""
    yield from (output for output, holds, _ in _judged(state, labels, context) if holds)


def failing(state: Placed, labels: Sequence[str], context: Mapping[str, Any]) -> Iterator[Any]:
    """Some outputs with which one of the rules does not hold, those first that differ in which parts of them do."""
    first: dict[tuple[bool, ...], Any] = {}
    others: list[Any] = []
    for output, holds, parts in _judged(state, labels, context):
        if holds:
            continue
        if parts in first:
            others.append(output)
        else:
            first[parts] = output
    yield from [*first.values(), *others][:_MOST_FAILING]


def _judged(
    state: Placed, labels: Sequence[str], context: Mapping[str, Any]
) -> Iterator[tuple[Any, bool, tuple[bool, ...]]]:
    """Outputs, whether all rules hold with each, and which of the comparisons in them do."""
    logics = [item.value["check"] for item in state.items("key_results") if _is_rule(item.value.get("check"))]
    rules = [compile_rule(logic) for logic in logics]
    parts = [compile_rule(part) for logic in logics for part in _comparisons(logic)]
    found: set[str] = set()
    for output in _tried(logics, rules, labels, context) if rules else ():
        for said in (*({**output, "_transition": label} for label in labels if isinstance(output, dict)), output):
            if text(said) not in found:
                found.add(text(said))
                data = {"output": said, "context": context, "input": ["a"]}
                holds = all(test(rule, data).holds for rule in rules)
                yield said, holds, tuple(test(part, data).holds for part in parts)


def _tried(
    logics: Sequence[Any], rules: Sequence[Rule], labels: Sequence[str], context: Mapping[str, Any]
) -> Iterator[Any]:
    reads = sorted({name for rule in rules for name in rule.reads})
    names = [name for name in reads if name.startswith("output.")]
    literals = [part for logic in logics for part in _literals_in(logic)]
    beside = [context.get(name.removeprefix("context.")) for name in reads if name.startswith("context.")]
    numbers = [one for one in beside if is_number(one)]
    lengths = [size for logic in logics for _, size in sizes(logic)]
    if names:
        lists = (["a"] * size for size in lengths if size <= _LONGEST_LIST)
        near = (number + shift for number in numbers for shift in (0, 1))
        values: list[Any] = [*labels, 1, *near, *literals, *lists, [], ["a"], "done"]
        unique = list({text(value): value for value in values}.values())[:_MOST_VALUES]
        parts = product(*([(name, value) for value in unique] for name in names[2::-1]))
        yield from (placed(chosen).get("output", {}) for chosen in islice(parts, _TRIED))
        return
    spoken = [made for logic in logics for _, pattern in patterns(logic) for made in matching(pattern)]
    yield [{name: "a" for logic in logics for name in _members(logic)}]
    yield from (*labels, 1, *literals, [], ["a"], "done")
    yield from ([made] * count for made in (*dict.fromkeys(spoken[:2]), "a") for count in range(1, 7))
    yield from ("a" * length for length in lengths)
    yield from spoken
    wholes = [size for size in literals if isinstance(size, int) and 1 < size < 10_000]
    yield from ("a" * length for size in wholes for length in (size, size - 1, size + 1))


def _comparisons(rule: object) -> Iterator[Any]:
    """The parts of a rule that and, or and not connect."""
    found = operation(rule)
    if found is None or found[0] not in ("and", "or", "!", "!!"):
        yield rule
        return
    for part in found[1]:
        yield from _comparisons(part)


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
