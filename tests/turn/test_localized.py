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
    return talk(made, "on 2027-06-01", reply("b", "", k=value)).text


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


AMOUNT = {"type": "number"}
MONEY = {"type": "number", "x-currency": "EUR"}
NAMES = {"type": "array", "items": {"type": "string"}}
BOX = {"type": "object", "properties": {"weight": AMOUNT}}


@pytest.mark.parametrize(
    ("language", "schema", "value", "text"),
    [
        ("de", AMOUNT, 1234.5, "1.234,5"),
        ("de", AMOUNT, 12000, "12.000"),
        ("de", AMOUNT, 0.123456789, "0,123456789"),
        ("de", {"type": ["number", "null"]}, -0.5, "-0,5"),
        ("en", AMOUNT, 1234.5, "1,234.5"),
        ("fr", AMOUNT, 1234.5, "1\u202f234,5"),
        ("tlh", AMOUNT, 1234.5, "1234.5"),
        ("", AMOUNT, 1234.5, "1234.5"),
        ("de", {"type": "integer"}, 20270601, "20270601"),
        ("de", {"type": "string"}, "1234.5", "1234.5"),
        ("de", {"enum": [1.5], "x-labels": {"1.5": "anderthalb"}}, 1.5, "anderthalb"),
        ("de", MONEY, 12.5, "12,50\xa0€"),
        ("tr", MONEY, 1234, "€1.234,00"),
        ("", MONEY, 12.5, "€12.50"),
        ("tlh", MONEY, 12.5, "12.5 EUR"),
        ("de", {"type": "integer", "x-currency": "JPY"}, 1200, "1.200\xa0¥"),
        ("de", NAMES, ["Tee", "Milch", "Saft"], "Tee, Milch und Saft"),
        ("es", NAMES, ["té", "leche"], "té y leche"),
        ("tr", NAMES, ["çay"], "çay"),
        ("de", NAMES, [], ""),
        ("tlh", NAMES, ["a", "b"], "a, b"),
        ("", NAMES, ["a", "b"], "['a', 'b']"),
        ("de", {"type": "array", "items": SIZE}, ["s", "l"], "klein und groß"),
        ("de", {"type": "array", "items": AMOUNT}, [0.5, 1.5], "0,5 und 1,5"),
        ("de", {"type": "array", "items": BOX}, [{"weight": 1}], "[{'weight': 1}]"),
    ],
)
def test_numbers_money_and_lists_are_written_in_the_language(
    language: str, schema: dict[str, Any], value: Any, text: str
) -> None:
    assert said("({{ k }})", schema, value, language=language) == f"({text})"


@pytest.mark.parametrize(
    ("language", "fixed", "text"),
    [
        ("de", "{{ k * 2 }} {{ k + 1 }} {{ k | round(1) }}", "2.469,5 1.235,75 1.234,8"),
        ("de", "{{ '%.2f' | format(k) }} {{ '%d%% %s' | format(k, k) }}", "1234,75 1234% 1.234,75"),
        ("de", "{% if k == 1234.75 and k > 1000 %}{{ k | int }}{% endif %}", "1234"),
        ("en", "{{ k * 2 }} {{ '%.1f' | format(k) }}", "2,469.5 1234.8"),
        ("", "{{ k * 2 }} {{ '%.1f' | format(k) }}", "2469.5 1234.8"),
    ],
)
def test_a_computed_number_is_written_in_the_language(language: str, fixed: str, text: str) -> None:
    assert said(fixed, AMOUNT, 1234.75, language=language) == text


def test_a_list_in_words_is_still_a_list() -> None:
    fixed = "{% for one in k %}{{ loop.index }}{{ one }} {% endfor %}{{ k[0] }}{{ k | join('/') }}"
    assert said(fixed, NAMES, ["a", "b"], language="de") == "1a 2b aa/b"
    assert said("{% if 'b' in k %}{{ k | length }}{% endif %}", NAMES, ["a", "b"]) == "2"


@pytest.mark.parametrize(
    ("fixed", "text"),
    [
        ("", "Preis: 1.234,50\xa0€\nGewicht: 2,5\nExtras: Ei und Speck\n\nStimmt das so?"),
        (
            "{{ '%.2f' | format(price) }} €, {{ weight }} kg, mit {{ extras | join(', ') }}?",
            "1234,50 €, 2,5 kg, mit Ei, Speck?",
        ),
        (
            "{{ price }}, {{ '%.1f' | format(weight) }} kg, {{ extras }}?",
            "1.234,50\xa0€, 2,5 kg, Ei und Speck?",
        ),
        ("{{ price }} und {{ extras }}?", "Gewicht: 2,5\n\n1.234,50\xa0€ und Ei und Speck?"),
    ],
)
def test_values_are_read_back_in_the_language(fixed: str, text: str) -> None:
    keys = {
        "price": {**MONEY, "title": "Preis"},
        "weight": {**AMOUNT, "title": "Gewicht"},
        "extras": {**NAMES, "title": "Extras"},
    }
    states = {
        "a": {"purpose": "?", "transitions": [{"target_state": "b"}]},
        "b": {
            **({"reply": fixed} if fixed else {}),
            "confirms": [*keys],
            "transitions": [{"target_state": "c", "agrees": True}],
        },
        "c": {"kind": "final", "reply": "Danke!"},
    }
    made = machine(states, context_schema={"properties": keys}, language="de")
    values = {"price": 1234.5, "weight": 2.5, "extras": ["Ei", "Speck"]}
    assert talk(made, "los", reply("b", "", **values)).text == text


def test_the_machines_own_sentences_list_in_the_language() -> None:
    asks = {
        "purpose": "Angaben erheben",
        "required_context_keys": ["name", "ort", "tag"],
        "transitions": [{"target_state": "b", "conditions": [{"requires_context_keys": ["tag"]}]}],
    }
    keys = {name: {"type": "string", "title": name.title()} for name in ("name", "ort", "tag")}
    made = machine({"a": asks, "b": {}}, context_schema={"properties": keys}, language="de")
    assert "Name, Ort und Tag." in talk(made, "los", reply("a", "")).text


def test_the_key_list_shows_the_words_of_values() -> None:
    assert key_line("size", SIZE) == 'size (one of "s" (klein),"l" (groß))'
