import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.definition.templates import template_fault

GOOD = [
    "",
    "Hello.",
    "Hello {name}, 100 % sure }} %}",
    "{{ name }}",
    "{{- name -}}",
    "{{ name | default('a }} b') }}",
    "{{ {'a': {'b': [1, (2)]}}['a'] }}",
    "{{ 'it\\'s' + \"x\" }}",
    "{% if a %}x{% elif b %}y{% else %}z{% endif %}",
    "{% for a in b %}{{ a }}{% endfor %}",
    "{%- if x -%}{{ x }}{%- endif -%}",
    "{# a {{ comment #}x",
    "{% raw %}{{ {% {% endraw %}",
]
BAD = [
    ("{{ name", 'unexpected end of template, expected "}}"'),
    ("{{ name }", "unexpected '}'"),
    ("a {{ }}", 'Expected an expression, got "}}"'),
    ("{% %}", "tag name expected"),
    ("{% if a %}x", "Unexpected end of template. Jinja was looking for the following tags: 'elif'"),
    (
        "{% if a %}{% for b in c %}{% endif %}{% endfor %}",
        "Encountered unknown tag 'endif'. You probably",
    ),
    ("{% endif %}", "Encountered unknown tag 'endif'"),
    ("{% if a %}x{% else %}y{% else %}z{% endif %}", "Encountered unknown tag 'else'"),
    ("{% if a %}x{% else %}y{% elif b %}z{% endif %}", "Encountered unknown tag 'elif'"),
    ("{{{ b }}", "expected token ':', got '}'"),
    ("{# x", "Missing end of comment tag"),
    ("{{ 'x }}", "a quote is not closed"),
    ('{{ "x }}', "a quote is not closed"),
    ("{{ f(x }}", "unexpected '}', expected ')'"),
    ("{{ (x", "unexpected end of template, expected ')'"),
    ("{% raw %}x", "Missing end of raw directive"),
]


@pytest.mark.parametrize("text", GOOD)
def test_what_jinja_accepts_is_not_refused(text):
    jinja2.Environment().parse(text)
    assert template_fault(text) is None


@pytest.mark.parametrize(("text", "fault"), BAD)
def test_the_parser_of_jinja_says_what_is_wrong(text, fault):
    with pytest.raises(jinja2.TemplateSyntaxError):
        jinja2.Environment().parse(text)
    assert (template_fault(text) or "").startswith(fault)


PIECES = [
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    " a ",
    "'",
    '"',
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    " if b ",
    "{% if b %}",
    "{% elif c == 1 %}",
    "{% else %}",
    "{% endif %}",
    "{{ b }}",
    "-",
    "\n",
]


SYNTAX = (
    "unexpected",
    "Unexpected",
    "expected",
    "Expected",
    "Encountered",
    "Missing",
    "tag name",
    "a quote",
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_what_jinja_refuses_is_refused_and_no_more_syntax_than_that(text):
    try:
        jinja2.Environment().parse(text)
    except jinja2.TemplateSyntaxError:
        assert template_fault(text) is not None
    else:
        assert not (template_fault(text) or "").startswith(SYNTAX)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{{ qty | currency }}", 'there is no filter "currency"'),
        ("{% if qty is prime %}x{% endif %}", 'there is no test "prime"'),
        ("{{ 'a | b is c' | upper }}{% if qty is not none %}x{% endif %}", None),
    ],
)
def test_names_that_jinja_does_not_know_are_faults(text: str, fault: str | None) -> None:
    assert template_fault(text) == fault
