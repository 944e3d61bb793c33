"""The lines of <transitions>."""

from __future__ import annotations

from typing import Any

import pytest

from machines import machine, reply, say, talk


def lines(target: dict[str, Any], way: dict[str, Any] | None = None, **context: Any) -> list[str]:
    """The lines of a state "a" with one way to "to", without that for staying."""
    transition = {"target_state": "to", **(way or {})}
    states = {"a": {"purpose": "A?", "transitions": [transition]}, "to": target}
    prompt = talk(machine(states), "m", reply("a"), context=context).prompt
    found = prompt.partition("<transitions>\n")[2].partition("\n</transitions>")[0].splitlines()
    assert found[-1] == "a: stay: all else."
    return found[:-1]


ASKS = {"transitions": [{"target_state": "a"}]}


@pytest.mark.parametrize(
    ("target", "then"),
    [
        ({"purpose": "Which size?", **ASKS}, 'Then ask: "Which size?"'),
        ({"description": "Learns the size", **ASKS}, 'Then ask: "Learns the size"'),
        ({"purpose": "Two\nlines", **ASKS}, 'Then ask: "Two lines"'),
        ({"purpose": "Ask <b>", **ASKS}, 'Then ask: "Ask \\u003cb\\u003e"'),
        ({"purpose": "Say goodbye"}, 'Then say: "Say goodbye"'),
        ({"purpose": "Bye.", "reply": "See you, {{ name }}."}, "It says its own text."),
        ({"reply": "Shall I?", **ASKS}, "It says its own text."),
        ({"kind": "task", "purpose": "Work"}, "It says its own text."),
        (
            {"confirms": ["n"], "transitions": [{"target_state": "a", "agrees": True}]},
            "It reads the values back.",
        ),
    ],
)
def test_a_line_tells_what_its_state_says(target: dict[str, Any], then: str) -> None:
    assert lines(target, {"description": "The user agrees"}) == [f"to: The user agrees. {then}"]
    assert lines(target) == [f"to: {then}"]


def test_a_long_purpose_is_cut_at_a_word() -> None:
    (line,) = lines({"purpose": "word " * 100, **ASKS})
    assert line.endswith('word …"')
    assert len(line) < 230


@pytest.mark.parametrize(
    ("conditions", "needs"),
    [
        ([{"requires_context_keys": ["m", "n"]}], "m, n"),
        ([{"requires_context_keys": ["n"], "description": "a name"}], "a name"),
        ([{"description": "Over ten", "logic": {">": [{"var": "n"}, 10]}}], "Over ten"),
        ([{"logic": {"<": [{"var": "n"}, {"var": "m"}]}}], "m, n"),
        ([{"description": "One"}, {"requires_context_keys": ["n"]}], "One; n"),
    ],
)
def test_what_is_needed_is_said_in_words_and_never_as_json(conditions: Any, needs: str) -> None:
    assert lines(ASKS, {"description": "Go", "conditions": conditions}) == [
        f"to: Go (needs {needs})."
    ]
    assert lines(ASKS, {"conditions": conditions}) == [f"to: (needs {needs})."]


def test_a_condition_that_says_what_the_move_says_names_its_keys() -> None:
    way = {
        "description": "All is known",
        "conditions": [{"description": "All is known", "requires_context_keys": ["n"]}],
    }
    assert lines(ASKS, way) == ["to: All is known (needs n)."]


def test_what_is_known_is_no_longer_needed() -> None:
    rule = {"description": "Over ten", "logic": {">": [{"var": "n"}, 10]}}
    way = {"conditions": [{"requires_context_keys": ["n", "m"]}, rule]}
    assert lines(ASKS, way) == ["to: (needs n, m; Over ten)."]
    assert lines(ASKS, way, n=12) == ["to: (needs m)."]
    assert lines(ASKS, way, n=12, m=1) == ["to"]


def test_moves_that_the_machine_makes_and_those_that_cannot_open_have_no_line() -> None:
    host = {"context_schema": {"properties": {"vip": {"type": "boolean", "x-source": "host"}}}}
    states = {
        "a": {
            "transitions": [
                {
                    "target_state": "b",
                    "auto": True,
                    "conditions": [{"requires_context_keys": ["n"]}],
                },
                {"target_state": "c", "conditions": [{"requires_context_keys": ["vip"]}]},
                {"target_state": "d", "description": "The user leaves"},
            ]
        },
        **{name: {} for name in "bcd"},
    }
    done = talk(machine(states, **host), "m", reply("a"))
    shown = "<transitions>\nd: The user leaves.\na: stay: all else.\n</transitions>"
    assert shown in done.prompt


def test_a_read_back_and_its_yes_are_told_in_words() -> None:
    states = {
        "a": {"required_context_keys": ["n"], "transitions": [{"target_state": "sure"}]},
        "sure": {
            "confirms": ["n"],
            "reply": "{{ n }}?",
            "transitions": [{"target_state": "b", "agrees": True}],
        },
        "b": {},
    }
    made = machine(states)
    first = talk(made, "x", reply("sure", n="x"))
    second = say(made, first.session, "yes", reply("b"))
    assert "b: (needs a yes to what was read back)." in second.prompt
    assert "sure: stay: all else. It says its own text." in second.prompt
