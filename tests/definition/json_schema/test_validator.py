"""Schemas of single values: which values fit."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.session import events as ev
from machines import machine, reply, talk


@pytest.mark.parametrize(
    ("format_", "said", "fitting", "unfit"),
    [
        (
            "time",
            "a time such as 09:30",
            [
                "20:00",
                "09:30:15",
                "23:59:60",
                "07:00:00.5",
                "20:00Z",
                "20:00:00Z",
                "20:00:00+09:00",
            ],
            ["", "24:00", "9:30", "20:60", "8 pm", "20:00 ", "20:00+9", "20", "2026-12-04T20:00"],
        ),
        (
            "date-time",
            "a date with its time such as 2026-12-31T09:30",
            [
                "2026-12-04T20:00",
                "2026-12-04 20:00:00",
                "2026-12-04t20:00:00z",
                "2026-12-04T20:00:00+09:00",
            ],
            [
                "",
                "2026-12-04",
                "2026-13-04T20:00",
                "2026-02-29T20:00",
                "20261204T20:00",
                "2026-12-04_20:00",
                "20:00",
            ],
        ),
        (
            "date",
            "a date such as 2026-12-31",
            ["2026-12-04", "2028-02-29"],
            ["2026-12-4", "2026-02-29", "2026-12-04T20:00"],
        ),
        ("email", "an e-mail address", ["ada@example.com"], ["ada@", "ada"]),
    ],
)
def test_formats_are_checked_and_times_need_neither_seconds_nor_offset(
    format_: str, said: str, fitting: list[str], unfit: list[str]
) -> None:
    shape = compile_shape({"type": "string", "format": format_})
    assert {value: shape.fault(value) for value in fitting} == dict.fromkeys(fitting)
    assert {value: shape.fault(value) for value in unfit} == {
        value: f'"{value}" is not {said}' for value in unfit
    }


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "integer"}, "three", '"three" is not a whole number'),
        ({"type": ["number", "null"]}, "x", '"x" is not a number'),
        ({"type": ["integer", "boolean"]}, "x", '"x" is not true or false or a whole number'),
        ({"type": "null"}, "x", '"x" is not of type "null"'),
        (
            {"type": "number"},
            "1,5",
            '"1,5" is not a number (decimals stand behind a point, thousands without a mark)',
        ),
        (
            {"type": "integer"},
            "1 500",
            '"1 500" is not a whole number (decimals stand behind a point, thousands without a mark)',
        ),
        ({"type": "integer"}, "2, 3", '"2, 3" is not a whole number'),
        ({"type": "boolean"}, "1,5", '"1,5" is not true or false'),
        ({"type": "integer"}, 1.5, "1.5 is not a whole number"),
        (
            {"type": "integer"},
            'is not of type "x"',
            '"is not of type \\"x\\"" is not a whole number',
        ),
        ({"items": {"type": "string"}}, [1], "at /0: 1 is not a text"),
        ({"format": "uri"}, "x", '"x" is not an address such as https://example.org/'),
        ({"format": "uuid"}, "x", '"x" is not a "uuid"'),
        (
            {"anyOf": [{"type": "integer"}, {"enum": ["x"]}]},
            "y",
            '"y" is none of what may be given',
        ),
    ],
)
def test_types_and_formats_are_told_in_plain_words(
    schema: dict[str, Any], value: Any, said: str
) -> None:
    assert compile_shape(schema).fault(value) == said


@pytest.mark.parametrize(
    ("enum", "said"),
    [
        ([1, 3, 6, 9], "1, 3, 6 or 9"),
        (["S", "M", "L", "XL", None], '"S", "M", "L" or "XL"'),
        (
            [f"{number:0>98}" for number in range(9)],
            f'"{0:0>98}", "{1:0>98}", "{2:0>98}" or 6 more',
        ),
        (["x" * 400, "b", "c", "d"], "4 values"),
        ([None] * 4, "null, null or 2 other candidates"),
    ],
)
@pytest.mark.parametrize("value", [2, "2 is not one of 3"])
def test_a_refusal_lists_what_may_be_chosen(enum: list[Any], said: str, value: Any) -> None:
    assert compile_shape({"enum": enum}).fault(value) == f"{json.dumps(value)} is not one of {said}"


def test_a_long_value_is_refused_at_once_whatever_stands_in_it() -> None:
    shape, value = compile_shape({"pattern": "^a$"}), " is not one of or 1 other candidates " * 6000
    began = time.process_time()
    shape.fault(value)
    assert time.process_time() - began < 1


def test_a_time_as_people_say_it_is_kept_in_one_call() -> None:
    known = [{"requires_context_keys": ["at"]}]
    states = {
        "ask": {
            "required_context_keys": ["at"],
            "transitions": [{"target_state": "end", "conditions": known}],
        },
        "end": {},
    }
    keys = {"properties": {"at": {"type": "string", "format": "time"}}}
    done = talk(
        machine(states, context_schema=keys), "at eight", reply("end", "See you.", at="20:00")
    )
    assert (done.session.context, done.usage.calls, done.of(ev.ContextRefused)) == (
        {"at": "20:00"},
        1,
        [],
    )


def test_why_a_long_value_does_not_fit_is_told_without_its_middle() -> None:
    fault = compile_shape({"items": {"type": "string", "pattern": "^a$"}}).fault(["x" * 16_000])
    assert fault is not None
    assert fault.startswith(f'at /0: "{"x" * 299}… [15423 characters missing] …xx')
    assert fault.endswith('xx" does not match "^a$"')
    assert (
        compile_shape({"maxLength": 1}).fault("x" * 300)
        == f'"{"x" * 300}" is longer than 1 character'
    )


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("ada@example.org", True),
        ("Ada <ada@example.org>", False),
        ("<ada@example.org>", False),
        ("ada", False),
    ],
)
def test_an_email_address_is_one_without_a_name_beside_it(text: str, fits: bool) -> None:
    assert (compile_shape({"type": "string", "format": "email"}).fault(text) is None) is fits
