"""Rules about what stands twice, is blank, says nothing, or leaves no room: each with good ones
that look alike.
"""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm import check

A = "/states/a"
MOVES = A + "/transitions"


def one(**more: Any) -> Written:
    return machine({"a": {"purpose": "Ask", "transitions": [to("b")]}}, **more)


def moves(*transitions: Written, **more: Any) -> Written:
    return machine({"a": {"purpose": "Ask", "transitions": list(transitions), **more}})


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (one(name=" "), "/name"),
        (one(model={"name": ""}), "/model/name"),
        (one(model={"on_failure": " \n"}), "/model/on_failure"),
        (one(limits={"per": {"day": {"turns": 1, "on_limit": " "}}}), "/limits/per/day/on_limit"),
        (moves(to("b"), kind="wait", wait_for=""), A + "/wait_for"),
        (one(tools={"t": {"registered": ""}}), "/tools/t/registered"),
        (one(tools={" ": {"registered": "f"}}), "/tools/ "),
    ],
)
def test_what_is_blank_is_found(document: Written, pointer: str) -> None:
    assert briefly(found_by("blank-text", document)) == [("warning", pointer)]


def test_what_is_left_away_is_not_blank() -> None:
    assert found_by("blank-text", one(model={"temperature": 0}, persona="")) == []


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"model": {"max_tokens": 3}}, "/model/max_tokens"),
        ({"limits": {"llm_calls": 0}}, "/limits/llm_calls"),
        ({"limits": {"tokens": 100}}, "/limits/tokens"),
        ({"limits": {"seconds": 0.01}}, "/limits/seconds"),
        ({"history": {"max_exchanges": 0}}, "/history/max_exchanges"),
        ({"history": {"max_message_chars": 1}}, "/history/max_message_chars"),
        ({"history": {"max_tokens": 1}}, "/history/max_tokens"),
    ],
)
def test_settings_that_leave_no_room_are_found(more: Written, pointer: str) -> None:
    assert [found.pointer for found in check(one(**more)) if found.name == "hopeless-setting"] == [
        pointer
    ]


def test_no_calls_for_tools_are_found_where_there_are_tools() -> None:
    document = one(limits={"tool_calls": 0}, tools={"t": {"registered": "f"}})
    assert found_by("hopeless-setting", document) == []
    document["states"]["a"]["tools"] = ["t"]
    assert briefly(found_by("hopeless-setting", document)) == [("warning", "/limits/tool_calls")]


def test_settings_with_room_are_not_found() -> None:
    settings = {"temperature": 2, "max_tokens": 300}
    limits = {"llm_calls": 1, "tool_calls": 0, "tokens": 20_000, "seconds": 5}
    history = {"max_exchanges": 1, "max_message_chars": 100, "max_tokens": 200}
    assert found_by("hopeless-setting", one(model=settings, limits=limits, history=history)) == []
    silent = machine({"a": {"kind": "decide", "transitions": [to("b")]}}, limits={"llm_calls": 0})
    assert found_by("hopeless-setting", silent) == []


def test_settings_of_the_wrong_form_are_reported_once() -> None:
    names = [found.name for found in check(one(limits={"seconds": 0})) if found.level != "info"]
    assert names == ["bad-value"]


BY = {"by": "metadata.user"}


@pytest.mark.parametrize(
    ("per", "pointer"),
    [
        ({"conversation": {}}, "conversation"),
        ({"user": BY}, "user"),
        ({"day": {"on_limit": "Please come back tomorrow."}}, "day"),
        ({"user": {**BY, "money": 5}, "day": {"money": 2}}, "day/money"),
        ({"user": {**BY, "money": 1, "turns": 9}, "day": {"money": 2, "turns": 8}}, "day/turns"),
    ],
)
def test_limits_that_stop_nothing_are_found(per: Written, pointer: str) -> None:
    found = found_by("idle-limit", one(limits={"per": per}))
    assert briefly(found) == [("warning", f"/limits/per/{pointer}")]


def test_limits_that_stop_somebody_are_not_found() -> None:
    per = {"conversation": {"turns": 1}, "user": {**BY, "money": 2}, "day": {"money": 2}}
    assert found_by("idle-limit", one(limits={"per": per})) == []
    assert found_by("idle-limit", one(limits={"per": {"user": {**BY, "turns": 3}}})) == []


@pytest.mark.parametrize(
    ("per", "name", "pointer"),
    [
        ({"day": {"money": -1}}, "bad-value", "day/money"),
        ({"day": {"tokens": 0}}, "bad-value", "day/tokens"),
        ({"user": {"by": "user", "turns": 1}}, "bad-value", "user/by"),
        ({"user": {"turns": 1}}, "missing-key", "user"),
        ({"week": {"turns": 1}}, "unknown-key", "week"),
        ({"day": {"seconds": 1, "turns": 1}}, "unknown-key", "day/seconds"),
    ],
)
def test_limits_of_a_wrong_form_are_found(per: Written, name: str, pointer: str) -> None:
    found = [item for item in check(one(limits={"per": per})) if item.level != "info"]
    assert [(item.name, item.pointer) for item in found] == [(name, f"/limits/per/{pointer}")]


@pytest.mark.parametrize(
    "condition", [{}, {"description": " "}, {"requires_context_keys": []}, {"logic": None}]
)
def test_conditions_that_say_nothing_are_found(condition: Written) -> None:
    assert briefly(found_by("empty-condition", moves(to("b", condition)))) == [
        ("warning", MOVES + "/0/conditions/0")
    ]


def test_conditions_of_words_keys_or_logic_say_something() -> None:
    conditions = [{"description": "the user agrees"}, when(None, "x"), when(False)]
    assert found_by("empty-condition", moves(to("b", *conditions))) == []


@pytest.mark.parametrize(
    "condition",
    [when(None, "x", "y"), when({"==": [{"var": "x"}, 1]}), {"description": "The user agrees"}],
)
def test_a_condition_that_stands_twice_is_found(condition: Written) -> None:
    found = found_by("repeated-entry", moves(to("b", condition, {**condition})))
    assert briefly(found) == [("warning", MOVES + "/0/conditions/1")]
    assert found_by("repeated-entry", moves(to("b", condition), to("c", condition))) == []


def test_words_in_a_deciding_state_are_judged_by_nobody() -> None:
    said = {"description": "The user agrees"}
    states = {
        "a": {"transitions": [to("d")]},
        "d": {"kind": "decide", "transitions": [to("b", said), to("c", said)]},
    }
    document = machine(states)
    assert briefly(found_by("unjudged-words", document)) == [
        ("warning", "/states/d/transitions/0/conditions/0")
    ]
    assert found_by("shadowed-transition", document) == []
    document["states"]["d"]["transitions"][0]["conditions"] = [{**said, **when(None, "x")}]
    assert found_by("unjudged-words", document) == []


def test_words_on_an_automatic_transition_are_judged_by_nobody() -> None:
    said = {"description": "The user agrees"}
    assert briefly(found_by("unjudged-words", moves(to("b", said, auto=True), to("c")))) == [
        ("warning", MOVES + "/0/conditions/0")
    ]
    assert found_by("unjudged-words", moves(to("b", said), to("c"))) == []


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        (to("b"), to("b"), "warning"),
        (to("b", when(None, "x")), to("b", when(None, "x"), priority=100), "warning"),
        (to("b", auto=False), to("b"), "warning"),
    ],
)
def test_a_transition_that_stands_twice_is_found_once(
    first: Written, second: Written, level: str
) -> None:
    document = moves(first, second)
    assert briefly(found_by("repeated-transition", document)) == [(level, MOVES + "/1")]
    assert found_by("shadowed-transition", document) == []


def test_other_words_or_conditions_make_another_transition() -> None:
    other = {**to("b"), "description": "The user gives up"}
    assert found_by("repeated-transition", moves(to("b"), other, to("b", when(None, "x")))) == []
    states = {
        "a": {"transitions": [to("c")]},
        "c": {"transitions": [to("b")]},
        "d": {"transitions": [to("b")]},
    }
    assert found_by("repeated-transition", machine(states)) == []


def test_a_state_that_asks_and_is_left_at_once_is_found() -> None:
    asking = {"required_context_keys": ["x"]}
    assert briefly(found_by("left-at-once", moves(to("b", auto=True), **asking))) == [
        ("warning", MOVES + "/0/auto")
    ]
    assert found_by("left-at-once", moves(to("b", when(None, "x"), auto=True), **asking)) == []
    assert found_by("left-at-once", moves(to("b", auto=True))) == []


@pytest.mark.parametrize(
    ("test", "hint"),
    [
        (True, "a check sees"),
        ({"==": [{"var": "outptu.x"}, 1]}, '"output.x"'),
        ({"var": "zzz"}, "a check sees"),
    ],
)
def test_a_check_that_reads_nothing_of_the_output_is_found(test: Any, hint: str) -> None:
    document = moves(
        to("b"), kind="task", key_results=[{"name": "n", "description": "d", "check": test}]
    )
    [found] = found_by("bad-check", document)
    assert (found.level, found.pointer) == ("warning", A + "/key_results/0/check")
    assert hint in (found.hint or "")


def test_a_check_may_read_the_output_the_context_and_the_input() -> None:
    for name in ("output.x", "context.y", "input", ""):
        results = [{"name": "n", "description": "d", "check": {"var": name}}]
        assert found_by("bad-check", moves(to("b"), kind="task", key_results=results)) == []


def test_states_behind_an_initial_state_that_ends_are_not_reached() -> None:
    found = [item for item in check(one(initial_state="b")) if item.level == "warning"]
    assert [(item.name, item.pointer) for item in found] == [("unreachable-state", "/states/a")]


@pytest.mark.parametrize("key", ["transition", "transitons"])
def test_a_state_whose_transitions_are_misspelt_and_cannot_be_read_is_not_said_to_end(
    key: str,
) -> None:
    document = machine(
        {"a": {"purpose": "Ask", key: "b"}, "b": {"kind": "final", "purpose": "End"}}
    )
    assert [found.name for found in check(document) if found.level == "warning"] == ["unknown-key"]


def test_a_key_that_appears_nowhere_else_is_a_note() -> None:
    keys = {"name": {}, "fax": {}, "tier": {"x-source": "host"}, "home_town": {}}
    document = machine(
        {"a": {"instructions": "Ask for the home town", "required_context_keys": ["name"]}}, keys
    )
    assert briefly(found_by("unused-key", document)) == [("info", "/context_schema/properties/fax")]


def test_one_state_may_run_on_by_itself() -> None:
    assert (
        found_by("self-only-state", machine({"a": {"purpose": "Chat", "transitions": [to("a")]}}))
        == []
    )


@pytest.mark.parametrize("patterns", [1, True, "cancel", {"cancel": 1}, [1, []]])
def test_patterns_of_another_shape_are_one_finding_of_form(patterns: Any) -> None:
    document = machine(
        {"a": {"purpose": "Ask", "transitions": [to("b")]}, "cancelled": {"reply": "Gone."}}
    )
    names = {found.name for found in check({**document, "patterns": patterns})}
    assert names & {"wrong-type", "bad-value"}
