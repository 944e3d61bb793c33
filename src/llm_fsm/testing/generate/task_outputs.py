"""Make outputs of a task with which its key results pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, product
from typing import Any

from llm_fsm._json import JsonMap
from llm_fsm.conditions.coercion import is_number
from llm_fsm.conditions.compiler import CompiledRule, compile_rule, test
from llm_fsm.lint.document import Pairs, Placed
from llm_fsm.lint.solver.cases import placed
from llm_fsm.lint.solver.outcomes import operation
from llm_fsm.testing.generate.solver import inner_rules, literals_in, patterns, sizes, text
from llm_fsm.testing.generate.values import matching

_TRIED = 400
_MOST_VALUES = 16
_LONGEST = 50


def outputs(state: Placed, labels: Sequence[str], context: JsonMap) -> Iterator[Any]:
    """Yield outputs with which all rules of a state's key results are true, for each label."""
    rules = _rules(state)
    for output in _tried(rules, labels, context):
        for said in (*_labelled(output, labels), output):
            data = {"output": said, "context": context, "input": ["a"]}
            if all(test(rule, data).holds for _, rule in rules):
                yield said


def candidates(state: Placed, labels: Sequence[str], context: JsonMap) -> Iterator[Any]:
    """Yield outputs at which the rules of a state's key results may differ, without duplicates."""
    seen = set()
    for output in _tried(_rules(state), labels, context):
        for one in (output, *_labelled(output, labels)):
            if text(one) not in seen:
                seen.add(text(one))
                yield one


def _rules(state: Placed) -> list[tuple[Any, CompiledRule]]:
    """Return the rules of a state's key results, as written and as compiled."""
    checks = [item.get("check") for item in state.items("key_results")]
    return [(check, compile_rule(check)) for check in checks if _is_rule(check)]


def _labelled(output: Any, labels: Sequence[str]) -> list[Any]:
    """Return an output with each label, if it can have one."""
    if not isinstance(output, dict):
        return []
    return [{**output, "_transition": label} for label in labels]


def _tried(
    rules: Sequence[tuple[Any, CompiledRule]], labels: Sequence[str], context: JsonMap
) -> Iterator[Any]:
    if not rules:
        return
    logics = [logic for logic, _ in rules]
    reads = sorted(set[str]().union(*(rule.reads for _, rule in rules)))
    names = [name for name in reads if name.startswith("output.")]
    literals = [*chain.from_iterable(map(literals_in, logics))]
    beside = [
        context.get(name.removeprefix("context.")) for name in reads if name.startswith("context.")
    ]
    near: list[Any] = []
    for number in filter(is_number, beside):
        near += (number, number + 1)
    lengths = [size for _, size in chain.from_iterable(map(sizes, logics))]
    members = [next(matching(pattern), "a") for _, pattern in _patterns_in(logics)]
    lists: list[Any] = []
    for size in lengths:
        if size <= _LONGEST:
            lists += ([item] * size for item in (*members, "a"))
    if names:
        values = [*labels, 1, *near, *literals, *lists, [], ["a"], "done"]
        unique = list({text(value): value for value in values}.values())[:_MOST_VALUES]
        parts = product(*(product([name], unique) for name in names[2::-1]))
        yield from (placed(chosen).get("output", {}) for chosen in islice(parts, _TRIED))
        return
    spoken: list[str] = []
    for _, pattern in _patterns_in(logics):
        spoken += matching(pattern)
    yield [dict.fromkeys(chain.from_iterable(map(_members, logics)), "a")]
    yield from (*labels, 1, *literals, [], *lists, "done", *spoken)
    for text_of_member in (*dict.fromkeys(spoken[:2]), "a"):
        yield from ([text_of_member] * count for count in range(1, 7))
    yield from ("a" * length for length in lengths)


def _patterns_in(logics: Sequence[Any]) -> Pairs:
    return chain.from_iterable(map(patterns, logics))


def _members(rule: object) -> Iterator[str]:
    """Yield the names that a rule reads of the members of a list."""
    found = operation(rule)
    if found is not None and found[0] == "var" and found[1] and isinstance(found[1][0], str):
        name = found[1][0].split(".")[0]
        if name not in ("", "output", "context", "input"):
            yield name
    for part in inner_rules(rule):
        yield from _members(part)


def _is_rule(check: object) -> bool:
    return isinstance(check, dict) and not check.keys() & {"judge", "registered"}
