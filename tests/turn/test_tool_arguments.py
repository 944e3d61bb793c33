from __future__ import annotations

import json

import pytest

from llm_fsm.turn.tool_arguments import MAX_ARGUMENTS, ArgumentsFault, fitted, read_arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("  \n", {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": [1, "é"]}', {"a": [1, "é"]}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        (r'{"a": ["\ud83d", "\ud83d\ude00"]}', {"a": ["\ufffd", "😀"]}),
        ('{"a": "\ude00 é"}', {"a": "\ufffd é"}),
        (r'"{\"a\": \"\\ud83d\"}"', {"a": "\ufffd"}),
        ('{"a": 1, "a": 1}', {"a": 1}),
        ('```json\n{"a": {"b": 1}}\n```', {"a": {"b": 1}}),
        ('I call it with {"a": 1}.', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
    ],
)
def test_arguments_are_an_object(text, arguments):
    assert read_arguments(text) == arguments


TAGS = {"type": "array", "items": {"type": "string"}}
META = {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "sent", "read"),
    [
        (TAGS, '["a", "b"]', ["a", "b"]),
        (META, ' {"k": "v"}', {"k": "v"}),
        ({"type": "array", "items": META}, ['{"old": "x"}'], [{"old": "x"}]),
        ({"type": "array", "items": META}, '["{\\"old\\": \\"x\\"}"]', [{"old": "x"}]),
        ({"anyOf": [TAGS, {"type": "null"}]}, '["a"]', ["a"]),
        ({"type": ["array", "null"]}, "[]", []),
        ({"type": "object", "properties": {"in": TAGS}}, {"in": '["a"]'}, {"in": ["a"]}),
        ({"anyOf": [TAGS, {"type": "string"}]}, '["a"]', '["a"]'),
        ({"type": "string"}, '["a"]', '["a"]'),
        ({}, '["a"]', '["a"]'),
        (TAGS, '{"a": 1}', '{"a": 1}'),
        (TAGS, "[a", "[a"),
        (TAGS, '"[1]"', '"[1]"'),
        ({"type": "integer"}, "[1]", "[1]"),
    ],
)
def test_json_in_a_text_is_read_where_the_schema_takes_no_text(schema, sent, read):
    given = json.dumps({"x": sent})
    assert read_arguments(given, {"type": "object", "properties": {"x": schema}}) == {"x": read}


def test_a_key_twice_in_json_in_a_text_is_refused_too():
    with pytest.raises(ArgumentsFault, match="stands twice"):
        read_arguments(
            json.dumps({"x": '{"k": 1, "k": 2}'}), {"type": "object", "properties": {"x": META}}
        )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": ', "the arguments are not JSON: Expecting value"),
        ('{"a": 1', "the arguments are not JSON"),
        ("[1]", "the arguments are not a JSON object such as"),
        ("7", "not a JSON object"),
        ('"words"', "not a JSON object"),
        ('"{half"', "not JSON"),
        ('{"a": NaN}', "a number is not finite, or too large"),
        ('{"a": [-1e400]}', "a number is not finite, or too large"),
        ('"{\\"a\\": 1e999}"', "a number is not finite, or too large"),
        ('{"a": 1, "b": 2, "a": 3}', 'the key "a" stands twice with two values'),
        ('{"a": {"b": 1, "b": 2}}', 'the key "b" stands twice with two values'),
        ('"{\\"a\\": 1, \\"a\\": 2}"', 'the key "a" stands twice with two values'),
        ('Here: {"a": {"b": 1}', "not JSON"),
        ('{"a": 1}{"a": 2}', "not JSON"),
        ("[" * 100_000, "nested too deep"),
        ("x" * (MAX_ARGUMENTS + 1), "at most 1000000 are read"),
    ],
)
def test_anything_else_is_told_to_the_model(text, says):
    with pytest.raises(ArgumentsFault, match=says):
        read_arguments(text)


FIND = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer"},
        "tags": TAGS,
        "kinds": {"type": "array", "items": {"enum": ["big", "small"]}},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "many": {"anyOf": [TAGS, {"type": "null"}]},
        "either": {"anyOf": [TAGS, {"type": "string"}]},
        "any": {},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "amount": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
        "sure": {"type": "boolean"},
        "where": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "near": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["city"],
        },
        "rows": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "word": {"enum": ["red", "blue"]},
    },
    "required": ["query"],
}


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"limit": None}, {}),
        ({"tags": None}, {}),
        ({"word": None, "sure": None, "where": None, "rows": None}, {}),
        ({"query": None}, {"query": None}),
        ({"size": "\uff15"}, {"size": 5}),
        ({"note": 14, "amount": "5"}, {"note": "14", "amount": 5}),
        ({"zip": "28 195"}, {"zip": "28 195"}),
        ({"tags": [4, "x"]}, {"tags": ["4", "x"]}),
        ({"size": None, "many": None, "any": None}, {"size": None, "many": None, "any": None}),
        ({"other": None}, {"other": None}),
        ({"tags": "red"}, {"tags": ["red"]}),
        ({"many": "red"}, {"many": ["red"]}),
        ({"either": "red"}, {"either": "red"}),
        ({"tags": []}, {"tags": []}),
        ({"tags": "red, blue"}, {"tags": "red, blue"}),
        ({"kinds": "Big"}, {"kinds": ["big"]}),
        ({"rows": {"n": 1}}, {"rows": [{"n": 1}]}),
        ({"rows": {"n": None}}, {"rows": [{}]}),
        ({"where": {"city": "Rome", "near": 3}}, {"where": {"city": "Rome", "near": [3]}}),
        ({"where": {"city": None}}, {"where": {"city": None}}),
        ({"limit": "5"}, {"limit": 5}),
        ({"limit": "\uff15"}, {"limit": 5}),
        ({"limit": "\u0665"}, {"limit": 5}),
        ({"limit": "2.300"}, {"limit": "2.300"}),
        ({"sure": "yes"}, {"sure": True}),
        ({"word": " RED"}, {"word": "red"}),
        ({"word": "green"}, {"word": "green"}),
        ({"query": "5"}, {"query": "5"}),
        ({"query": "null"}, {"query": "null"}),
    ],
)
def test_arguments_are_read_as_values_of_replies_are(sent, read):
    assert read_arguments(json.dumps(sent), FIND) == read
    assert fitted(FIND, read) == read
