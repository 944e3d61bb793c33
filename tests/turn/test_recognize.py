"""Messages that are certainly a value, and those that are not."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.definition.models import Definition
from llm_fsm.session.context import compile_keys
from llm_fsm.turn.recognize import recognisers


def value(schema: dict[str, Any], said: str, *, asked: str = "", language: str = "") -> Any:
    definition = Definition.model_validate(
        {
            "name": "d",
            "initial_state": "a",
            "states": {"a": {}},
            "context_schema": {"properties": {"k": {**schema, "x-fast": True}}},
        }
    )
    keys = compile_keys(definition, ())
    found = recognisers(keys.offered, keys.fault, language)
    return found["k"](said, asked) if "k" in found else "for the model"


SIZES = {"enum": ["Small", "Very large"]}
LABELLED = {"enum": ["s", "xl", 3], "x-labels": {"s": "Small", "xl": "Extra large", "3": "Three"}}
MENU = "Which size?\n1. small\n2) Very large"
EMAIL = {"type": "string", "format": "email"}
ANY = "for the model"


@pytest.mark.parametrize(
    ("schema", "said", "found"),
    [
        (SIZES, "small", "Small"),
        (SIZES, "VERY   large.", "Very large"),
        (SIZES, "small please", None),
        (SIZES, "not small", None),
        (SIZES, "smal", None),
        (SIZES, "small!?", None),
        (SIZES, "small...", None),
        (SIZES, "1", None),
        ({"enum": ["too_small", "too_big"]}, "Too big", "too_big"),
        ({"enum": ["too_small", "too_big"]}, "big", None),
        ({"enum": ["too_big", "too big"]}, "too big", ANY),
        (LABELLED, "extra LARGE.", "xl"),
        (LABELLED, "xl", "xl"),
        (LABELLED, "three", 3),
        (LABELLED, "3", 3),
        (LABELLED, "large", None),
        ({"enum": ["a", "b"], "x-labels": {"a": "b"}}, "b", ANY),
        ({"type": "boolean", "x-labels": {"true": "Aye", "false": "Nay"}}, "nay", False),
        ({"type": "boolean", "x-labels": {"true": "Aye", "false": "Nay"}}, "yes", True),
        ({"enum": ["", "a"]}, "", ANY),
        ({"enum": ["a", None]}, "a", ANY),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["a", "b"], "not": {"const": "a"}}, "a", None),
        ({"type": "string", "enum": [1, 2]}, "1", None),
        ({"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}, "a", "a"),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "no.", False),
        ({"type": "boolean"}, "no...", None),
        ({"type": "boolean"}, "yes but", None),
        ({"type": "boolean"}, "ja", None),
        ({"type": "boolean", "const": True}, "no", None),
        (EMAIL, "ada@example.org", "ada@example.org"),
        (EMAIL, "it is ada@example.org", None),
        (EMAIL, "", None),
        ({"type": "string", "format": "date"}, "2030-01-31", "2030-01-31"),
        ({"type": "string", "format": "date"}, "2030-02-30", None),
        ({"type": "string", "format": "hostname"}, "no", ANY),
        ({"type": "string", "pattern": "^[0-9]{5}$"}, "24103", ANY),
        ({"type": "integer"}, "7", ANY),
        ({"type": "number"}, "2.5", ANY),
        ({"type": "string"}, "Ada", ANY),
        ({"type": "array"}, "[]", ANY),
    ],
)
def test_a_message_is_a_value_only_as_a_whole(
    schema: dict[str, Any], said: str, found: Any
) -> None:
    assert value(schema, said) == found


@pytest.mark.parametrize(
    ("language", "said", "found"),
    [
        ("de", "Ja", True),
        ("de-AT", "nein", False),
        ("de", "yes", None),
        ("pl", "no", None),
        ("pl", "nie", False),
        ("EN-us", "yes", True),
        ("tlh", "HISlaH", ANY),
    ],
)
def test_yes_and_no_are_those_of_the_definitions_language(
    language: str, said: str, found: Any
) -> None:
    assert value({"type": "boolean"}, said, language=language) is found


@pytest.mark.parametrize(
    ("schema", "said", "asked", "found"),
    [
        (SIZES, "1", MENU, "Small"),
        (SIZES, "2.", MENU, "Very large"),
        (SIZES, "2)", MENU, "Very large"),
        (SIZES, "3", MENU, None),
        (SIZES, "\uff12", MENU, "Very large"),
        (SIZES, "\u0661.", MENU, "Small"),
        ({"enum": ["s", "xl"], "x-labels": {"s": "Small", "xl": "Very large"}}, "2", MENU, "xl"),
        (SIZES, "0", MENU, None),
        (SIZES, "9" * 5000, MENU, None),
        (SIZES, "small", MENU, "Small"),
        (SIZES, "1", "1. small?", None),
        (SIZES, "1", f"{MENU}\nWhich crust?\n1. thin\n2. thick", None),
        ({"enum": ["too_small", "too_big"]}, "2", "1. too small\n2. Too  big", "too_big"),
        ({"enum": ["in", "out"]}, "1", "1. internal 2. outside", None),
        ({"enum": ["small", "large"]}, "2", "We have 1 small 2 large left.", None),
        ({"enum": [2, 4]}, "2", "1. 2\n2. 4", 2),
    ],
)
def test_a_number_means_the_choice_that_was_shown_with_it(
    schema: dict[str, Any], said: str, asked: str, found: Any
) -> None:
    assert value(schema, said, asked=asked) == found
