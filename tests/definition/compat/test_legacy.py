import json
from typing import Any

import pytest
from pydantic import BaseModel, SecretBytes, SecretStr

from findings_of_reading import check, said
from llm_fsm import check as checked
from llm_fsm.documents.loader import load, load_dict
from paths import TESTS

DATA = TESTS / "data" / "definitions"


def state(**keys):
    """The one state of a machine that is written with these keys, and the names of what was said
    about it.
    """
    loaded = load_dict({"name": "n", "initial_state": "a", "states": {"a": keys, "b": {}}})
    return loaded.definition.states["a"], [found.name for found in loaded.findings]


def test_a_file_of_version_3_loads_and_says_what_it_could_not_map():
    assert said(DATA / "runtime_3.json") == [
        ("warning", "not-mapped", "/states/ask_name/optional_context_keys"),
        ("info", "older-form", "/states/ask_name/example_dialogue"),
        ("info", "older-form", "/states/ask_name/transitions/0/llm_description"),
        ("info", "no-effect", "/states/ask_name/transitions/0/is_deterministic"),
        ("info", "no-effect", "/states/ask_name/transitions/0/evaluation_priority"),
        ("info", "no-effect", "/states/ask_name/transitions/0/conditions/0/evaluation_priority"),
        ("info", "no-effect", "/states/ask_time/metadata"),
        ("info", "older-form", "/states/ask_time/transitions/0/conditions/0"),
        ("info", "older-form", "/states/ask_time/transitions/1/condition"),
        ("info", "older-form", "/states/ask_time/transitions/2/conditions"),
        ("info", "older-form", "/states/done/is_terminal"),
    ]


def test_the_words_of_version_3_arrive_where_they_belong():
    definition = load(DATA / "runtime_3.json")
    first, second = definition.states["ask_name"], definition.states["ask_time"]
    assert first.instructions == "Ask politely."
    assert first.example_dialogue == [{"user": "I am Ada"}, {"system": "Welcome, Ada"}]
    assert first.transitions[0].description == "Name given\nThe user has said who they are"
    assert first.transitions[0].priority == 1
    assert second.required_context_keys == []
    assert [move.conditions[0].description for move in second.transitions] == [
        "The time is clear",
        "",
        "",
    ]
    assert second.transitions[1].conditions[0].logic == {"==": [{"var": "again"}, True]}
    assert second.transitions[2].conditions[0].logic == {"==": [{"var": "hurry"}, True]}
    assert definition.kind_of("done") == "final"


def test_a_file_of_version_4_loads_with_its_list_of_states():
    assert said(DATA / "runtime_4.json") == [
        ("info", "older-form", "/version"),
        ("info", "no-effect", "/transition_evaluation"),
        ("info", "older-form", "/states"),
        ("info", "older-form", "/states/0/context_scope/read_keys"),
        ("warning", "not-mapped", "/states/0/context_scope/write_keys"),
        ("info", "no-effect", "/states/0/extraction_retries"),
        ("info", "no-effect", "/states/0/transition_classification"),
        ("info", "older-form", "/states/0/example_dialogue"),
        ("info", "older-form", "/states/0/transitions/0"),
        ("info", "older-form", "/states/1/state_type"),
    ]
    definition = load(DATA / "runtime_4.json")
    assert definition.version == "4.1"
    assert list(definition.states) == ["start", "end"]
    assert definition.states["start"].context_scope.read == ["problem"]
    assert definition.states["end"].context_scope is None
    assert definition.states["start"].transitions[0].target_state == "end"
    assert definition.states["start"].example_dialogue == [
        {"user": "It is broken"},
        {"system": "What does it show?"},
    ]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"version": 2}, "/version"),
        ({"transitions": {"target_state": "b"}}, "/states/a/transitions"),
        (
            {"transitions": [{"target_state": "b", "conditions": {}}]},
            "/states/a/transitions/0/conditions",
        ),
        (
            {"transitions": [{"target_state": "b", "conditions": {"description": "c"}}]},
            "/states/a/transitions/0/conditions",
        ),
    ],
)
def test_what_the_schema_refuses_and_the_loader_reads_is_said(changes, pointer):
    version = {"version": changes["version"]} if "version" in changes else {}
    keys = {key: value for key, value in changes.items() if key != "version"}
    [found] = check({"name": "n", "initial_state": "a", **version, "states": {"a": keys, "b": {}}})
    assert (found.name, found.pointer) == ("older-form", pointer)


def test_a_note_that_holds_in_many_places_is_made_once_and_counts_them():
    keys = {"transitions": [{"target_state": "b", "is_deterministic": True} for _ in range(3)]}
    [found] = check({"name": "n", "initial_state": "a", "states": {"a": keys, "b": {}}})
    assert found.pointer == "/states/a/transitions/0/is_deterministic"
    assert found.message.endswith("(and in 2 more places)")


@pytest.mark.parametrize(
    ("keys", "purpose"),
    [
        ({"objective": "x"}, "x"),
        ({"objective": ["x", "y"]}, "x\ny"),
        ({"objective": "x", "purpose": ""}, "x"),
        ({"objective": "x", "purpose": "x"}, "x"),
        ({"objective": "x", "purpose": "y"}, "y\nx"),
        ({"objective": ["x"], "purpose": ["y", "z"]}, "y\nz\nx"),
        ({"objective": None, "purpose": "y"}, "y"),
    ],
)
def test_objective_is_another_name_of_purpose_and_both_are_used(keys, purpose):
    found, notes = state(**keys)
    assert (found.purpose, notes) == (purpose, [])


def test_the_fault_of_a_second_name_stands_where_it_was_written():
    [found] = check({"name": "n", "initial_state": "a", "states": {"a": {"objective": 3}}})
    assert (found.name, found.pointer) == ("wrong-type", "/states/a/objective")


@pytest.mark.parametrize(
    ("keys", "kind", "notes"),
    [
        ({"is_terminal": True}, "final", ["older-form"]),
        ({"is_final": True, "kind": "task"}, "task", ["older-form"]),
        ({"is_terminal": False}, "converse", []),
        ({"is_terminal": None}, "converse", []),
        ({"state_type": "END"}, "final", ["older-form"]),
        ({"state_type": "greeting"}, "converse", ["no-effect"]),
        ({"is_terminal": True, "transitions": ["b"]}, "converse", ["not-mapped", "older-form"]),
    ],
)
def test_what_earlier_versions_said_about_ends(keys, kind, notes):
    found, said = state(**keys)
    assert (found.kind, sorted(said)) == (kind, notes)


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        ([{"user": "a"}, {"system": "b"}], [{"user": "a"}, {"system": "b"}]),
        (
            [{"role": "user", "content": "a"}, {"role": "bot", "text": "b"}],
            [{"user": "a"}, {"system": "b"}],
        ),
        (["User: a: b", "Assistant: c"], [{"user": "a: b"}, {"system": "c"}]),
        ("User: a\n\nSystem: b", [{"user": "a"}, {"system": "b"}]),
        ({"user": "a", "system": "b"}, [{"user": "a"}, {"system": "b"}]),
        ([{"user": "a", "system": "b"}], [{"user": "a", "system": "b"}]),
        (None, []),
    ],
)
def test_example_dialogues_in_all_their_forms(written, messages):
    assert state(example_dialogue=written)[0].example_dialogue == messages


@pytest.mark.parametrize(
    ("written", "targets"),
    [
        (["b", {"target_state": "a"}], ["b", "a"]),
        ("b", ["b"]),
        ({"target_state": "b"}, ["b"]),
        (None, []),
    ],
)
def test_transitions_in_all_their_forms(written, targets):
    assert [move.target_state for move in state(transitions=written)[0].transitions] == targets


@pytest.mark.parametrize(
    ("written", "conditions"),
    [
        ("x", [("x", None)]),
        (["x", {"description": "y"}], [("x", None), ("y", None)]),
        ({"logic": {"!": [1]}}, [("", {"!": [1]})]),
        ({"!": [1]}, [("", {"!": [1]})]),
        ([{"and": [True, False]}], [("", {"and": [True, False]})]),
        ({}, []),
        (None, []),
    ],
)
@pytest.mark.parametrize("key", ["condition", "conditions"])
def test_conditions_in_all_their_forms(key, written, conditions):
    move = {"target_state": "b", key: written}
    if key == "condition" and not written:
        return
    found = state(transitions=[move])[0].transitions[0].conditions
    assert [(each.description, each.logic) for each in found] == conditions


def test_a_rule_in_place_of_a_condition_keeps_the_places_of_its_faults():
    rule = {"and": [{"equal": [1, 2]}]}
    moves = [{"target_state": "b", "condition": rule}]
    found = check(
        {"name": "n", "initial_state": "a", "states": {"a": {"transitions": moves}, "b": {}}}
    )
    assert [(each.name, each.pointer) for each in found if each.level == "error"] == [
        ("bad-condition", "/states/a/transitions/0/condition/and/0/equal")
    ]


@pytest.mark.parametrize(
    ("states", "pointer"),
    [
        ([{"purpose": "x"}], "/states/0"),
        ([{"id": "a"}, {"id": "a"}], "/states/1"),
        ([{"id": "a"}, {"id": 3}], "/states/1"),
    ],
)
def test_states_in_a_list_without_ids_of_their_own_are_refused_in_words(states, pointer):
    wrong, which = check({"name": "n", "initial_state": "a", "states": states})
    assert (wrong.name, wrong.message) == (
        "wrong-type",
        '"states": expected an object, found a list',
    )
    assert (which.name, which.pointer) == ("not-mapped", pointer)


def test_the_version_of_an_author_may_be_a_number():
    assert json.loads(load_dict({"name": "n", "version": 2, "initial_state": "a", "states": {"a": {}}})
                      .definition.model_dump_json())["version"] == "2"  # fmt: skip


def test_definitions_of_an_earlier_json_schema_are_read_as_defs():
    schema = {
        "definitions": {"Age": {"type": "integer"}},
        "properties": {"age": {"$ref": "#/definitions/Age"}},
    }
    loaded = load_dict(
        {"name": "n", "initial_state": "a", "context_schema": schema, "states": {"a": {}}}
    )
    assert [
        (found.name, found.pointer) for found in loaded.findings if found.name == "older-form"
    ] == [("older-form", "/context_schema/definitions")]


def test_the_fault_of_a_schema_that_is_referred_to_stands_where_it_was_written():
    schema = {
        "definitions": {"Age": {"type": "whole"}},
        "properties": {"age": {"$ref": "#/definitions/Age"}},
    }
    found = check(
        {"name": "n", "initial_state": "a", "context_schema": schema, "states": {"a": {}}}
    )
    assert "/context_schema/definitions/Age/type" in [
        one.pointer for one in found if one.level == "error"
    ]


TODAY = {"name": "n", "initial_state": "a", "states": {"a": {"purpose": "Hello"}}}
PASSWORD = {"type": "string", "format": "password", "writeOnly": True}


class Login(BaseModel):
    """What pydantic makes of secrets."""

    plain: str
    own: SecretStr
    perhaps: SecretStr | None = None
    raw: SecretBytes
    several: list[SecretStr] = []


class Account(Login):
    """The same, in another object."""

    inner: Login


@pytest.mark.parametrize(
    ("schema", "is_secret"),
    [
        ({"type": "string"}, False),
        (PASSWORD, True),
        ({"type": "string", "format": "password"}, True),
        ({"type": "integer", "writeOnly": True}, True),
        ({"anyOf": [{"type": "null"}, PASSWORD]}, True),
        ({"type": "array", "items": PASSWORD}, True),
        ({"type": "object", "properties": {"token": PASSWORD}}, True),
        ({**PASSWORD, "x-secret": False}, False),
        ({"type": "string", "writeOnly": False}, False),
        ({"type": "string", "format": "date"}, False),
    ],
)
def test_a_key_that_json_schema_calls_a_password_is_secret(schema: Any, is_secret: bool) -> None:
    document = {**TODAY, "context_schema": {"properties": {"pin": schema}}}
    assert load_dict(document).definition.is_secret("pin") is is_secret
    assert "S122" not in [found.code for found in checked(document)]


def test_secrets_of_pydantic_are_secret() -> None:
    document = {**TODAY, "context_schema": Account.model_json_schema()}
    found = load_dict(document).definition
    assert [key for key in found.key_schemas if found.is_secret(key)] == [
        "own",
        "perhaps",
        "raw",
        "several",
        "inner",
    ]


def test_parts_that_refer_to_one_another_are_read_once() -> None:
    names = [f"part{number}" for number in range(40)]
    every = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    defs = {name: {"type": "object", "properties": every} for name in names}
    document = {**TODAY, "context_schema": {"properties": every, "$defs": defs}}
    assert not load_dict(document).definition.is_secret("part7")
