"""Schemas of replies: inside what strict modes accept, the same bytes each time, and read back as
meant.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.session.reply_schema import (
    from_strict,
    narrowed,
    pairs,
    reply_schema,
    value_schema,
    with_targets,
)

NAMES = st.text("abcdef", min_size=1, max_size=4)
SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean"])})
    | st.just({})
    | st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from(["a", "b", 1, True]), min_size=1, unique=True)}
    )
    | st.fixed_dictionaries(
        {"type": st.just("string"), "format": st.just("date"), "minLength": st.integers(0, 3)}
    )
    | st.fixed_dictionaries(
        {"type": st.lists(st.sampled_from(["string", "null", "array"]), min_size=1, unique=True)}
    )
    | st.fixed_dictionaries({"$ref": st.just("#/$defs/x")}),
    lambda inner: (
        st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)}
        )
    ),
    max_leaves=6,
)
ALLOWED = {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf"}


def check_strict(schema: Any) -> None:
    """What every strict mode takes: each property of an object is required."""
    assert set(schema) <= ALLOWED
    if "anyOf" in schema:
        assert set(schema) == {"anyOf"}
        for branch in schema["anyOf"]:
            check_strict(branch)
        return
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "object" in kinds:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        for item in schema["properties"].values():
            check_strict(item)
    if "array" in kinds:
        check_strict(schema["items"])


@given(
    st.dictionaries(NAMES, SCHEMAS, max_size=4),
    st.sampled_from(["none", "first", "last"]),
    st.sampled_from(["object", "list"]),
)
def test_any_context_schema_gives_a_reply_schema(
    keys: dict[str, Any], reasoning: str, form: Any
) -> None:
    made, again = (
        reply_schema(name="a", targets=["b", "a", "b"], keys=keys, reasoning=reasoning, form=form)
        for _ in range(2)
    )
    if form == "list":
        check_strict(json.loads(made.text))
    assert made.text == again.text
    assert made.form == form
    compile_shape(json.loads(made.text))


KEYS = {
    "guests": {"type": "integer", "minimum": 1},
    "name": {"type": "string"},
    "phone": {"type": "string", "pattern": "^[0-9]+$"},
    "size": {"enum": ["s", "m"]},
    "card": {
        "type": "object",
        "properties": {"number": {"type": "string"}, "code": {"type": "integer"}},
    },
}


def update_schema(form: Any, **more: Any) -> Any:
    made = reply_schema(name="", targets=["a"], keys=KEYS, reasoning="none", form=form, **more)
    return made.schema["properties"]["context_update"]


def test_a_list_gives_each_key_the_type_of_its_value_and_no_key_a_null() -> None:
    def branch(keys: list[str], value: Any, *further: str) -> Any:
        quote = {key: {"type": "string"} for key in further}
        return {
            "type": "object",
            "properties": {"key": {"type": "string", "enum": keys}, "value": value, **quote},
            "required": ["key", "value", *further],
            "additionalProperties": False,
        }

    card = {
        "type": "object",
        "properties": {
            "number": {"type": ["string", "null"]},
            "code": {"type": ["integer", "null"]},
        },
        "required": ["number", "code"],
        "additionalProperties": False,
    }
    fact = {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
        "required": ["key", "value"],
        "additionalProperties": False,
    }
    assert update_schema("list") == {
        "type": "array",
        "items": {
            "anyOf": [
                branch(["guests"], {"type": "integer"}),
                branch(["name", "phone"], {"type": "string"}),
                branch(["size"], {"type": "string", "enum": ["s", "m"]}),
                branch(["card"], card),
                branch(["_clear"], {"type": "string"}, "quote"),
                branch(["_extra"], fact),
            ]
        },
    }


def test_a_list_without_declared_keys_takes_any_key() -> None:
    assert update_schema("list", declared=False)["items"]["properties"] == {
        "key": {"type": "string"},
        "value": {"type": ["string", "number", "boolean"]},
    }


def test_an_object_has_optional_keys_at_every_depth() -> None:
    schema = update_schema("object")
    assert "required" not in schema
    assert "required" not in schema["properties"]["card"]
    assert schema["properties"]["guests"] == {"type": "integer"}
    shape = compile_shape(schema)
    for good in (
        {},
        {"guests": 4},
        {"card": {"code": 1}},
        {"_extra": {"dog": "Rex"}, "_clear": ["phone"]},
    ):
        assert shape.fault(good) is None
    for bad in ({"unknown": 1}, {"guests": "4"}, {"_extra": {"dog": 1}}):
        assert shape.fault(bad) is not None


def test_order_of_a_reply_names_the_move_before_the_words() -> None:
    def order(reasoning: str) -> list[str]:
        schema = json.loads(
            reply_schema(name="a", targets=["a"], keys={}, reasoning=reasoning).text
        )
        return list(schema["properties"])

    move = ["target_state", "context_update"]
    assert order("none") == [*move, "message", "question"]
    assert order("first") == ["reasoning", *move, "message", "question"]
    assert order("last") == [*move, "message", "question", "reasoning"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({}, {"type": ["string", "number", "boolean"]}),
        ({"enum": ["s", "m"]}, {"type": "string", "enum": ["s", "m"]}),
        ({"enum": ["s", 1]}, {"type": ["string", "number", "boolean"]}),
        ({"type": "string", "format": "date", "description": "The day"}, {"type": "string"}),
        ({"type": ["integer", "null"], "minimum": 1}, {"type": "integer"}),
    ],
)
def test_key_schemas_leave_words_and_bounds_to_the_prompt(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert value_schema(schema, "list") == expected
    assert value_schema(schema, "object") == expected


def test_further_states_are_named_after_the_others_once_and_the_schema_is_made_once() -> None:
    schema = reply_schema(name="", targets=("a", "b"), keys={}, reasoning="none")
    wider = with_targets(schema, ("b", "c"))
    assert wider.schema["properties"]["target_state"]["enum"] == ["a", "b", "c"]
    assert json.loads(wider.text) == wider.schema
    assert with_targets(schema, iter(("b", "c"))) is wider
    assert with_targets(schema, ()) is schema
    assert json.loads(schema.text)["properties"]["target_state"]["enum"] == ["a", "b"]


@pytest.mark.parametrize(
    ("schema", "sent", "meant"),
    [
        ({"type": "object"}, [{"key": "a", "value": "1"}], {"a": "1"}),
        ({"type": "object"}, {"a": 1}, {"a": 1}),
        ({"type": "object"}, [1], [1]),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}},
            },
            {"a": None, "b": None},
            {},
        ),
        ({"type": "object"}, {"a": {"b": None, "c": 1}, "d": None}, {"a": {"c": 1}}),
        (
            {"properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]},
            {"a": None},
            {"a": None},
        ),
        ({"enum": [1, 2.5]}, 2.5, 2.5),
        (
            {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            [{"a": None}, {"a": "x"}],
            [{}, {"a": "x"}],
        ),
        ({"type": "string"}, "x", "x"),
    ],
)
def test_strict_forms_are_read_back(schema: dict[str, Any], sent: Any, meant: Any) -> None:
    found = from_strict(schema, sent)
    assert (found, type(found)) == (meant, type(meant))


def test_pairs_are_lists_of_key_and_value_only() -> None:
    assert pairs([{"key": "a", "value": 1}, {"key": "b"}]) == {"a": 1, "b": None}
    assert pairs([{"value": 1}]) is None
    assert pairs("x") is None


def test_keys_of_the_current_state_come_first_with_the_changes_of_their_lists() -> None:
    keys = {name: {"type": "string"} for name in ("name", "phone")}
    keys["guests"] = {"type": "array", "items": {"type": "string"}}
    schema = reply_schema(targets=("a", "b"), keys=keys, reasoning="none", name="", facts=False)
    found = narrowed(schema, ("a", "b"), ("guests",), ("guests",))
    update = found.schema["properties"]["context_update"]["properties"]
    assert list(update) == ["guests", "-guests", "name", "phone", "_quotes", "_clear"]
    found = narrowed(schema, ("a", "b"), (), ("guests",))
    update = found.schema["properties"]["context_update"]["properties"]
    assert list(update) == ["guests", "name", "phone"]


def test_no_more_keys_can_be_taken_back_than_there_are_values() -> None:
    keys = {name: {"type": "string"} for name in ("name", "phone")}
    schema = reply_schema(targets=("a", "b"), keys=keys, reasoning="none", name="", facts=False)
    found = narrowed(schema, ("a", "b"), ("name", "phone"))
    taken_back = found.schema["properties"]["context_update"]["properties"]["_clear"]
    assert (taken_back["items"]["enum"], taken_back["maxItems"]) == (["name", "phone"], 2)
