from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.session.messages import ToolSpec
from llm_fsm.tools.formats import formatted, google_schema


@pytest.mark.parametrize(
    ("schema", "google"),
    [
        ({"type": "string", "title": "T", "default": "x"}, {"type": "STRING"}),
        ({}, {"type": "STRING"}),
        ({"type": "string", "format": "date"}, {"type": "STRING", "description": "format date"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"]}),
        ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
        (
            {"enum": [1, 2], "description": "Level"},
            {"type": "INTEGER", "description": "Level (one of 1, 2)"},
        ),
        ({"type": ["integer", "null"]}, {"type": "INTEGER", "nullable": True}),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "d", "default": None},
            {"type": "INTEGER", "nullable": True, "description": "d"},
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            {"anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]},
        ),
        ({"anyOf": [{"type": "null"}]}, {"type": "STRING", "nullable": True}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        (
            {"type": "array", "items": {"type": "number"}, "minItems": 1, "uniqueItems": True},
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": 1},
        ),
        ({"$ref": "#/$defs/Node"}, {"type": "OBJECT"}),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "boolean"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            {"type": "OBJECT", "properties": {"a": {"type": "BOOLEAN"}}, "required": ["a"]},
        ),
        ({"type": "object", "required": ["a"]}, {"type": "OBJECT"}),
    ],
)
def test_a_schema_is_said_in_the_words_that_google_knows(
    schema: dict[str, Any], google: dict[str, Any]
):
    assert google_schema(schema) == google


def test_a_tool_without_parameters_has_none_for_google():
    spec = ToolSpec(name="now", description="d", parameters={"type": "object", "properties": {}})
    assert formatted([spec], "google") == [
        {"function_declarations": [{"name": "now", "description": "d"}]}
    ]
    assert formatted([], "google") == []
    assert json.dumps(formatted([spec], "openai"))


def test_the_text_of_a_tool_is_written_once_however_many_tools_there_are():
    specs = [
        ToolSpec(name=f"tool_{at}", description="é", parameters={"type": "object"})
        for at in range(300)
    ]
    texts = [spec.text for spec in specs]
    assert json.loads(texts[0]) == formatted(specs, "openai")[0]
    assert all(spec.text is text for spec, text in zip(specs, texts, strict=True))
