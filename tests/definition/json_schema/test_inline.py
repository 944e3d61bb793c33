"""Schemas of keys in plain words: what a program wrote in a roundabout way is shown and asked for
as what it means.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, Field

from llm_fsm.definition.json_schema.inline import simplified, with_defs
from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.documents.loader import load_dict
from llm_fsm.session import events as ev
from llm_fsm.session.context import compile_keys
from machines import machine, reply, talk

DEFS: dict[str, Any] = {
    "Day": {"type": "string", "enum": ["Mon", "Tue"], "title": "Day"},
    "Guest": {
        "type": "object",
        "properties": {"name": {"type": "string", "title": "Name"}},
        "required": ["name"],
    },
    "Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}},
}
DAY = {"type": "string", "enum": ["Mon", "Tue"], "title": "Day"}
GUEST = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"type": "string", "default": None}, {"type": "string", "default": None}),
        ({"$ref": "#/$defs/Day"}, DAY),
        ({"$ref": "#/$defs/Day", "description": "When"}, {**DAY, "description": "When"}),
        ({"allOf": [{"$ref": "#/$defs/Day"}], "title": "First day"}, {**DAY, "title": "First day"}),
        ({"anyOf": [{"type": "integer", "minimum": 1}, NULL]}, {"type": "integer", "minimum": 1}),
        ({"anyOf": [{"$ref": "#/$defs/Day"}, NULL], "default": None}, {**DAY, "default": None}),
        ({"type": ["integer", "null"]}, {"type": "integer"}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"type": "string", "enum": ["a"]}),
        ({"type": "array", "items": {"$ref": "#/$defs/Guest"}}, {"type": "array", "items": GUEST}),
        (
            {"properties": {"day": {"anyOf": [{"$ref": "#/$defs/Day"}, NULL]}}},
            {"properties": {"day": {"type": ["string", "null"], "enum": ["Mon", "Tue", None]}}},
        ),
        (
            {
                "oneOf": [{"const": "s", "title": "small"}, {"const": "l", "title": "large"}],
                "description": "Size",
            },
            {"enum": ["s", "l"], "description": "Size (s: small; l: large)"},
        ),
        ({"anyOf": [{"const": 1}, {"const": 2}]}, {"enum": [1, 2]}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        ),
        (
            {"allOf": [{"maxLength": 9}], "maxLength": 5},
            {"allOf": [{"maxLength": 9}], "maxLength": 5},
        ),
        ({"oneOf": [{"const": 1}, {"const": 1}]}, {"oneOf": [{"const": 1}, {"const": 1}]}),
        ({"$ref": "#/$defs/Lost"}, {"$ref": "#/$defs/Lost"}),
        ({"$ref": "#/$defs/Tree"}, {**DEFS["Tree"], "$defs": {"Tree": DEFS["Tree"]}}),
    ],
)
def test_a_schema_is_said_plainly_and_takes_the_same_values(
    schema: dict[str, Any], plain: dict[str, Any]
) -> None:
    found = simplified(schema, DEFS)
    assert found == plain
    if "Lost" not in str(schema):
        before, after = compile_shape(schema, DEFS), compile_shape(found, DEFS)
        for value in (
            1,
            5,
            "",
            "Mon",
            "a",
            "s",
            "toolong",
            [],
            [{"name": "Ada"}],
            [{}],
            {},
            {"day": None},
            {"day": 1},
        ):
            assert (before.fault(value) is None) == (after.fault(value) is None)


def test_what_would_grow_beyond_bounds_stays_as_it_is() -> None:
    fanned = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(30)}
    deep = {f"d{n}": {"items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(5000)}
    for defs in (fanned, deep):
        assert simplified({"$ref": "#/$defs/d0"}, defs) == {"$ref": "#/$defs/d0"}


class Room(StrEnum):
    """A kind of room."""

    SINGLE = "single"
    DOUBLE = "double"


class Guest(BaseModel):
    """Somebody who comes."""

    full_name: str
    age: int | None = None


class Booking(BaseModel):
    """What a program that makes its keys of a pydantic model hands in."""

    room: Room = Field(description="Kind of room")
    nights: int | None = Field(default=None, ge=1)
    guests: list[Guest] = []


def test_keys_made_of_a_pydantic_model_are_shown_asked_for_and_kept() -> None:
    known = [{"requires_context_keys": ["room", "guests"]}]
    states = {
        "ask": {
            "required_context_keys": ["room"],
            "transitions": [{"target_state": "end", "conditions": known}],
        },
        "end": {},
    }
    program = machine(states, context_schema=Booking.model_json_schema())
    guests = [{"full_name": "Ada King", "age": None}]
    done = talk(
        program,
        "a double for Ada King",
        reply("end", "Gladly.", room="Double", nights="2", guests=guests),
    )
    assert (done.session.state, done.usage.calls, done.of(ev.ContextRefused)) == ("end", 1, [])
    assert done.session.context == {
        "room": "double",
        "nights": 2,
        "guests": [{"full_name": "Ada King"}],
    }
    keys = (
        done.requests[0]
        .messages[0]
        .content.split("<context_keys>\n")[1]
        .split("\n</context_keys>")[0]
        .splitlines()
    )
    assert keys[:2] == [
        'room (one of "single","double"): Kind of room',
        "nights (integer, minimum 1): Nights",
    ]
    assert "$ref" not in keys[2]
    schema = done.requests[0].schema
    assert schema is not None
    asked = schema.schema["properties"]["context_update"]["properties"]
    assert asked["room"] == {"type": "string", "enum": ["single", "double"]}
    assert list(asked["guests"]["items"]["properties"]) == ["full_name", "age"]


@pytest.mark.parametrize(
    ("schema", "kept", "refused"),
    [
        (
            {
                "definitions": {"N": {"type": "integer"}},
                "properties": {"b": {"$ref": "#/definitions/N"}},
            },
            7,
            "x",
        ),
        (
            {
                "properties": {
                    "a": {"type": "integer", "x-source": "host"},
                    "b": {"$ref": "#/properties/a"},
                }
            },
            7,
            "x",
        ),
        (
            {
                "$defs": {"N": {"type": "string"}},
                "definitions": {
                    "N": {"type": "integer"},
                    "L": {"items": {"$ref": "#/definitions/N"}},
                },
                "properties": {"b": {"$ref": "#/definitions/L"}, "c": {"$ref": "#/$defs/N"}},
            },
            [7],
            ["x"],
        ),
        (
            {
                "properties": {
                    "a": {
                        "properties": {"n": {"type": "integer"}, "more": {"$ref": "#/properties/a"}}
                    },
                    "b": {"$ref": "#/properties/a/properties/more"},
                }
            },
            {"more": {"n": 7}},
            {"more": {"n": "x"}},
        ),
    ],
)
def test_references_between_keys_and_to_definitions_are_followed(
    schema: Any, kept: Any, refused: Any
) -> None:
    document = {
        "name": "n",
        "initial_state": "a",
        "states": {"a": {"purpose": "A?"}},
        "context_schema": schema,
    }
    shape = compile_keys(load_dict(document).definition, ()).shapes["b"]
    assert shape.fault(kept) is None
    assert "is not a whole number" in str(shape.fault(refused))


def test_settings_of_a_key_are_not_those_of_the_keys_that_refer_to_it() -> None:
    secret = {"type": "string", "x-secret": True}
    schema, origins = with_defs({"properties": {"pin": secret, "b": {"$ref": "#/properties/pin"}}})
    assert schema["$defs"] == {"pin": {"type": "string"}}
    assert schema["properties"] == {"pin": secret, "b": {"$ref": "#/$defs/pin"}}
    assert origins == {"pin": "/properties/pin"}


def test_a_schema_without_references_between_keys_is_given_back_as_it_is() -> None:
    schema = {
        "definitions": {"N": {}},
        "properties": {"a": {"$ref": "#/$defs/M"}, "b": {"$ref": "#/properties/none"}},
    }
    assert with_defs(schema) == (schema, {})
