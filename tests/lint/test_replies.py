"""Rules about fixed words: replies that fail, say nothing, or are not filled in, and good ones that
look alike.
"""

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
    ("{{ 'n' + qty }}", "write {{ a }}{{ b }}"),
    ("{{ qty + size }}", "write {{ a }}{{ b }}"),
    ("{{ '%d' | format(size) }}", "a real number is required"),
    ("Please call us: {{ 'a' + 1 }}", "write {{ a }}{{ b }}"),
    ("{{ qty > 'a' }}", "not supported"),
    ("{{ qty | length }}", "has no len()"),
    ("{{ size | join(', ') }}", "a list is needed, not the text"),
    ("{% for letter in size %}{{ letter }}{% endfor %}", "a list is needed, not the text"),
    ("{{ tags | sum }}", "a sum needs numbers"),
]


@pytest.mark.parametrize(("text", "why"), FAILING)
def test_a_reply_that_always_fails_is_an_error(text: str, why: str) -> None:
    [found] = found_by("reply-fails", reply(text))
    assert (found.level, found.pointer) == ("error", REPLY)
    assert why in found.message


def test_a_reply_that_fails_with_one_of_the_values_is_a_warning() -> None:
    [found] = found_by("reply-fails", reply("{{ {'small': 8}[size] + qty }} euros"))
    assert found.level == "warning"
    assert "when size is 'large': it computes with a part" in found.message


@pytest.mark.parametrize(
    "text", ["{# todo #}", "{% if false %}x{% endif %}", "{{ '' }}", "{{ none }}", "  ", ["", " "]]
)
def test_a_reply_that_says_nothing_is_found(text: Any) -> None:
    assert briefly(found_by("empty-reply", reply(text))) == [("warning", REPLY)]


GOOD = [
    "Good.",
    "{{ qty }} of {{ size }} to {{ town.name }}, {{ tags | join(', ') }}, {{ day | upper }}",
    "n{{ qty }}",
    "{{ {'small': 8, 'large': 9}[size] + qty }}",
    "{% for tag in tags %}{{ loop.index }}. {{ tag }}{% else %}none{% endfor %}",
    "{% for key in town %}{{ key }}: {{ town[key] }}{% endfor %}",
    "{{ size | upper }} {{ (qty + 0.5) | round(1) }}",
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
    [
        "{size}",
        "{ size }",
        "${size}",
        "$size",
        "%(size)s",
        "<size>",
        "[size]",
        "{customer_name}",
        "#{name}",
    ],
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
        "{{ user.email | lower }}",
        "{{ user['email'] | lower }}",
        "{{ order.qty + order.price }}",
        "{{ rows[0].price + rows[1].price }}",
        "{{ town.name | upper }} {{ loose.size + 2 }}",
        "{{ a - b }} {{ c + 'x' }}",
    ],
)
@pytest.mark.parametrize(
    "schema", [{**SCHEMA, "loose": {"type": "object"}, "order": {"type": "object"}}, None]
)
def test_what_depends_on_values_that_no_schema_describes_is_not_found(
    text: str, schema: Any
) -> None:
    assert found_by("reply-fails", reply(text, schema)) == []
    assert found_by("empty-reply", reply(text, schema)) == []


@pytest.mark.parametrize("text", ['{"message": "Hi"}', '{"size": "{{ size }}"}', '["a", "b"]'])
def test_a_reply_of_json_is_found(text: str) -> None:
    assert briefly(found_by("reply-is-data", reply(text))) == [("warning", REPLY)]


def test_what_is_hidden_from_replies_is_found() -> None:
    [found] = found_by("unknown-key-in-reply", reply("It is {{ size.__class__ }}."))
    assert "not open to replies" in found.message


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{% if size = 'm' %}x{% endif %}",
            "{{ size ? 'a' : 'b' }}",
            "{% do size %}",
            "{% include 'x' %}",
        ),
        *(
            "{{ size.upper() }}",
            "{{ qty ** 2 }}",
            "{{ 'a' ~ size }}",
            "{% set a = 1 %}",
            "{{ '%d' % qty }}",
        ),
        *(
            "{{ 'x'.ljust(999999999) }}",
            "{{ 'x' | center(999999999) }}",
            "{{ 9**9**9 }}",
            "{{ size | currency }}",
        ),
    ],
)
def test_what_is_not_in_the_language_is_an_error_that_shows_the_language(text: str) -> None:
    [found] = found_by("bad-template", reply(text))
    assert (found.level, found.pointer) == ("error", REPLY)
    assert (found.hint or "").startswith("a fixed reply has {{ }}, if, for")


PRICED = {"type": "object", "properties": {"name": {"type": "string"}, "price": {"type": "number"}}}


@pytest.mark.parametrize(
    ("text", "required", "levels"),
    [
        ("{{ items | sum('price') }} euros", [], ["warning"]),
        ("{% for item in items %}{{ item.price + 1 }}{% endfor %}", [], ["warning"]),
        ("{{ items | sum('price') }} euros", ["price"], []),
        (
            "{% for item in items %}{% if item.price %}{{ item.price + 1 }}{% endif %}{% endfor %}",
            [],
            [],
        ),
        ("{% for item in items %}{{ item.price }}{% endfor %}", [], []),
    ],
)
def test_a_part_that_may_be_missing_is_tried(
    text: str, required: list[str], levels: list[str]
) -> None:
    schema = {**SCHEMA, "items": {"type": "array", "items": {**PRICED, "required": required}}}
    assert [found.level for found in found_by("reply-fails", reply(text, schema))] == levels
