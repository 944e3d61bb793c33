"""Rules about fixed words: replies that fail, say nothing, or are not filled in, and good ones that look alike."""

from __future__ import annotations

from typing import Any

import pytest

from lint_cases import Written, briefly, found_by, machine, to, when
from llm_fsm import check

SCHEMA = {
    "size": {"type": "string", "enum": ["small", "large"]},
    "qty": {"type": "integer", "minimum": 1},
    "town": {"type": "object", "properties": {"name": {"type": "string"}}},
    "tags": {"type": "array", "items": {"type": "string"}},
    "day": {"type": "string", "format": "date"},
}
REPLY = "/states/b/reply"


def reply(text: Any, schema: Any = SCHEMA, **more: Any) -> Written:
    """A machine that collects everything and then says a fixed reply."""
    known = list(SCHEMA)
    moves = [to("b", when(None, *known))]
    states = {"a": {"purpose": "x", "required_context_keys": known, "transitions": moves}}
    return machine({**states, "b": {"kind": "final", "reply": text}}, schema, **more)


FAILING = [
    ("{% include 'x' %}", "other templates"),
    ("{% extends 'x' %}", "other templates"),
    ("{% for i in range(3) %}{{ i }}{% endfor %}", "'range'"),
    ("{{ 'n' + qty }}", "~ joins them"),
    ("{{ qty + size }}", "~ joins them"),
    ("{{ 9**9**9 }}", "no number, or too large"),
    ("{{ 'a' * 3 }}", "no number, or too large"),
    ("{{ '%d' % size }}", "a real number is required"),
    ("{{ '{:d}'.format(size) }}", "Unknown format code"),
    ("{{ '{:999999999}'.format(qty) }}", "widths of two digits"),
    ("{{ size() }}", "'size'"),
    ("{{ qty / 0 }}", "division by zero"),
    ("Please call us: {{ 'a' + 1 }}", "~ joins them"),
    ("{{ qty > 'a' }}", "not supported"),
    ("{{ qty | length }}", "has no len()"),
]


@pytest.mark.parametrize(("text", "why"), FAILING)
def test_a_reply_that_always_fails_is_an_error(text: str, why: str) -> None:
    [found] = found_by("reply-fails", reply(text))
    assert (found.level, found.pointer) == ("error", REPLY)
    assert why in found.message


def test_a_reply_that_fails_with_one_of_the_values_is_a_warning() -> None:
    [found] = found_by("reply-fails", reply("{{ {'small': 8}[size] * qty }} euros"))
    assert found.level == "warning"
    assert "when size is 'large': it computes" in found.message


@pytest.mark.parametrize(
    "text", ["{# todo #}", "{% if false %}x{% endif %}", "{{ '' }}", "{{ none }}", "  ", ["", " "]]
)
def test_a_reply_that_says_nothing_is_found(text: Any) -> None:
    assert briefly(found_by("empty-reply", reply(text))) == [("warning", REPLY)]


GOOD = [
    "Good.",
    "{{ qty }} of {{ size }} to {{ town.name }}, {{ tags | join(', ') }}, {{ day | upper }}",
    "{{ 'n' ~ qty }}",
    "{{ {'small': 8, 'large': 9}[size] * qty }}",
    "{% for tag in tags %}{{ loop.index }}. {{ tag }}{% else %}none{% endfor %}",
    "{% for key, value in town.items() %}{{ key }}: {{ value }}{% endfor %}",
    "{% set total = qty * 2 %}{{ total }}",
    "{{ day.split('-')[0] }}",
    "{{ size.upper() }} {{ (qty / 2) | round(1) }}",
    "{% if qty > 3 and size == 'large' %}much{% endif %}",
    "{% if _turn > 3 %}x{% endif %}",
    "Size in {braces of text}, 100 % and $ 5, <b>bold</b>, [see there]",
    "{{ '{' }}size{{ '}' }}",
    "<size>{{ size }}</size>",
    "Use [brackets] and <angles>.",
]


@pytest.mark.parametrize("text", GOOD)
@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["declared", "undeclared"])
def test_good_replies_are_not_found(text: str, schema: Any) -> None:
    names = {"reply-fails", "empty-reply", "unfilled-placeholder", "reply-is-data", "bad-template"}
    assert not [found for found in check(reply(text, schema)) if found.name in names]


@pytest.mark.parametrize(
    "text",
    ["{size}", "{ size }", "${size}", "$size", "%(size)s", "<size>", "[size]", "{customer_name}", "#{name}"],
)
def test_placeholders_of_other_notations_are_found(text: str) -> None:
    [found] = found_by("unfilled-placeholder", reply(f"A {text} one."))
    assert (found.level, found.pointer) == ("warning", REPLY)
    assert found.hint is not None
    assert found.hint.startswith('write "{{ ')


def test_words_for_failures_are_never_filled_in() -> None:
    document = reply("Fine.", model={"on_failure": "Sorry, {{ size }}"})
    assert briefly(found_by("unfilled-placeholder", document)) == [("warning", "/model/on_failure")]
    assert found_by("unfilled-placeholder", reply("Fine.", model={"on_failure": "Sorry."})) == []


@pytest.mark.parametrize(
    "text",
    [
        "{{ user.email.lower() }}",
        "{{ user['email'].lower() }}",
        "{{ order.qty * order.price }}",
        "{{ rows[0].price + rows[1].price }}",
        "{{ town.name.upper() }} {{ loose.size * 2 }}",
        "{{ a - b }} {{ c + 'x' }}",
    ],
)
@pytest.mark.parametrize(
    "schema", [{**SCHEMA, "loose": {"type": "object"}, "order": {"type": "object"}}, None]
)
def test_what_depends_on_values_that_no_schema_describes_is_not_found(text: str, schema: Any) -> None:
    assert found_by("reply-fails", reply(text, schema)) == []
    assert found_by("empty-reply", reply(text, schema)) == []


@pytest.mark.parametrize("text", ['{"message": "Hi"}', '{"size": "{{ size }}"}', '["a", "b"]'])
def test_a_reply_of_json_is_found(text: str) -> None:
    assert briefly(found_by("reply-is-data", reply(text))) == [("warning", REPLY)]


def test_what_is_hidden_from_replies_is_found() -> None:
    [found] = found_by("unknown-key-in-reply", reply("It is {{ size.__class__ }}."))
    assert "not open to replies" in found.message


@pytest.mark.parametrize(
    "text", ["{% if size = 'm' %}x{% endif %}", "{{ size ? 'a' : 'b' }}", "{% do size %}"]
)
def test_what_the_template_engine_refuses_is_refused_when_checking(text: str) -> None:
    assert briefly(found_by("bad-template", reply(text))) == [("error", REPLY)]


@pytest.mark.parametrize(
    "text", ["{{ size|wordwrap(qty / 0) }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"]
)
def test_what_could_take_long_is_not_tried(text: str) -> None:
    assert found_by("reply-fails", reply(text)) == []


@pytest.mark.parametrize("text", ["{{ 'x'.ljust(999999999) }}", "{{ '7'.zfill(999999999) }}"])
def test_repetition_is_closed_to_replies(text: str) -> None:
    assert briefly(found_by("reply-fails", reply(text))) == [("error", REPLY)]


@pytest.mark.parametrize("text", ["{{ [1] | batch(999999999, 2) | list }}", "{{ 'x' | center(999999999) }}"])
def test_filters_that_repeat_are_unknown(text: str) -> None:
    assert briefly(found_by("bad-template", reply(text))) == [("error", REPLY)]
