"""What conditions on the way tell about the keys, and until where."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm.lint.document import Document, Placed
from llm_fsm.lint.facts.paths import routes

TOPIC = {"t": {"type": "string", "enum": ["x", "y", "z"]}}
ANSWER = {"t": {"type": "string", "enum": ["x", "y", "z"], "x-source": "answer"}}


def is_(value: str) -> Written:
    return when({"===": [{"var": "t"}, value]})


def walk(
    middle: Written, schema: Any = TOPIC, *, other: Written | None = None, **more: Any
) -> Written:
    """hello –(t is x)→ middle → last –(t is y)→ bad; `other` is a second way from hello to the last
    state.
    """
    start = [to("middle", is_("x"))]
    states: dict[str, Any] = {
        "hello": {"required_context_keys": ["t"], "transitions": start},
        "middle": middle,
        "last": {
            "kind": "decide",
            "transitions": [to("bad", is_("y"), priority=1), to("bye", priority=9)],
        },
    }
    if other is not None:
        start.append(to("other", is_("z")))
        states["other"] = other
    return machine(states, schema, properties=[{"never": "bad"}], **more)


ON = to("last")
DECIDE = {"kind": "decide", "transitions": [ON]}
TALK = {"purpose": "Talk", "transitions": [ON]}
WAIT = {"kind": "wait", "wait_for": "desk", "transitions": [ON]}
WAIT_FOR_T = {**WAIT, "output": {"t": "$.topic"}}
TASK = {"kind": "task", "purpose": "Work", "tools": ["find"], "transitions": [ON]}
FIND = {"find": {"registered": "find", "output": {"t": "$.topic"}}}


@pytest.mark.parametrize(
    "document",
    [
        walk(DECIDE),
        walk(DECIDE, None),
        walk(DECIDE, other=DECIDE),
        walk(WAIT),
        walk(TALK, ANSWER),
        walk(WAIT, ANSWER),
        walk(TASK, tools={"find": {"registered": "find"}}),
        walk(
            {
                "kind": "decide",
                "transitions": [to("last", is_("x"), priority=1), to("bye", priority=2)],
            }
        ),
    ],
)
def test_what_nobody_may_write_in_between_closes_the_way(document: Written) -> None:
    assert found_by("property-violated", document) == []
    assert [(one.level, one.path[-1]) for one in found_by("unreachable-by-guards", document)] == [
        ("warning", "bad")
    ]


@pytest.mark.parametrize(
    "document",
    [
        walk(TALK),
        walk(TALK, None),
        walk(WAIT_FOR_T),
        walk(WAIT_FOR_T, ANSWER),
        walk(TASK, tools=FIND),
        walk({**TASK, "execute": "work"}, ANSWER),
        walk({"kind": "subflow", "flow": "other.json", "transitions": [ON]}, ANSWER),
        walk(DECIDE, {"t": {"type": "string", "x-source": "host"}}),
        walk(DECIDE, {"other": {"type": "string"}}),
        walk(DECIDE, other=TALK),
        walk(DECIDE, ANSWER, patterns=["restart"]),
        walk(
            DECIDE,
            global_transitions=[{"target_state": "bye", "description": "Help", "return": True}],
        ),
    ],
)
def test_what_somebody_may_write_in_between_leaves_the_way_open(document: Written) -> None:
    [violation] = found_by("property-violated", document)
    assert (violation.path[0], violation.path[-1]) == ("hello", "bad")
    assert found_by("unreachable-by-guards", document) == []
    assert found_by("closed-on-every-way", document) == []


def test_a_counter_example_takes_the_way_that_is_possible() -> None:
    document = walk(DECIDE, other=TALK)
    [violation] = found_by("property-violated", document)
    assert violation.path == ("hello", "other", "last", "bad")


def test_a_transition_is_closed_where_another_one_leads_to_its_target() -> None:
    document = walk(DECIDE)
    document["states"]["hello"]["transitions"].append(to("bad", is_("z")))
    [finding] = found_by("closed-on-every-way", document)
    assert briefly([finding]) == [("warning", "/states/last/transitions/0")]
    assert 'on every way here "t" is "x"' in finding.message
    assert finding.path == ("hello", "middle", "last")


def test_earlier_transitions_that_did_not_hold_tell_something_too() -> None:
    states = {
        "hello": {"required_context_keys": ["t"], "transitions": [to("sort", when(None, "t"))]},
        "sort": {
            "kind": "decide",
            "transitions": [to("ask", is_("x"), priority=1), to("again", priority=2)],
        },
        "ask": {"transitions": [to("bye")]},
        "again": {
            "kind": "decide",
            "transitions": [to("ask", is_("x"), priority=1), to("bye", priority=2)],
        },
    }
    [finding] = found_by("closed-on-every-way", machine(states, TOPIC))
    assert finding.pointer == "/states/again/transitions/0"
    assert '"y" or "z"' in finding.message


def test_statements_about_the_end_know_the_way_as_well() -> None:
    document = walk(DECIDE)
    document["properties"] = [{"eventually": "bye"}, {"always": "bye", "after": "middle"}]
    assert found_by("property-violated", document) == []


def fourteen_choices(last: Written) -> Written:
    """Fourteen decisions in a row, each by a key of its own, and a last one."""
    keys = {f"k{n}": {"type": "string", "enum": ["a", "b"]} for n in range(14)}
    states: dict[str, Any] = {"start": {"purpose": "Ask", "transitions": [to("d0")]}}
    for n in range(14):
        choice = [
            to(f"d{n + 1}" if n < 13 else "last", when({"==": [{"var": f"k{n}"}, value]}))
            for value in "ab"
        ]
        states[f"d{n}"] = {"kind": "decide", "transitions": choice}
    states["last"] = {"kind": "decide", "transitions": [to("bad", last), to("bye")]}
    return machine(states, keys, properties=[{"never": "bye"}])


def stops(document: Written) -> int:
    return len(routes(Document(Placed("", document))).travelled.known)


def test_too_many_ways_are_judged_without_their_conditions() -> None:
    document = fourteen_choices(when({"and": [{"==": [{"var": f"k{n}"}, "a"]} for n in range(14)]}))
    assert stops(document) == 0
    assert len(found_by("property-violated", document)) == 1
    assert found_by("closed-on-every-way", document) == []


def test_ways_are_told_apart_only_by_what_is_asked_again() -> None:
    places = 1 + 14 + 1 + 2
    assert stops(fourteen_choices(when({"has_context": "other"}))) == places
    behind_the_ninth = ["d10", "d11", "d12", "d13", "last"]
    assert stops(fourteen_choices(when({"==": [{"var": "k9"}, "a"]}))) == places + len(
        behind_the_ninth
    )
