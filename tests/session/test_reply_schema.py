"""Schemas of replies: inside what strict modes accept, the same bytes each time, and read back as meant."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.session.reply_schema import reply_schema, strict, with_targets

NAMES = st.text("abcdef", min_size=1, max_size=4)
SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean"])})
    | st.just({})
    | st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", "b", 1, True]), min_size=1, unique=True)})
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
ALLOWED = {"type", "properties", "required", "additionalProperties", "items", "enum"}


def check_strict(schema: Any) -> None:
    assert set(schema) <= ALLOWED
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "object" in kinds:
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        for item in schema["properties"].values():
            check_strict(item)
    if "array" in kinds:
        check_strict(schema["items"])


@given(st.dictionaries(NAMES, SCHEMAS, max_size=4), st.sampled_from(["none", "first", "last"]))
def test_any_context_schema_gives_a_strict_reply_schema(keys: dict[str, Any], reasoning: str) -> None:
    made = reply_schema(name="a", targets=["b", "a", "b"], keys=keys, reasoning=reasoning)
    check_strict(json.loads(made.text))
    assert made.text == reply_schema(name="a", targets=["b", "a", "b"], keys=keys, reasoning=reasoning).text
    compile_shape(json.loads(made.text))


def test_order_of_a_reply_names_the_move_before_the_words() -> None:
    def order(reasoning: str) -> list[str]:
        schema = json.loads(reply_schema(name="a", targets=["a"], keys={}, reasoning=reasoning).text)
        return list(schema["properties"])

    assert order("none") == ["transition", "message"]
    assert order("first") == ["reasoning", "transition", "message"]
    assert order("last") == ["transition", "message", "reasoning"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({}, {"type": ["string", "number", "boolean", "null"]}),
        ({"enum": ["s", "m"]}, {"type": ["string", "null"], "enum": ["s", "m", None]}),
        ({"enum": ["s", 1]}, {"type": ["string", "number", "boolean", "null"]}),
        (
            {"type": "string", "format": "date", "description": "The day"},
            {"type": ["string", "null"]},
        ),
        ({"type": "integer", "minimum": 1}, {"type": ["integer", "null"]}),
    ],
)
def test_key_schemas_become_nullable_and_leave_words_and_bounds_to_the_prompt(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert strict(schema) == expected


def test_further_states_are_named_after_the_others_once_and_the_schema_is_made_once() -> None:
    schema = reply_schema(name="", targets=("a", "b"), keys={}, reasoning="none")
    wider = with_targets(schema, ("b", "c"))
    assert wider.schema["properties"]["transition"]["properties"]["target_state"]["enum"] == ["a", "b", "c"]
    assert json.loads(wider.text) == wider.schema
    assert with_targets(schema, iter(("b", "c"))) is wider
    assert with_targets(schema, ()) is schema
    assert json.loads(schema.text)["properties"]["transition"]["properties"]["target_state"]["enum"] == ["a", "b"]
