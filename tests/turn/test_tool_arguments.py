from __future__ import annotations

import pytest

from llm_fsm.turn.tool_arguments import MAX_ARGUMENTS, ArgumentsFault, read_arguments


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
    ],
)
def test_arguments_are_an_object(text, arguments):
    assert read_arguments(text) == arguments


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": ', "the arguments are not JSON: Expecting value"),
        ('{"a": 1', "the arguments are not JSON"),
        ("[1]", "the arguments are not a JSON object such as"),
        ("7", "not a JSON object"),
        ('"words"', "not a JSON object"),
        ('"{half"', "not JSON"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": [-1e400]}', "-1e400 is no JSON number"),
        ('"{\\"a\\": 1e999}"', "1e999 is no JSON number"),
        ("[" * 100_000, "nested too deep"),
        ("x" * (MAX_ARGUMENTS + 1), "at most 1000000 are read"),
    ],
)
def test_anything_else_is_told_to_the_model(text, says):
    with pytest.raises(ArgumentsFault, match=says):
        read_arguments(text)
