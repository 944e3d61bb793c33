"""Values in the words of their key: labels and dates in fixed replies, in choices and in the key
list.
"""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.turn.localized import localized
from llm_fsm.turn.prompt.render import key_line
from machines import machine, reply, talk

SIZE = {"enum": ["s", "l"], "x-labels": {"s": "klein", "l": "groß"}}


def said(fixed: str, schema: dict[str, Any], value: Any, **options: Any) -> str:
    """What a fixed reply says of a value of the key `k`."""
    states = {"a": {"purpose": "?", "transitions": [{"target_state": "b"}]}, "b": {"reply": fixed}}
    made = machine(states, context_schema={"properties": {"k": schema}}, **options)
    return talk(made, "today", reply("b", "", k=value)).text


@pytest.mark.parametrize(
    ("fixed", "text"),
    [
        ("{{ k }}", "groß"),
        ("{{ k|upper }} {{ k|title }} {{ k }}! {{ '%s'|format(k) }}", "GROSS Groß groß! groß"),
        ("{% if k == 'l' %}yes{% endif %}{% if k in ['l'] %}!{% endif %}", "yes!"),
    ],
)
def test_a_fixed_reply_says_the_words_of_a_value_and_compares_the_value(
    fixed: str, text: str
) -> None:
    assert said(fixed, SIZE, "l") == text


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "array", "items": SIZE}, ["s", "l"], "klein, groß"),
        ({"enum": [1, 2], "x-labels": {"2": "zwei"}}, 2, "zwei"),
        ({"type": "boolean", "x-labels": {"true": "ja", "false": "nein"}}, False, "nein"),
    ],
)
def test_lists_numbers_and_booleans_have_words_too(
    schema: dict[str, Any], value: Any, text: str
) -> None:
    fixed = "{{ k|join(', ') }}" if isinstance(value, list) else "{{ k }}"
    assert said(fixed, schema, value) == text


@pytest.mark.parametrize(
    ("language", "form", "value", "text"),
    [
        ("de", "date", "2027-06-01", "1. Juni 2027"),
        ("pt-BR", "date", "2027-06-01", "1 de junho de 2027"),
        ("ja", "date", "2027-06-01", "2027年6月1日"),
        ("en-XX", "date", "2027-06-01", "June 1, 2027"),
        ("tlh", "date", "2027-06-01", "2027-06-01"),
        ("", "date", "2027-06-01", "2027-06-01"),
        ("de", "time", "14:30", "14:30"),
        ("fr", "date-time", "2027-06-01T14:30:00+02:00", "1 juin 2027, 14:30"),
    ],
)
def test_a_fixed_reply_says_a_date_in_the_language_of_the_definition(
    language: str, form: str, value: str, text: str
) -> None:
    schema = {"type": "string", "format": form}
    assert str(localized(schema, value, language)) == text


def test_a_date_in_an_object_is_said_in_the_language_and_compared_as_it_is() -> None:
    schema = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}
    fixed = "{{ k.day }}{% if k.day < '2028' %}!{% endif %}"
    assert said(fixed, schema, {"day": "2027-06-01"}, language="de") == "1. Juni 2027!"


def test_the_key_list_shows_the_words_of_values() -> None:
    assert key_line("size", SIZE) == 'size (one of "s" (klein),"l" (groß))'
