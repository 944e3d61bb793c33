"""Rules of the family graph: each with a faulty machine and a good one that looks alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lint_cases import Written, found_by, machine, to, when
from llm_fsm import check

FINAL = {"kind": "final", "purpose": "End"}
Found = tuple[str, str, tuple[str, ...]]


def decide(*moves: Written) -> Written:
    return {"kind": "decide", "transitions": list(moves)}


def leads(*targets: str) -> Written:
    return {"transitions": [to(target) for target in targets]}


def task(*targets: str, **more: Any) -> Written:
    return {"kind": "task", **leads(*targets), **more}


N = {"var": "n"}


def rounds(goes_on: Written, ends: Written) -> Written:
    """Two deciding states that lead to each other: the first under one condition, the second but
    for another.
    """
    states = {
        "a": {"required_context_keys": ["n"], "transitions": [to("b", when(None, "n"))]},
        "b": decide(to("c", goes_on), to("z")),
        "c": decide(to("z", ends), to("b")),
    }
    return machine(
        states, {"n": {"type": "integer"}, "tries": {"type": "integer", "x-source": "host"}}
    )


HELP = {"global_transitions": [to("help")]}
DIGRESSION = {"global_transitions": [{**to("help"), "return": True}]}

BAD: list[tuple[str, Written, list[Found]]] = [
    (
        "unknown-target",
        {**machine({"a": {}}), **HELP},
        [("error", "/global_transitions/0/target_state", ())],
    ),
    (
        "unknown-target",
        machine({"a": {"on_timeout": "A"}}),
        [("error", "/states/a/on_timeout", ())],
    ),
    (
        "unknown-target",
        machine({"a": {"on_exhausted": "z"}}),
        [("error", "/states/a/on_exhausted", ())],
    ),
    (
        "unknown-initial-state",
        {**machine({"a": {}}), "initial_state": "b"},
        [("error", "/initial_state", ())],
    ),
    (
        "unreachable-state",
        machine({"a": leads("z"), "b": leads("z")}),
        [("warning", "/states/b", ())],
    ),
    (
        "unreachable-state",
        machine({"a": leads("z"), "b": leads("c"), "c": leads("b")}),
        [("warning", "/states/b", ()), ("warning", "/states/c", ())],
    ),
    (
        "no-way-to-an-end",
        machine({"a": leads("b"), "b": leads("a"), "z": FINAL}),
        [("warning", "/initial_state", ())],
    ),
    (
        "trap",
        machine({"a": leads("b", "z"), "b": leads("c"), "c": leads("d"), "d": leads("c", "b")}),
        [("warning", "/states/b", ("a", "b", "c", "d", "b"))],
    ),
    (
        "trap",  # a digression comes back: it is no way out
        {
            **machine({"a": leads("b", "z"), "b": leads("c"), "c": leads("b"), "help": FINAL}),
            **DIGRESSION,
        },
        [("warning", "/states/b", ("a", "b", "c", "b"))],
    ),
    (
        "self-only-state",
        machine({"a": leads("b"), "b": leads("b")}),
        [("warning", "/states/b", ("a", "b"))],
    ),
    ("no-final-state", machine({"a": leads("b"), "b": leads("a")}), [("info", "/states", ())]),
    (
        "auto-loop",
        machine(
            {"a": leads("b"), "b": decide(to("c")), "c": {"transitions": [to("b", auto=True)]}}
        ),
        [("warning", "/states/b", ("a", "b", "c", "b"))],
    ),
    (
        "auto-loop",
        rounds(when({"<": [N, 5]}), when({"==": [N, 3]})),
        [("warning", "/states/b", ("a", "b", "c", "b"))],
    ),
    (
        "auto-loop",
        rounds(when({"<": [N, 5]}), when({"==": [{"var": "tries"}, 3]})),
        [("info", "/states/b", ("a", "b", "c", "b"))],
    ),
    (
        "decide-without-transitions",
        machine({"a": leads("b"), "b": decide()}),
        [("error", "/states/b", ())],
    ),
    (
        "final-with-transitions",
        machine({"a": {**FINAL, **leads("b")}}),
        [("warning", "/states/a/transitions", ())],
    ),
    (
        "self-transition",
        machine({"a": leads("b", "a")}),
        [("info", "/states/a/transitions/1/target_state", ())],
    ),
    (
        "return-without-effect",
        machine({"a": {"transitions": [{**to("b"), "return": True}]}}),
        [("warning", "/states/a/transitions/0/return", ())],
    ),
    (
        "subflow-recursion",
        machine({"a": {"kind": "subflow", "flow": "case"}}),
        [("warning", "/states/a/flow", ())],
    ),
    (
        "missing-flow",
        machine({"a": {"kind": "subflow", "flow": "/x/y.json"}}),
        [("error", "/states/a/flow", ())],
    ),
    (
        "missing-flow",
        machine({"a": {"kind": "subflow", "flow": "https://x.org/y.json"}}),
        [("error", "/states/a/flow", ())],
    ),
    (
        "unreachable-global",
        {**machine({"help": leads("z")}), **HELP},
        [("warning", "/global_transitions/0", ())],
    ),
    (
        "unreachable-global",
        {**machine({"a": decide(to("b")), "b": task("z"), "help": FINAL}), **HELP},
        [("warning", "/global_transitions/0", ())],
    ),
    (
        "collects-at-the-end",
        machine({"a": leads("b"), "b": {"required_context_keys": ["x"]}}),
        [("warning", "/states/b/required_context_keys", ())],
    ),
    (
        "return-without-effect",
        {**machine({"a": leads("z"), "help": leads("more"), "more": leads("help")}), **DIGRESSION},
        [("warning", "/global_transitions/0/return", ())],
    ),
]

GOOD: list[tuple[str, Written]] = [
    ("auto-loop", rounds(when({"<": [N, 5]}), when({"<": [N, 9]}))),
    ("auto-loop", rounds(when({"<": [{"var": "tries"}, 5]}), when({"==": [N, 3]}))),
    (
        "unknown-target",
        machine({"a": {"on_exhausted": "continue"}, "b": {"on_exhausted": "raise"}}),
    ),
    ("unknown-initial-state", machine({"a": {}})),
    ("unreachable-state", {**machine({"a": leads("z"), "help": FINAL}), **HELP}),
    (
        "unreachable-state",
        machine({"a": {"kind": "wait", "timeout": 1, "on_timeout": "b"}, "b": FINAL}),
    ),
    ("unreachable-state", machine({"a": {"kind": "task", "on_exhausted": "b"}, "b": FINAL})),
    ("unreachable-state", {**machine({"a": {}, "b": {}}), "initial_state": "z"}),
    ("no-way-to-an-end", machine({"a": leads("b"), "b": leads("a")})),
    ("no-way-to-an-end", machine({"a": leads("b"), "b": leads("a", "z")})),
    ("trap", machine({"a": leads("b", "z"), "b": leads("c"), "c": leads("b", "a")})),
    (
        "trap",
        {
            **machine({"a": leads("b", "z"), "b": leads("c"), "c": leads("b"), "help": FINAL}),
            **HELP,
        },
    ),
    ("trap", machine({"a": leads("b"), "b": leads("c"), "c": leads("b")})),
    ("self-only-state", machine({"a": leads("a", "b")})),
    ("self-only-state", {**machine({"a": leads("a"), "help": FINAL}), **HELP}),
    ("self-only-state", machine({"a": {}})),
    ("no-final-state", machine({"a": leads("b"), "b": task()})),
    (
        "auto-loop",
        machine(
            {
                "a": decide(to("b"), to("z", {"requires_context_keys": ["x"]}, priority=5)),
                "b": decide(to("a")),
            }
        ),
    ),
    ("auto-loop", machine({"a": decide(to("b")), "b": leads("a")})),
    ("auto-loop", machine({"a": decide(to("b")), "b": task("a")})),
    ("decide-without-transitions", machine({"a": leads("b"), "b": decide(to("z"))})),
    ("final-with-transitions", machine({"a": {"kind": "final", "transitions": []}})),
    ("self-transition", machine({"a": task("a", "b")})),
    ("self-transition", {**machine({"a": leads("z"), "help": leads("z")}), **HELP}),
    ("return-without-effect", {**machine({"a": leads("z"), "help": FINAL}), **DIGRESSION}),
    ("subflow-recursion", machine({"a": {"kind": "subflow", "flow": "other"}})),
    ("missing-flow", machine({"a": {"kind": "subflow", "flow": "registered"}})),
    ("missing-flow", machine({"a": {"kind": "subflow", "flow": "unknown/without/a/file.json"}})),
    ("unreachable-global", {**machine({"a": leads("z"), "help": FINAL}), **HELP}),
    (
        "collects-at-the-end",
        machine({"a": {"required_context_keys": ["x"], **leads("b")}, "b": {"purpose": "x"}}),
    ),
    (
        "return-without-effect",
        {
            **machine({"a": leads("z"), "help": leads("more", "z"), "more": leads("help")}),
            **DIGRESSION,
        },
    ),
]


def said(rule: str, document: Written) -> list[Found]:
    return [(found.level, found.pointer, found.path) for found in found_by(rule, document)]


@pytest.mark.parametrize(("rule", "document", "expected"), BAD)
def test_each_fault_is_found_with_the_path_that_shows_it(
    rule: str, document: Written, expected: list[Found]
) -> None:
    assert said(rule, document) == expected


@pytest.mark.parametrize(("rule", "document"), GOOD)
def test_what_looks_alike_and_is_right_is_not_found(rule: str, document: Written) -> None:
    assert said(rule, document) == []


def test_a_state_whose_name_is_misspelt_in_a_target_is_not_called_unreachable_too() -> None:
    document = machine({"a": {}, "goodbye": FINAL})
    document["states"]["a"] = {"purpose": "Greet", **leads("godbye")}
    assert [(found.name, found.hint) for found in check(document) if found.level != "info"] == [
        ("unknown-target", 'did you mean "goodbye"?')
    ]


def test_many_unknown_targets_are_all_found_and_hints_are_given_for_the_first_ones() -> None:
    document = machine({"a": {}})
    document["states"]["a"] = leads(*(f"t{number}" for number in range(300)))
    found = found_by("unknown-target", document)
    assert (len(found), found[0].hint, found[-1].hint) == (300, "the states are a", None)


def subflow(path: str) -> Written:
    return machine({"go": {"kind": "subflow", "flow": path, "transitions": [to("end")]}})


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"main.json": subflow("main.json")}, ["subflow-recursion"]),
        (
            {"main.json": subflow("sub/b.json"), "sub/b.json": subflow("../main.json")},
            ["subflow-recursion"],
        ),
        ({"main.json": subflow("b.json"), "b.json": subflow("b.json")}, []),
        ({"main.json": subflow("b.json"), "b.json": machine({"a": {}})}, []),
        ({"main.json": subflow("b.json")}, ["missing-flow"]),
        ({"main.json": subflow("b.json"), "b.json": 3}, ["missing-flow"]),
        ({"main.json": subflow("sub/../b.json"), "b.json": machine({"a": {}})}, []),
        ({"main.json": subflow("..\\b.json")}, ["missing-flow"]),
    ],
)
def test_calls_are_followed_from_file_to_file(
    tmp_path: Path, files: dict[str, Any], expected: list[str]
) -> None:
    for name, document in files.items():
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(document), encoding="utf-8")
    found = check(tmp_path / "main.json")
    assert [
        one.name for one in found if one.name in ("subflow-recursion", "missing-flow")
    ] == expected


def test_a_call_that_leads_out_of_the_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps(machine({"a": {}})), encoding="utf-8")
    (tmp_path / "sub").mkdir()
    main = tmp_path / "sub" / "main.json"
    for path, level in (
        ("../b.json", "warning"),
        ("x/../../b.json", "warning"),
        ("../nowhere.json", "error"),
    ):
        main.write_text(json.dumps(subflow(path)), encoding="utf-8")
        [found] = [one for one in check(main) if one.name == "missing-flow"]
        assert (found.level, found.pointer) == (level, "/states/go/flow")
        assert "leads out of the folder" in found.message
