import json

import jsonschema_rs
import pytest

from llm_fsm.definition.models import Transition
from llm_fsm.definition.published import published_schema, shape_of
from llm_fsm.definition.schema import definition_schema, docstrings
from llm_fsm.documents.check import check
from paths import ROOT, TESTS

DATA = TESTS / "data" / "definitions"
TODAYS = [
    DATA / "smallest.json",
    DATA / "every_key.json",
    *sorted((ROOT / "fsm_definitions").glob("*.json")),
]


def validator():
    return jsonschema_rs.Draft202012Validator(definition_schema())


def test_the_published_file_is_what_the_models_say():
    place = "src/llm_fsm/definition/definition.schema.json"
    assert published_schema() == definition_schema(), f"run: llm-fsm schema > {place}"
    assert json.loads((ROOT / place).read_text(encoding="utf-8")) == definition_schema()


def test_it_is_a_json_schema_of_2020_12_without_a_web_host():
    schema = definition_schema()
    jsonschema_rs.meta.validate(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].startswith("urn:")


@pytest.mark.parametrize("path", TODAYS, ids=lambda path: path.name)
def test_definitions_fit_the_schema(path):
    errors = [
        str(error)
        for error in validator().iter_errors(json.loads(path.read_text(encoding="utf-8")))
    ]
    assert errors == []


def test_every_key_of_the_models_stands_in_the_example_file():
    document = json.loads((DATA / "every_key.json").read_text(encoding="utf-8"))
    states = document["states"].values()
    used = {key for state in states for key in state} | {"purpose", "instructions"}
    assert set(shape_of("State").keys) <= used
    assert set(shape_of("Definition").keys) <= set(document)
    moves = [
        *document["global_transitions"],
        *(move for state in states for move in state.get("transitions", ())),
    ]
    assert set(shape_of("Transition").keys) <= {key for move in moves for key in move}


def test_every_key_has_a_description():
    schema = definition_schema()
    shapes = [schema, *(shape for shape in schema["$defs"].values() if "properties" in shape)]
    nameless = [
        f"{shape.get('title')}.{key}"
        for shape in shapes
        for key, value in shape["properties"].items()
        if not value.get("description")
    ]
    assert nameless == []


@pytest.mark.parametrize(
    "changes",
    [
        {"persona": None, "version": None, "history": None},
        {"unknown": 1, "x-mine": [1], "$schema": "s"},
        {"states": {"a": {"objective": "x", "state_instructions": ["y"], "transitions": None}}},
        {"history": {"max_tokens": 10.0}},
        {"global_transitions": [{"target_state": "a", "return": True}]},
    ],
)
def test_what_the_loader_accepts_fits(changes):
    document = {"name": "n", "initial_state": "a", "states": {"a": {}}, **changes}
    assert [found for found in check(document) if found.level == "error"] == []
    assert validator().is_valid(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": None},
        {"name": 3},
        {"states": {}},
        {"states": {"a b": {}}},
        {"states": {"a": {"kind": "finale"}}},
        {"states": {"a": {"transitions": [{}]}}},
        {"states": {"a": {"transitions": [{"target_state": "a", "priority": "high"}]}}},
        {"states": {"a": {"timeout": 0}}},
        {"history": {"max_tokens": 0}},
        {"states": {"a": {"max_retries": -1}}},
    ],
)
def test_what_the_loader_refuses_for_its_form_does_not_fit(changes):
    document = {"name": "n", "initial_state": "a", "states": {"a": {}}, **changes}
    assert any(found.code.startswith("S1") and found.level == "error" for found in check(document))
    assert not validator().is_valid(document)


def test_descriptions_come_from_the_models():
    assert (
        docstrings(Transition)["auto"] == "Taken without asking as soon as its conditions are true."
    )


@pytest.mark.parametrize(
    ("written", "fits"),
    [
        ({"type": "string", "title": "Name", "x-source": "host", "x-secret": True}, True),
        ({"type": ["integer", "null"], "x-source": None, "x-fast": False, "minimum": 1}, True),
        (True, True),
        ({"type": "strng"}, False),
        ({"type": ["string", "text"]}, False),
        ({"x-source": "hots"}, False),
        ({"x-secret": "yes"}, False),
        ({"x-fast": 1}, False),
        ({"description": 5}, False),
        ({"type": []}, False),
        ({"type": ["string", "string"]}, False),
        ({"type": "string", "maxLength": 3, "minLength": 0}, True),
        ({"type": "string", "maxLength": {}}, False),
        ({"type": "number", "minimum": "1"}, False),
        ({"type": "object", "properties": {"part": {}}, "required": ["part"]}, True),
        ({"type": "object", "properties": []}, False),
        ({"type": "object", "required": "part"}, False),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 2}, True),
        ({"type": "array", "items": [{}]}, False),
        ({"enum": "gold"}, False),
        ("string", False),
        (None, False),
    ],
)
def test_an_editor_underlines_what_the_loader_refuses_of_a_context_key(written, fits):
    document = {
        "name": "x",
        "initial_state": "a",
        "context_schema": {"type": "object", "properties": {"key": written}},
        "states": {"a": {"purpose": "Greet"}},
    }
    errors = [found for found in check(document) if found.level == "error"]
    assert (validator().is_valid(document), not errors) == (fits, fits)


@pytest.mark.parametrize(
    ("word", "value"), [("type", []), ("type", "strng"), ("required", "key"), ("$defs", [])]
)
def test_an_editor_underlines_what_the_loader_refuses_of_the_context_schema_itself(word, value):
    document = {
        "name": "x",
        "initial_state": "a",
        "context_schema": {"type": "object", "properties": {"key": {}}, word: value},
        "states": {"a": {"purpose": "Greet"}},
    }
    assert any(found.level == "error" for found in check(document))
    assert not validator().is_valid(document)
