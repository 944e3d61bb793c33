"""Rules of the family work: each with a faulty machine and a good one that looks alike."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, found_by, machine, to, when

Found = tuple[str, str, tuple[str, ...]]
SEARCH = {"search": {"registered": "search"}}
ONCE = {"pay": {"registered": "pay", "at_most_once": True}}
CHECKED = [{"name": "ok", "check": {"has_context": "output.id"}}]


def task(*targets: str, **more: Any) -> Written:
    return {
        "kind": "task",
        "purpose": "x",
        "transitions": [to(target) for target in targets],
        **more,
    }


def wait(*moves: Written, **more: Any) -> Written:
    return machine(
        {"a": {"kind": "wait", "transitions": list(moves), **more}, "z": {"kind": "final"}}
    )


def one(state: Written, **more: Any) -> Written:
    return machine({"a": state}, **more)


def reading(name: str) -> Written:
    return task(key_results=[{"name": "k", "check": {"!!": [{"var": name}]}}])


def found_at(path: str) -> Written:
    return {"t": {"registered": "f", "output": {"x": path}}}


PAID = {"properties": {"paid": {"type": "object", "properties": {"by": {"type": "string"}}}}}
CHECK, OUTPUT = "/states/a/key_results/0/check", "/tools/t/output/x"


def circle(**more: Any) -> Written:
    states = {
        "a": task("b"),
        "b": {"kind": "decide", "transitions": [to("z", when(None, "ok")), to("a", priority=200)]},
    }
    return machine(states, **more)


BAD: list[tuple[str, Written, list[Found]]] = [
    ("bad-check", one(reading("context.payd"), context_schema=PAID), [("warning", CHECK, ())]),
    ("bad-check", one(reading("context.paid.bye"), context_schema=PAID), [("warning", CHECK, ())]),
    (
        "unknown-key-in-mapping",
        one(task(), tools=found_at("$.items[0]")),
        [("warning", OUTPUT, ())],
    ),
    ("unknown-key-in-mapping", one(task(), tools=found_at("$..name")), [("warning", OUTPUT, ())]),
    ("unknown-key-in-mapping", one(task(), tools=found_at("/items/0")), [("warning", OUTPUT, ())]),
    (
        "unknown-tool",
        one(task(tools=["serch"]), tools=SEARCH),
        [("error", "/states/a/tools/0", ())],
    ),
    (
        "unknown-state",
        one(task(), tools={"t": {"registered": "f", "scope": ["b"]}}),
        [("warning", "/tools/t/scope/0", ())],
    ),
    ("unused-tool", one(task(), tools=SEARCH), [("warning", "/tools/search", ())]),
    (
        "tool-never-reachable",
        machine({"a": task(), "b": task(tools=["search"])}, tools=SEARCH),
        [("warning", "/tools/search", ())],
    ),
    (
        "tool-out-of-scope",
        one(task(tools=["t"]), tools={"t": {"registered": "f", "scope": ["b"]}}),
        [("warning", "/states/a/tools/0", ())],
    ),
    (
        "key-result-without-check",
        one(task(key_results=[{"name": "k"}])),
        [("warning", "/states/a/key_results/0", ())],
    ),
    (
        "key-result-without-check",
        one(
            task(key_results=[{"name": "k", "description": "x"}, {"name": "l", "description": "y"}])
        ),
        [("info", "/states/a/key_results", ())],
    ),
    (
        "retry-without-idempotence",
        one(task(tools=["pay"], key_results=CHECKED), tools=ONCE),
        [("warning", "/states/a/tools/0", ())],
    ),
    ("missing-limit", circle(), [("info", "/states/a", ("a", "b", "a"))]),
    ("missing-limit", one(task("a", "z")), [("info", "/states/a", ("a", "a"))]),
    ("wait-without-way-out", wait(), [("warning", "/states/a", ())]),
    ("wait-without-way-out", wait(timeout=60), [("warning", "/states/a", ())]),
    ("wait-without-way-out", wait(to("z", when(False))), [("warning", "/states/a", ())]),
    (
        "on-timeout-without-timeout",
        wait(to("z"), on_timeout="z"),
        [("warning", "/states/a/on_timeout", ())],
    ),
    ("task-without-results", one(task()), [("info", "/states/a", ())]),
    ("subflow-without-flow", one({"kind": "subflow"}), [("error", "/states/a", ())]),
    (
        "setting-without-effect",
        one({"key_results": CHECKED, "transitions": [to("b")]}),
        [("warning", "/states/a/key_results", ())],
    ),
    (
        "setting-without-effect",
        one({"kind": "decide", "timeout": 5, "transitions": [to("b")]}),
        [("warning", "/states/a/timeout", ())],
    ),
    (
        "setting-without-effect",
        one({"transitions": [to("b", on="x")]}),
        [("warning", "/states/a/transitions/0/on", ())],
    ),
    (
        "setting-without-effect",
        one({"kind": "decide", "required_context_keys": ["x"], "transitions": [to("b")]}),
        [("warning", "/states/a/required_context_keys", ())],
    ),
    (
        "setting-without-effect",
        one({"messages": "record", "transitions": [to("b")]}),
        [("warning", "/states/a/messages", ())],
    ),
    (
        "setting-without-effect",
        wait(to("z"), messages="record", remind=[60]),
        [("warning", "/states/a/remind", ())],
    ),
    (
        "duplicate-label",
        one(
            {
                "kind": "task",
                "transitions": [to("b", on="x"), to("c", on="x"), to("d", on="default")],
            }
        ),
        [("warning", "/states/a/transitions/1/on", ())],
    ),
    (
        "duplicate-label",
        one({"kind": "task", "transitions": [to("b", on="x")]}),
        [("info", "/states/a/transitions", ())],
    ),
    (
        "duplicate-label",
        one({"kind": "task", "transitions": [to("b", on="x"), to("c"), to("d", on="default")]}),
        [("warning", "/states/a/transitions/1", ())],
    ),
    (
        "remind-after-timeout",
        wait(to("z"), timeout=60, on_timeout="z", remind=[30, 60]),
        [("warning", "/states/a/remind/1", ())],
    ),
    (
        "retry-loop",
        one(task(on_exhausted="a")),
        [("warning", "/states/a/on_exhausted", ("a", "a"))],
    ),
]

GOOD: list[tuple[str, Written]] = [
    ("bad-check", one(reading("context.paid"), context_schema=PAID)),
    ("bad-check", one(reading("context.paid.by"), context_schema=PAID)),
    ("bad-check", one(reading("context.anything"))),
    ("unknown-key-in-mapping", one(task(), tools=found_at("$.items.0.name"))),
    ("unknown-key-in-mapping", one(task(), tools=found_at("$"))),
    ("unknown-key-in-mapping", one(task(), tools=found_at("a b.c-d"))),
    ("unknown-tool", one(task(tools=["search"]), tools=SEARCH)),
    ("unknown-state", one(task(), tools={"t": {"registered": "f", "scope": ["a"]}})),
    ("unused-tool", one(task(tools=["search"]), tools=SEARCH)),
    ("unused-tool", one(task(tools=["serch"]), tools=SEARCH)),  # unknown-tool says it
    ("tool-never-reachable", machine({"a": task("b"), "b": task(tools=["search"])}, tools=SEARCH)),
    ("tool-never-reachable", one(task(), tools=SEARCH)),
    ("tool-out-of-scope", one(task(tools=["t"]), tools={"t": {"registered": "f", "scope": ["a"]}})),
    ("key-result-without-check", one(task(key_results=CHECKED))),
    (
        "retry-without-idempotence",
        one(task(tools=["pay"], key_results=CHECKED, max_retries=0), tools=ONCE),
    ),
    ("retry-without-idempotence", one(task(tools=["search"], key_results=CHECKED), tools=SEARCH)),
    ("retry-without-idempotence", one(task(tools=["pay"]), tools=ONCE)),
    ("missing-limit", circle(limits={"seconds": 60})),
    ("missing-limit", one(task("z", on_exhausted="a"))),
    ("missing-limit", machine({"a": task("b"), "b": {"transitions": [to("a"), to("z")]}})),
    ("wait-without-way-out", wait(to("z"))),
    ("wait-without-way-out", wait(to("z", when({"==": [{"var": "ok"}, True]})))),
    ("wait-without-way-out", wait(timeout=60, on_timeout="z")),
    ("on-timeout-without-timeout", wait(on_timeout="z", timeout=5)),
    (
        "setting-without-effect",
        one({"timeout": 5, "on_timeout": "b", "remind": [1], "transitions": [to("b")]}),
    ),
    ("task-without-results", one(task(key_results=CHECKED))),
    ("task-without-results", one(task(execute="work"))),
    ("subflow-without-flow", one({"kind": "subflow", "flow": "pay"})),
    (
        "setting-without-effect",
        one(task(key_results=CHECKED, max_retries=0, on_exhausted="continue")),
    ),
    (
        "setting-without-effect",
        wait(to("z"), timeout=5, on_timeout="z", remind=[1], output={"x": "$"}),
    ),
    ("setting-without-effect", wait(to("z"), messages="record", timeout=5, on_timeout="z")),
    ("setting-without-effect", wait(to("z"), messages="refuse", remind=[60])),
    ("setting-without-effect", one({"key_results": [], "transitions": [to("b")]})),
    (
        "duplicate-label",
        one({"kind": "task", "transitions": [to("b", on="x"), to("c", on="default")]}),
    ),
    ("duplicate-label", one({"kind": "task", "transitions": [to("b", on="x"), to("c")]})),
    (
        "duplicate-label",
        one(
            {
                "kind": "task",
                "transitions": [to("c"), to("d", {"requires_context_keys": ["k"]}, on="default")],
            }
        ),
    ),
    ("remind-after-timeout", wait(to("z"), timeout=60, remind=[30])),
    ("remind-after-timeout", wait(to("z"), remind=[3000])),
    ("retry-loop", one(task(on_exhausted="raise"))),
]


@pytest.mark.parametrize(("rule", "document", "expected"), BAD)
def test_each_fault_is_found_with_the_path_that_shows_it(
    rule: str, document: Written, expected: list[Found]
) -> None:
    assert [
        (found.level, found.pointer, found.path) for found in found_by(rule, document)
    ] == expected


@pytest.mark.parametrize(("rule", "document"), GOOD)
def test_what_looks_alike_and_is_right_is_not_found(rule: str, document: Written) -> None:
    assert found_by(rule, document) == []
