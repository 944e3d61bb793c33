"""The language of fixed replies: small, bounded, and blind to Python."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.definition.reply_template import MAX_CHARS, WordingError, compile_reply, template_fault
from llm_fsm.definition.templates import FILTERS, TESTS

DATA: dict[str, Any] = {
    "name": "Ada",
    "n": 2,
    "void": None,
    "items": ["a", "b"],
    "rows": [{"at": 1, "in": {"x": "B"}}, {"at": 2, "in": {"x": "a"}}],
    "order": {"items": 3, "keys": "k"},
    "prices": {"s": 8, "l": 12},
    "long": "x" * 16_000,
    "many": ["a"] * 200,
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Hello", "Hello"),
        ("Hello {{ name }}!", "Hello Ada!"),
        ("[{{ nothing }}{{ nothing.at.all }}{{ void }}]", "[]"),
        ("{{ n + 1 }} {{ n - 0.5 }} {{ -n }} {{ name + '!' }}", "3 1.5 -2 Ada!"),
        ("{% if n > 1 and not nothing %}many{% elif n == 1 %}one{% else %}none{% endif %}", "many"),
        (
            "{{ 'b' if 'b' in items else 'none' }}{{ 'c' if 'c' in items }}{{ name if n is number }}",
            "bAda",
        ),
        ("<b>{{ name }}</b>", "<b>Ada</b>"),
        ("{# nothing #}{% raw %}{{ n }}{% endraw %}", "{{ n }}"),
        (
            "{{ order.items }} {{ order['keys'] }} {{ prices['l'] }} {{ {'s': 8}['s'] }} {{ items[1] }}",
            "3 k 12 8 b",
        ),
        (
            "[{{ name.upper }}{{ items.append }}{{ order.values }}{{ name.__class__ }}{{ items[9] }}]",
            "[]",
        ),
        ("{% for a in items %}{{ loop.index }}/{{ loop.length }}{{ a }}{% endfor %}", "1/2a2/2b"),
        ("{% for a in nothing %}{{ a }}{% else %}-{% endfor %}", "-"),
        (
            "{% for a in rows if a.at > 1 %}{{ a.at }}{% endfor %}{% for k in order %}{{ k }}{% endfor %}",
            "2itemskeys",
        ),
        ("{% for a, b in [[1, 2], [3, 4]] %}{{ b }}{% endfor %}", "24"),
        ("{{ nothing|default('none') }} {{ void|default('none', true) }}", "none none"),
        (
            "{{ name|upper }} {{ name|lower }} {{ \"it's\"|title }} {{ 'ada'|capitalize }}",
            "ADA ada It's Ada",
        ),
        ("[{{ ' a '|trim }}{{ void|trim }}]", "[a]"),
        (
            "{{ '%.2f'|format(n)|replace('.', ',') }} {{ '%s: %03d %%'|format(name, n) }}",
            "2,00 Ada: 002 %",
        ),
        (
            "{{ items|length }} {{ items|first }} {{ items|last }} {{ name|first }} {{ nothing|first }}",
            "2 a b A",
        ),
        (
            "{{ items|join(', ') }} {{ rows|join('/', attribute='at') }} {{ nothing|join }}",
            "a, b 1/2",
        ),
        (
            "{{ rows|sum('at') }} {{ nothing|sum }} {{ (rows|sort(attribute='in.x')|first).at }}",
            "3 0 2",
        ),
        ("{{ ['b', 'A']|sort|join }} {{ ['b', 'A']|sort(reverse=true)|join }}", "Ab bA"),
        ("{{ {'s': 8, 'l': 12}['l'] * n }} {{ 7 / n }} {{ 7 // n }} {{ 7 % n }}", "24 3.5 3 1"),
        ("{{ '7'|int + 1 }} {{ (n == 2)|int }} {{ 150.26|round(1) }}", "8 1 150.3"),
    ],
)
def test_fixed_replies_are_expressions_over_context(source: str, text: str) -> None:
    assert compile_reply(source).render(DATA) == text


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("{{ a ~ b }}", '"~" is not allowed; write the parts one after the other: {{ a }}{{ b }}'),
        ("{{ '%s' % a }}", "\"%\" after a text is not allowed; write {{ '%.2f' | format(price) }}"),
        ("{{ a ** 2 }}", '"**" is not allowed'),
        ("{{ +a }}", '"+" before one value'),
        ("{{ a() }}", "a call is not allowed; use a filter"),
        ("{{ a.upper() }}", "a call is not allowed"),
        ("{{ range(3) }}", "a call is not allowed"),
        ("{{ loop.cycle('a', 'b') }}", "a call is not allowed"),
        ("{{ a[b.c()] }}", "a call is not allowed"),
        ("{{ a[0:3] }}", "a slice such as [0:3] is not allowed"),
        ("{% set a = 1 %}", '"set" is not allowed'),
        ("{% set a %}x{% endset %}", '"set" is not allowed'),
        ("{% with a = 1 %}{% endwith %}", '"with" is not allowed'),
        ("{% macro a() %}{% endmacro %}", '"macro" is not allowed'),
        ("{% call a() %}{% endcall %}", '"call" is not allowed'),
        ("{% filter upper %}x{% endfilter %}", 'a block of "filter" is not allowed'),
        ("{% include 'x' %}", '"include" is not allowed'),
        ("{% import 'x' as y %}", '"import" is not allowed'),
        ("{% from 'x' import y %}", '"import" is not allowed'),
        ("{% extends 'x' %}", '"extends" is not allowed'),
        ("{% block a %}{% endblock %}", '"block" is not allowed'),
        ("{% autoescape true %}{% endautoescape %}", '"scope" is not allowed'),
        ("{% for a in b recursive %}{% endfor %}", '"recursive" is not allowed'),
        ("{{ self }}", '"self" is no name of a value'),
        ("{{ [a, b]|length }}", "a list or an object in a reply holds texts and numbers only"),
        ("{{ {'a': b}['a'] }}", "a list or an object in a reply holds texts and numbers only"),
        ("{{ a|tojson }}", 'there is no filter "tojson"'),
        ("{% if a %}{{ a|currency }}{% endif %}", 'there is no filter "currency"'),
        ("{{ a is prime }}", 'there is no test "prime"'),
        ("{{ a is number(3) }}", 'the test "number" takes no values'),
        ("{{ a|upper(3) }}", 'the filter "upper" has other values'),
        ("{{ a|join(on=', ') }}", 'the filter "join" has other values'),
        ("{{ a|sum(*b) }}", '"*" before values of a filter is not allowed'),
        ("{{ a|join(b) }}", '"join" takes a text in quotes'),
        (
            "{{ a|join('" + "-" * 101 + "') }}",
            '"join" takes a text in quotes of at most 100 characters',
        ),
        ("{{ a|replace('x', b) }}", '"replace" takes two texts in quotes'),
        ("{{ a|replace('x', 'xx') }}", "the second is not longer than the first"),
        ("{{ a|replace('', '') }}", '"replace" takes two texts in quotes'),
        ("{{ a|format(b) }}", '"format" takes a text in quotes'),
        ("{{ '%999d'|format(a) }}", "widths have at most two digits"),
        ("{{ '%*d'|format(9, a) }}", '"format" takes a text in quotes'),
        ("{{ '%(a)s'|format(a=b) }}", 'the filter "format" has other values'),
        ("{{ '%s %s'|format(a) }}", '"format" needs one value for each place: 2, not 1'),
        ("{{ " + "not " * 2_000 + "a }}", "it is nested too deep"),
        ("{% for a in b %}" * 30 + "{% endfor %}" * 30, "it is nested too deep"),
    ],
)
def test_everything_else_is_refused_when_the_reply_is_read(source: str, fault: str) -> None:
    assert fault in (template_fault(source) or "")
    with pytest.raises(WordingError, match=re.escape(fault)):
        compile_reply(source)


def test_a_fault_names_its_line() -> None:
    assert (template_fault("Hello\n{{ name }}\n{{ a ~ b }}") or "").startswith(
        'line 3: "~" is not allowed'
    )
    assert (template_fault("Hello\n{{ name") or "").startswith("line 2: unexpected end of template")


def test_the_sentence_for_authors_names_every_filter_and_test() -> None:
    sources = [f"{{{{ a is {name} }}}}" for name in TESTS]
    values = {"replace": "('a', 'b')", "format": "()"}
    sources += [f"{{{{ 'a' | {name}{values.get(name, '')} }}}}" for name in FILTERS]
    assert [
        source for source in sources if (template_fault(source) or "").startswith("there is no")
    ] == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ nothing + 1 }}", "'nothing' is undefined"),
        ("{{ n + 'a' }}", "unsupported operand"),
        ("{{ n > 'a' }}", "not supported"),
        ("{{ name * n }}", '*, /, // and % need numbers, not the text "Ada"'),
        ("{{ items * n }}", "*, /, // and % need numbers"),
        ("{{ n * nothing }}", "*, /, // and % need numbers, not nothing"),
        ("{{ n / 0 }}", "division by zero"),
        ("{{ n|length }}", "has no len"),
        ("{{ name|join(', ') }}", 'a list is needed, not the text "Ada"'),
        ("{% for a in name %}{% endfor %}", "a list is needed"),
        ("{{ items|sum }}", 'a sum needs numbers, and item 1 has the text "a"'),
        ("{{ rows|sum('price') }}", 'item 1 has nothing as "price"'),
        ("{{ '%d'|format(name) }}", "a real number is required"),
        ("{{ [1, 'a']|sort }}", "not supported"),
        ("{{ n|round(-999999999999) }}", "a number is rounded to 0 to 15 places"),
        ("{{ n|round(16) }}", "a number is rounded to 0 to 15 places"),
        ("{% for a in many %}{{ long }}{% endfor %}", f"longer than {MAX_CHARS:,} characters"),
        ("{% for a in many %}{% for b in many %}{% endfor %}{% endfor %}", "at most 10,000 items"),
        ("{% for a in many %}{{ many|join|length }}{% endfor %}", "at most 10,000 items"),
        (
            "{% for a in many %}{% if many|sort|first %}{% endif %}{% endfor %}",
            "at most 10,000 items",
        ),
    ],
)
def test_values_that_do_not_fit_are_errors_with_a_reason(source: str, reason: str) -> None:
    with pytest.raises(WordingError, match=re.escape(reason)):
        compile_reply(source).render(DATA)


LEAVES = st.sampled_from(
    ["name", "n", "items", "rows", "long", "order.items", "'xy'", "[1, 2]", "loop.index"]
)
PARTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "==", "in", "and", "or"]), inner).map(" ".join),
        st.tuples(inner, st.sampled_from(sorted({*FILTERS} - {"format", "replace"}))).map(
            " | ".join
        ),
        st.tuples(inner, st.just("join('--')")).map(" | ".join),
        inner.map("({})".format),
    ),
    max_leaves=8,
)
REPLIES = st.recursive(
    PARTS.map("{{{{ {} }}}}".format),
    lambda inner: st.one_of(
        st.tuples(PARTS, inner).map(
            lambda both: "{% for items in " + both[0] + " %}" + both[1] + "{% endfor %}"
        ),
        st.tuples(PARTS, inner).map(
            lambda both: "{% if " + both[0] + " %}" + both[1] + "{% endif %}"
        ),
        st.tuples(inner, inner).map("".join),
    ),
    max_leaves=6,
)


@given(REPLIES)
def test_no_reply_is_longer_than_the_limit_or_breaks_otherwise(source: str) -> None:
    """A reply of the language is refused, or fails for its values, or gives a text of limited
    length.
    """
    try:
        text = compile_reply(source).render(DATA)
    except WordingError:
        return
    assert len(text) <= MAX_CHARS
