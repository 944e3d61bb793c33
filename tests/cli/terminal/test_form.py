"""Answers field by field."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.cli.terminal.answers import TypedAnswer
from llm_fsm.session.messages import Paused

SIGN: dict[str, Any] = {
    "type": "object",
    "required": ["accepted", "by"],
    "additionalProperties": False,
    "properties": {
        "accepted": {"type": "boolean", "description": "May it be used?"},
        "by": {"type": "string", "minLength": 2, "title": "your\x1b name"},
        "grade": {"enum": ["good", "fair", 3, None]},
        "pages": {"type": ["integer", "null"], "minimum": 1},
        "price": {"type": "number"},
    },
}


def paused(schema: Any, kind: Any = "wait") -> Paused:
    return Paused(id="p", kind=kind, what="word", state="s", schema=schema)


def form(schema: Any = SIGN) -> TypedAnswer:
    return TypedAnswer(paused(schema))


def test_each_field_is_asked_for_by_its_title_and_what_can_be_typed() -> None:
    filling, asked = form(), []
    for line in ("Yes", "Ada", "2", "", "1.5"):
        asked.append(filling.question(required="empty: later"))
        filling.take(line)
    assert asked == [
        "accepted: May it be used? (1 yes, 2 no; empty: later)",
        "your\x1b name (empty: later)",
        "grade (1 good, 2 fair, 3 3, 4 null; empty: none)",
        "pages (a whole number; empty: none)",
        "price (a number; empty: none)",
    ]
    assert (filling.fields, filling.value) == (
        {},
        {"accepted": True, "by": "Ada", "grade": "fair", "price": 1.5},
    )


@pytest.mark.parametrize(
    ("name", "line", "said"),
    [
        ("accepted", "perhaps", "please type one of 1 yes, 2 no"),
        ("accepted", " ", "accepted is needed"),
        ("by", "A", '"A" is shorter than 2 characters'),
        ("grade", "bad", "please type one of 1 good"),
        ("pages", "two", "please type a number"),
        ("pages", "0", "0 is less than the minimum of 1"),
        ("pages", "1.5", "1.5 is not a whole number"),
    ],
)
def test_a_line_that_does_not_fit_is_refused_and_the_field_asked_again(
    name: str, line: str, said: str
) -> None:
    schema = {**SIGN, "properties": {name: SIGN["properties"][name]}, "required": [name]}
    filling = form(schema)
    with pytest.raises(ValueError, match=said):
        filling.take(line)
    assert filling.name == name


def test_all_at_once_is_json() -> None:
    filling = form()
    with pytest.raises(ValueError, match='"by" is a required property'):
        filling.take('{"accepted": true}')
    assert filling.take('{"accepted": true, "by": "Ada"}')
    assert filling.value == {"accepted": True, "by": "Ada"}


def test_fields_that_do_not_fit_together_are_asked_for_again() -> None:
    either = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "minProperties": 1,
    }
    filling = form(either)
    assert not filling.take("")
    with pytest.raises(ValueError, match="propert"):
        filling.take("")
    assert filling.name == "a"
    assert not filling.take("x")
    assert filling.take("")
    assert filling.value == {"a": "x"}


def test_one_line_is_the_answer_where_there_are_no_fields() -> None:
    asked = form({"type": "string"})
    assert (asked.question(required="empty: later"), asked.is_required) == (
        "answer (empty: later)",
        True,
    )
    assert asked.take(" blue ")
    assert asked.value == "blue"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
        {
            "type": "object",
            "properties": {f"k{number}": {"type": "string"} for number in range(13)},
        },
    ],
)
def test_what_has_no_plain_fields_is_no_form(schema: Any) -> None:
    assert not form(schema).fields


def test_an_approval_is_no_form() -> None:
    assert not TypedAnswer(paused(SIGN, "approval")).fields
