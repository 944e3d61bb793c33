import json

import pytest

from findings_of_reading import check, said
from llm_fsm.documents.loader import load, load_dict, load_text
from paths import TESTS

DATA = TESTS / "data" / "definitions"


def test_a_workflow_becomes_a_machine_of_tasks():
    definition = load(DATA / "workflow_2.json")
    assert (definition.name, definition.initial_state) == ("workflow_2", "research")
    assert definition.description == "Research and report"
    assert [state.kind for state in definition.states.values()] == ["task", "task", "task"]
    assert definition.tools["search"].registered == "search"
    research, facts, report = definition.states.values()
    assert (research.purpose, research.execute, research.tools) == (
        "Gather facts",
        "do_research",
        ["search"],
    )
    assert research.max_retries == 2
    assert [result.check for result in research.key_results] == [
        None,
        None,
        {"registered": "is_clean"},
    ]
    assert [(move.on, move.target_state) for move in research.transitions] == [
        (None, "check_facts")
    ]
    assert [(move.on, move.target_state) for move in facts.transitions] == [
        ("missing", "research"),
        ("default", "report"),
    ]
    assert [result.description for result in report.key_results] == ["Has headings"]
    assert report.transitions == []


def test_what_a_workflow_cannot_bring_along_is_said():
    assert said(DATA / "workflow_2.json") == [
        ("info", "older-form", ""),
        ("info", "older-form", ""),
        ("warning", "not-mapped", "/states/0/key_results/0/check"),
        ("info", "no-effect", "/states/0/position"),
        ("info", "older-form", "/states/1"),
    ]


def test_faults_of_a_workflow_stand_where_they_were_written():
    document = {
        "states": [
            {"name": "a", "objective": 3, "execute": "lambda x: x"},
            {"name": "b", "tools": [{"name": "t"}], "max_retries": -1},
            {"name": "c", "is_final": True},
        ],
        "transitions": {"a": "d", "b": {"x": "e", "y": None, "z": "f"}, "c": "a", "n": "a"},
    }
    assert said(document)[2:] == [
        ("error", "wrong-type", "/states/0/objective"),
        ("warning", "not-mapped", "/states/0/execute"),
        ("error", "bad-value", "/states/1/max_retries"),
        ("error", "unknown-target", "/transitions/a"),
        ("error", "unknown-target", "/transitions/b/x"),
        ("warning", "not-mapped", "/transitions/b/y"),
        ("error", "unknown-target", "/transitions/b/z"),
        ("warning", "not-mapped", "/transitions/c"),
        ("warning", "not-mapped", "/transitions/n"),
    ]


def test_state_names_that_are_no_ids_get_one_each():
    names = ["Ask name", "Ask_name", "ask-name", "2nd", "…", "Ask/name"]
    document = {
        "states": [{"name": name, "objective": "x"} for name in names],
        "transitions": {"…": "Ask name"},
    }
    definition = load_dict(document).definition
    assert list(definition.states) == [
        "Ask_name_2",
        "Ask_name",
        "ask-name",
        "state_2nd",
        "state",
        "Ask_name_3",
    ]
    assert definition.states["state"].transitions[0].target_state == "Ask_name_2"


def test_a_workflow_with_its_states_in_an_object_loads():
    document = {
        "name": "w",
        "states": {"a": {"objective": "x"}, "b": {"is_initial": True}},
        "transitions": {"b": ["a"]},
    }
    definition = load_dict(document).definition
    assert (definition.initial_state, definition.states["b"].transitions[0].target_state) == (
        "b",
        "a",
    )


@pytest.mark.parametrize(
    "states",
    [
        [{"objective": "x"}],
        [{"name": "a", "objective": "x"}, {"name": "a"}],
        [{"name": 3, "is_initial": True}],
    ],
)
def test_a_workflow_without_proper_names_is_refused_in_words(states):
    found = check({"states": states, "transitions": {}})
    assert "not-mapped" in [each.name for each in found]
    assert any(each.level == "error" for each in found)


def test_a_table_of_next_states_becomes_a_machine():
    definition = load(DATA / "table.json")
    assert (definition.name, definition.initial_state) == ("table", "start")
    assert {
        name: [move.target_state for move in state.transitions]
        for name, state in definition.states.items()
    } == {
        "start": ["writing"],
        "writing": ["review", "start"],
        "review": ["writing", "end"],
        "end": [],
    }
    assert [definition.kind_of(name) for name in definition.states] == [
        "converse",
        "converse",
        "converse",
        "final",
    ]


def test_tables_and_written_out_states_may_be_mixed():
    text = '{"states": {"a": ["b", {"target_state": "c"}], "b": {"purpose": "x"}, "c": []}, "initial_state": "a"}'
    definition = load_text(text, file="dir/mixed.fsm.json").definition
    assert definition.name == "mixed.fsm"
    assert [move.target_state for move in definition.states["a"].transitions] == ["b", "c"]


def test_faults_of_a_table_stand_where_they_were_written():
    document = {
        "name": "n",
        "states": {"a": ["b", "x", "a"], "b": ["a"]},
        "initial_state": "q",
        "terminal_states": ["b", "z"],
    }
    assert said(document) == [
        ("info", "older-form", "/states"),
        ("error", "unknown-target", "/states/a/1"),
        ("info", "self-transition", "/states/a/2"),
        ("error", "unknown-initial-state", "/initial_state"),
        ("warning", "not-mapped", "/terminal_states/0"),
        ("warning", "not-mapped", "/terminal_states/1"),
    ]


def test_a_definition_of_our_own_is_left_alone():
    document = json.loads((DATA / "every_key.json").read_text(encoding="utf-8"))
    assert check(document) == []


def test_terminal_states_of_a_table_need_no_row_of_their_own():
    table = {"states": {"a": ["b"]}, "initial_state": "a", "terminal_states": ["b"]}
    loaded = load_dict(table)
    assert {name: loaded.definition.kind_of(name) for name in loaded.definition.states} == {
        "a": "converse",
        "b": "final",
    }
    assert [found.level for found in check(table)] == ["info", "info"]


@pytest.mark.parametrize("table", [[{"from": "a", "to": "b"}], "b", 5])
def test_a_table_of_transitions_that_cannot_be_read_is_said(table):
    states = [{"name": "a", "is_initial": True}, {"name": "b"}]
    found = check({"objective": "o", "states": states, "transitions": table})
    assert ("not-mapped", "/transitions") in [(one.name, one.pointer) for one in found]
