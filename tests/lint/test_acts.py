"""Acts without a yes, guards that a correction gets around, and marks of a yes that do nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lint_cases import Written, found_by, machine, to, when
from llm_fsm.documents.check import check

LATE = when({">=": [{"date": [{"var": "day"}]}, {"now": []}]})
FEW = when({"<=": [{"var": "guests"}, 8]})
KEYS = {
    "properties": {
        "day": {"type": "string"},
        "guests": {"type": "integer"},
        "sum": {"x-source": "host"},
    }
}
PAY = {"pay": {"registered": "pay", "acts": True}}
END = {"purpose": "Say that it is booked"}


def yes(target: str, **more: Any) -> Written:
    return to(target, agrees=True, **more)


def asks(*moves: Written, **more: Any) -> Written:
    return {"purpose": "Right?", "transitions": list(moves), **more}


def books(*moves: Written, **more: Any) -> Written:
    return {"kind": "task", "purpose": "Book", "acts": True, "transitions": list(moves), **more}


def booking(confirm: Written, **states: Written) -> Written:
    first = asks(to("b"), required_context_keys=["day"])
    return machine(
        {"a": first, "b": confirm, "book": books(to("z")), **states, "z": END}, context_schema=KEYS
    )


APPROVED = {"registered": "pay", "approval": True}
ASKED = {**APPROVED, "acts": True}


def by_tools(tools: Written, **more: Any) -> Written:
    states = {"a": asks(to("b")), "b": books(to("z"), tools=[*tools], **more), "z": END}
    return machine(states, tools=tools)


ACTS: list[tuple[Written, list[tuple[str, ...]]]] = [
    (booking(asks(yes("book"), confirms=["day"])), []),
    (booking(asks(to("book"))), [("a", "b", "book")]),
    (booking(asks(yes("book"), to("book"), confirms=["day"])), [("a", "b", "book")]),
    (booking(asks(yes("book"))), [("a", "b", "book")]),
    (booking(asks(yes("c"), confirms=["day"]), c=asks(to("book"))), []),
    (booking(asks(yes("c"), confirms=["day"]), c=asks(to("book"), required_context_keys=["day"])),
     [("a", "b", "c", "book")]),
    (booking(asks(yes("book", set={"day": "today"}), confirms=["day"])), [("a", "b", "book")]),
    (booking(asks(yes("c"), confirms=["day"]), c=asks(to("book", clear=["day"]))), [("a", "b", "c", "book")]),
    (booking(asks(to("c")), c={"kind": "wait", "transitions": [to("book")]}), []),
    (booking(asks(to("c")), c={"kind": "wait", "timeout": 9, "on_timeout": "book", "transitions": [to("z")]}),
     [("a", "b", "c", "book")]),
    (machine({"a": asks(to("z"), tools=["pay"]), "z": END}, tools=PAY), [("a",)]),
    (machine({"a": asks(to("z"), tools=["pay"]), "z": END}, tools={"pay": {**PAY["pay"], "approval": True}}), []),
    (machine({"a": asks(yes("b"), confirms=["day"]), "b": asks(to("z"), tools=["pay"]), "z": END}, tools=PAY), []),
    # a task acts by its tools: by those that say so, else by all
    (by_tools({"pay": ASKED}), []),
    (by_tools({"pay": ASKED, "look": {"registered": "look"}}), []),
    (by_tools({"pay": APPROVED, "send": APPROVED}), []),
    (by_tools({"pay": APPROVED, "send": {"registered": "send"}}), [("a", "b")]),
    (by_tools({"pay": ASKED, "send": {**PAY["pay"]}}), [("a", "b"), ("a", "b")]),
    (by_tools({"pay": {**ASKED, "approval": False}}), [("a", "b"), ("a", "b")]),
    (by_tools({"pay": ASKED}, execute="work"), [("a", "b")]),
    (by_tools({}), [("a", "b")]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "paths"), ACTS)
def test_an_act_needs_a_yes_or_an_approval_on_every_path(
    document: Written, paths: list[tuple[str, ...]]
) -> None:
    found = found_by("act-without-yes", document)
    assert [(finding.level, finding.path) for finding in found] == [
        ("error", path) for path in paths
    ]
    for finding, path in zip(found, paths, strict=True):
        assert " → ".join(path) in finding.message


def guarded(*last: Written, confirm: Written | None = None, **more: Any) -> Written:
    first = asks(to("b", LATE), required_context_keys=["day"])
    states = {"a": first, "b": {**asks(to("z", *last), to("a")), **(confirm or {})}, "z": END}
    return machine(states, **{"context_schema": KEYS, **more})


GUARDS: list[tuple[Written, list[tuple[str, ...]]]] = [
    (guarded(), [("a", "b", "z")]),
    (guarded(when({"has_context": "day"})), [("a", "b", "z")]),
    (guarded(LATE), []),
    (guarded(when({"and": [{"has_context": "day"}, {">": [{"date": [{"var": "day"}]}, 5]}]})), []),
    (guarded(confirm={"confirms": ["day"], "transitions": [yes("z")]}), []),
    (guarded(confirm={"confirms": ["guests"], "transitions": [yes("z")]}), [("a", "b", "z")]),
    (guarded(patterns=["correct"]), []),
    (guarded(context_schema={"properties": {"day": {"x-source": "host"}}}), []),
    (guarded(context_schema={"properties": {"day": {"x-valid": [{"logic": True, "description": "x"}]}}}), []),
    # a guard that only chooses the way
    (machine({"a": asks(to("b", FEW), to("z", when({">": [{"var": "guests"}, 8]}))), "b": asks(to("z")), "z": END}),
     []),
    (machine({"a": {"kind": "decide", "transitions": [to("b", FEW), to("y")]}, "b": asks(to("z")),
              "y": END, "z": END}), []),
    # but before an act it must hold
    (machine({"a": {"kind": "decide", "transitions": [to("b", FEW), to("y")]}, "b": asks(yes("c"), confirms=["day"]),
              "c": books(to("z")), "y": END, "z": END}), [("a", "b", "c")]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "paths"), GUARDS)
def test_a_guard_must_hold_at_the_last_move_too(
    document: Written, paths: list[tuple[str, ...]]
) -> None:
    found = found_by("guard-before-change", document)
    assert [(finding.level, finding.path) for finding in found] == [
        ("warning", path) for path in paths
    ]


def test_a_document_without_acts_has_at_most_one_such_guard() -> None:
    states = {
        "a": asks(to("b", LATE)),
        "b": asks(to("c", FEW)),
        "c": asks(to("z"), to("y")),
        "z": END,
        "y": END,
    }
    assert len(found_by("guard-before-change", machine(states))) == 1


MARKS: list[tuple[Written, list[tuple[str, str]]]] = [
    (machine({"a": asks(yes("z"), confirms=["day"]), "z": END}, context_schema=KEYS), []),
    (machine({"a": asks(yes("z")), "z": END}), [("error", "/states/a/transitions/0/agrees")]),
    (machine({"a": asks(yes("z", auto=True), confirms=["day"]), "z": END}),
     [("error", "/states/a/transitions/0/auto")]),
    (machine({"a": asks(to("z"), confirms=["day"]), "z": END}), [("warning", "/states/a/confirms")]),
    (machine({"a": asks(yes("z"), confirms=["dey"]), "z": END}, context_schema=KEYS),
     [("error", "/states/a/confirms/0")]),
    (machine({"a": asks(to("z")), "z": END}, global_transitions=[yes("z")]),
     [("error", "/global_transitions/0/agrees")]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "places"), MARKS)
def test_a_yes_to_nothing_is_found(document: Written, places: list[tuple[str, str]]) -> None:
    assert [
        (found.level, found.pointer) for found in found_by("yes-without-effect", document)
    ] == places


ENDS: list[tuple[Written, list[tuple[str, ...]]]] = [
    # the end behind a "no" is no act, and the one behind the yes is
    (machine({"a": asks(to("b", LATE)), "b": asks(yes("z"), to("no"), confirms=["guests"]), "z": END, "no": END}),
     [("a", "b", "z")]),
    (machine({"a": asks(to("b", LATE)), "b": asks(yes("z"), to("no"), confirms=["day"]), "z": END, "no": END}), []),
    (machine({"a": asks(to("b", LATE)), "b": asks(yes("c"), to("bye"), confirms=["day"]), "c": asks(to("bye")),
              "bye": END}), []),
]  # fmt: skip


@pytest.mark.parametrize(("document", "paths"), ENDS)
def test_an_end_behind_a_no_is_no_act(document: Written, paths: list[tuple[str, ...]]) -> None:
    assert [found.path for found in found_by("guard-before-change", document)] == paths


@pytest.mark.parametrize(
    ("reply", "keys"),
    [
        ("Shall I book {{ day }} for {{ guests }}?", []),
        ("Shall I book {{ day }}?", ["guests"]),
        ("Shall I book it?", ["day", "guests"]),
        ("Shall I book{% if guests %} for {{ guests }}{% endif %} on {{ day | date }}?", []),
        ("Shall I book {% if guests > 4 %}the hall{% else %}a table{% endif %} on {{ day }}?", []),
    ],
)
def test_a_reply_shows_what_its_state_confirms(reply: str, keys: list[str]) -> None:
    check = asks(yes("z"), confirms=["day", "guests"], reply=reply)
    document = machine({"a": asks(to("b")), "b": check, "z": END}, context_schema=KEYS)
    found = found_by("confirmed-not-shown", document)
    assert [one.message.split('"')[3] for one in found] == keys


SECONDS: list[tuple[Written, list[tuple[str, ...]]]] = [
    (booking(asks(yes("book"), confirms=["day"])), []),
    (booking(asks(yes("book"), confirms=["day"]), book=books(to("pay")), pay=books(to("z"))), [("book", "pay")]),
    (booking(asks(yes("book"), confirms=["day"]), book=books(to("c")), c=asks(to("pay")), pay=books(to("z"))),
     [("book", "c", "pay")]),
    (booking(asks(yes("book"), confirms=["day"]), book=books(to("c")), c=asks(yes("pay"), confirms=["day"]),
             pay=books(to("z"))), []),
    (booking(asks(yes("book"), yes("pay"), confirms=["day"]), pay=books(to("z"))), []),
]  # fmt: skip


@pytest.mark.parametrize(("document", "paths"), SECONDS)
def test_a_second_act_needs_a_read_back_of_its_own(
    document: Written, paths: list[tuple[str, ...]]
) -> None:
    assert [found.path for found in found_by("second-act", document)] == paths


NEEDS_DAY = {"conditions": [{"requires_context_keys": ["day"]}]}
DEMANDS: list[tuple[Written, int]] = [
    (booking(asks(yes("book"), confirms=["day"])), 1),
    (booking(asks(yes("book"), confirms=["sum"])), 0),
    (booking(asks(yes("book"), confirms=["day"], reply="Book{% if day %} on {{ day }}{% endif %}?")), 0),
    (machine({"a": asks({**to("b"), **NEEDS_DAY}), "b": asks(yes("z"), confirms=["day"]), "z": END}), 0),
    (machine({"a": asks(to("b", LATE)), "b": asks(yes("z"), confirms=["day"]), "z": END}), 0),
    (machine({"a": asks({**to("b"), **NEEDS_DAY}, to("b")), "b": asks(yes("z"), confirms=["day"]), "z": END}), 1),
    (machine({"a": asks(to("b", set={"day": "today"})), "b": asks(yes("z"), confirms=["day"]), "z": END}), 0),
]  # fmt: skip


@pytest.mark.parametrize(("document", "count"), DEMANDS)
def test_what_is_confirmed_is_demanded_on_the_way(document: Written, count: int) -> None:
    assert len(found_by("confirmed-not-demanded", document)) == count


INNER = {"name": "inner", "initial_state": "do", "states": {"do": books(to("end")), "end": END}}


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("agrees", [False, True])
def test_an_act_of_a_called_definition_is_judged_where_it_is_called(
    tmp_path: Path, agrees: bool, between: bool
) -> None:
    flow = "inner.json"
    (tmp_path / "inner.json").write_text(json.dumps(INNER))
    if between:
        flow = "middle.json"
        call = {"kind": "subflow", "flow": "inner.json", "transitions": [to("end")]}
        middle = {"name": "middle", "initial_state": "go", "states": {"go": call, "end": END}}
        (tmp_path / flow).write_text(json.dumps(middle))
    calls = {"kind": "subflow", "flow": flow, "transitions": [to("z")]}
    way = yes("call") if agrees else to("call")
    states = {"b": asks(way, confirms=["day"]), "call": calls, "z": END}
    outer = {"name": "outer", "initial_state": "b", "states": states}
    (tmp_path / "outer.json").write_text(json.dumps(outer))
    found = [one for one in check(tmp_path / "outer.json") if one.code == "F120"]
    assert [(one.pointer, one.path) for one in found] == (
        [] if agrees else [("/states/call/flow", ("b", "call"))]
    )
