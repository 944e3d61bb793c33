from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.documents.convert.chart import ConversionError
from llm_fsm.documents.convert.registry import convert, detect


def found_in(machine: Any) -> Any:
    text = machine if isinstance(machine, str) else json.dumps(machine, indent=1)
    return convert(text, "xstate", "x")


def moves(machine: Any, state: str) -> list[tuple[str, str]]:
    states = found_in(machine).document["states"]
    return [
        (move["target_state"], move.get("description", ""))
        for move in states[state].get("transitions", ())
    ]


LIGHT: dict[str, Any] = {
    "id": "light",
    "initial": "green",
    "context": {"count": 0},
    "on": {"POWER_OUT": ".red"},
    "states": {
        "green": {
            "description": "Go",
            "on": {"TIMER": "yellow", "STAY": {"actions": "count"}},
            "entry": "log",
        },
        "yellow": {
            "on": {"TIMER": [{"target": "red", "cond": "isLate"}, {"target": "#light.green"}]}
        },
        "red": {
            "initial": "walk",
            "onDone": "green",
            "on": {"PANIC": "yellow"},
            "states": {
                "walk": {"on": {"PED": "wait", "PANIC": "stop"}},
                "wait": {
                    "always": {"target": "stop", "guard": {"type": "isFree", "params": {"n": 1}}}
                },
                "stop": {"type": "final"},
            },
        },
    },
}


def test_nested_states_get_joined_ids() -> None:
    found = found_in(LIGHT)
    assert list(found.document["states"]) == ["green", "yellow", "red_walk", "red_wait", "red_stop"]
    assert found.document["initial_state"] == "green"
    assert found.document["name"] == "light"
    assert found.document["global_transitions"] == [
        {"target_state": "red_walk", "description": "POWER_OUT"}
    ]


@pytest.mark.parametrize("kind", [["task"], {"task": 1}, 1, "machine"])
def test_meta_that_names_no_kind_is_left_aside(kind: object) -> None:
    found = found_in(
        {"id": "m", "initial": "a", "states": {"a": {"type": ["final"], "meta": {"kind": kind}}}}
    )
    assert "kind" not in found.document["states"]["a"]


def test_events_and_targets() -> None:
    assert moves(LIGHT, "green") == [("yellow", "TIMER")]
    assert moves(LIGHT, "yellow") == [("red_walk", "TIMER"), ("green", "TIMER")]


def test_an_inner_event_takes_precedence_over_an_outer_one() -> None:
    assert moves(LIGHT, "red_walk") == [("red_wait", "PED"), ("red_stop", "PANIC")]
    assert moves(LIGHT, "red_wait") == [("red_stop", ""), ("yellow", "PANIC")]


def test_an_inner_end_goes_on_where_its_parent_is_done() -> None:
    assert found_in(LIGHT).document["states"]["red_stop"] == {
        "kind": "decide",
        "purpose": "red.stop",
        "transitions": [{"target_state": "green"}],
    }


def test_what_cannot_be_mapped_is_reported_with_its_line() -> None:
    text = json.dumps(LIGHT, indent=1)
    told = {note.message: note.line for note in found_in(LIGHT).notes}
    entry = next(number for number, line in enumerate(text.splitlines(), 1) if '"entry"' in line)
    assert told['"entry" of "green": what happens here is done by handlers or tools'] == entry
    assert '"context" of the machine' in told
    assert 'a transition of "green" that leads nowhere' in told
    assert 'the guard "isLate" is for the model to judge' in told
    assert found_in(LIGHT).document["states"]["red_wait"]["transitions"][0]["conditions"] == [
        {"description": 'isFree ({"n": 1})'}
    ]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"on": {"E": "#deep"}}, [("b_c", "E")]),
        ({"on": {"E": "b.c"}}, [("b_c", "E")]),
        ({"on": {"E": ["b"]}}, [("b_c", "E")]),
        ({"on": {"E": {"target": ["b"]}}}, [("b_c", "E")]),
        ({"on": {"*": "b"}}, [("b_c", "any other event")]),
        ({"on": {"E": {"target": "b", "description": "go on"}}}, [("b_c", "go on")]),
        ({"on": {"": "b"}}, [("b_c", "")]),
        ({"always": [{"target": "b"}]}, [("b_c", "")]),
        ({"invoke": {"src": "fetch", "onDone": "b", "onError": {"target": "a"}}},
         [("b_c", "fetch is done"), ("a", "fetch has failed")]),
        ({"on": {"E": "nowhere"}}, []),
        ({"on": {"E": None}}, []),
        ({"on": 3}, []),
    ],
)  # fmt: skip
def test_forms_of_transitions(node: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    machine = {
        "initial": "a",
        "states": {"a": node, "b": {"initial": "c", "states": {"c": {"id": "deep"}}}},
    }
    assert moves(machine, "a") == expected


@pytest.mark.parametrize(("key", "value"), [("on", 5), ("on", ["b"]), ("after", "soon")])
def test_transitions_of_the_wrong_shape_are_reported(key: str, value: Any) -> None:
    machine = {"initial": "a", "states": {"a": {key: value}, "b": {}}}
    assert f'"{key}" of "a" is no object' in [
        note.message for note in found_in(machine).notes if note.lost
    ]


def test_parallel_states_and_history_are_reported() -> None:
    machine = {
        "initial": "p",
        "states": {
            "p": {
                "type": "parallel",
                "states": {
                    "one": {"initial": "x", "states": {"x": {"on": {"H": "#hist"}}}},
                    "two": {},
                },
            },
            "q": {"initial": "y", "states": {"y": {}, "h": {"type": "history", "id": "hist"}}},
        },
    }
    found = found_in(machine)
    assert found.document["initial_state"] == "p_one_x"
    assert moves(machine, "p_one_x") == [("q_y", "H")]
    lost = [note.message for note in found.notes if note.lost]
    assert lost == [
        '"p" runs regions side by side: only the first one is entered',
        'history "q.h" is read as the state around it',
    ]


def test_a_machine_that_is_parallel_itself_is_reported() -> None:
    region = {"initial": "x", "states": {"x": {"on": {"GO": "y"}}, "y": {}}}
    found = found_in({"type": "parallel", "states": {"a": region, "b": region}})
    assert found.document["initial_state"] == "a_x"
    lost = [note.message for note in found.notes if note.lost]
    assert lost == ["the machine runs regions side by side: only the first one is entered"]


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        ({"type": "and", "guards": ["isAdult", "hasPaid"]}, "isAdult and hasPaid"),
        ({"type": "xstate.not", "guards": ["isAdult"]}, "not isAdult"),
        (
            {
                "type": "or",
                "guards": [
                    {"type": "and", "guards": ["a", {"type": "b", "params": {"n": 1}}]},
                    "c",
                ],
            },
            '(a and b ({"n": 1})) or c',
        ),
        ({"type": "not", "guards": [{"type": "or", "guards": ["a", "b"]}]}, "not (a or b)"),
    ],
)
def test_guards_made_of_guards_are_put_into_words(guard: Any, words: str) -> None:
    machine = {
        "initial": "a",
        "states": {"a": {"on": {"GO": {"target": "b", "guard": guard}}}, "b": {}},
    }
    assert found_in(machine).document["states"]["a"]["transitions"][0]["conditions"] == [
        {"description": words}
    ]


def test_what_else_stands_in_a_guard_is_reported() -> None:
    guard = {"type": "isAdult", "predicate": "age > 17"}
    machine = {
        "initial": "a",
        "states": {"a": {"on": {"GO": {"target": "b", "guard": guard}}}, "b": {}},
    }
    assert [note.message for note in found_in(machine).notes if note.lost] == [
        '"predicate" of the guard "isAdult"'
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "one JSON object"),
        ("{}", 'has "states"'),
        ('{"states": {}}', 'has "states"'),
        ('{"states": ', "the text ends"),
        (json.dumps({"initial": "a", "states": {"a": {"always": {"target": "a", "guard": {
            "type": "llm_fsm.conditions.compiler", "params": {"conditions": [{"logic": {"nonsense": 1}}]}}}}}}),
         "cannot be used"),
    ],
)  # fmt: skip
def test_what_is_no_machine_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        found_in(text)


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    machine: dict[str, Any] = {"states": {"a": {}}}
    for _ in range(90):
        machine = {"states": {"a": machine}}
    with pytest.raises(ConversionError, match="nested deeper"):
        found_in(machine)


def test_machines_are_told_from_definitions() -> None:
    assert detect(json.dumps(LIGHT)) == "xstate"
    assert detect('{"states": {"a": ["b"], "b": []}}') == "definition"
    assert detect('{"initial_state": "a", "states": {"a": {"on": 1}}}') == "definition"
