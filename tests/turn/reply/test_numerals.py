"""Digits that are no JSON number, and mean a text."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.turn.reply.parser import parse, quoted
from machines import machine, reply, say, start, talk


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 0501}', '{"a": "0501"}'),
        ('{"a":+49170 , "b": [007,1]}', '{"a":"+49170" , "b": ["007",1]}'),
        ('{"a": 0, "b": 0.5, "c": 10, "d": -05}', '{"a": 0, "b": 0.5, "c": 10, "d": -05}'),
        ('{"a": "x: 0501, y"}', '{"a": "x: 0501, y"}'),
        (r'{"a": "x\": 0501, y", "b": 02}', r'{"a": "x\": 0501, y", "b": "02"}'),
        (
            '{"a": 01, "message": "it: 0501, ok", "b": 02}',
            '{"a": "01", "message": "it: 0501, ok", "b": 02}',
        ),
        ('{"a": 0501', '{"a": 0501'),
    ],
)
def test_only_digits_before_the_words_and_outside_of_texts_are_put_in_quotes(
    text: str, found: str
) -> None:
    assert quoted(text) == found


KEYS: dict[str, Any] = {"properties": {"phone": {"type": "string"}, "month": {"type": "integer"}}}


@pytest.mark.parametrize("schema", [KEYS, None])
@pytest.mark.parametrize("phone", ["0501234567", "+491701234567"])
def test_a_number_without_quotes_loses_no_zero_and_no_plus(
    schema: dict[str, Any] | None, phone: str
) -> None:
    states = {
        "ask": {"required_context_keys": ["phone"], "transitions": [{"target_state": "end"}]},
        "end": {},
    }
    program = machine(states, **({"context_schema": schema} if schema else {}))
    sent = f'{{"transition": {{"target_state": "end", "context_update": {{"phone": {phone}}}}}, "message": "Thanks."}}'
    done = say(program, start(program).session, "my number", sent)
    assert (done.session.context, done.usage.calls) == ({"phone": phone}, 1)


def test_zeros_before_a_number_that_is_wanted_are_left_out() -> None:
    states = {
        "ask": {"required_context_keys": ["month"], "transitions": [{"target_state": "end"}]},
        "end": {},
    }
    program = machine(states, context_schema=KEYS)
    sent = '{"transition": {"target_state": "end", "context_update": {"month": 07}}, "message": "July."}'
    assert say(program, start(program).session, "July", sent).session.context == {"month": 7}
    assert talk(program, "July", reply("end", "July.", month="07")).session.context == {"month": 7}


def test_words_that_need_repair_stay_as_they_are() -> None:
    sent = (
        '{"transition": {"target_state": "a", "context_update": {}}, "message": "call: 0501, now",}'
    )
    assert parse(sent).message == "call: 0501, now"
