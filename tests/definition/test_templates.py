import jinja2
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from llm_fsm.definition.templates import FILTERS, TESTS, template_fault
from llm_fsm.turn.fixed_replies import _environment

GOOD = [
    "",
    "Hello.",
    "Hello {name}, 100 % sure }} %}",
    "{{ name }}",
    "{{- name -}}",
    "{{ name | default('a }} b') }}",
    "{{ {'a': {'b': [1, (2)]}}['a'] }}",
    "{{ 'it\\'s' ~ \"x\" }}",
    "{% if a %}x{% elif b %}y{% else %}z{% endif %}",
    "{% for a in b %}{{ a }}{% endfor %}",
    "{%- set x = 1 -%}{{ x }}",
    "{# a {{ comment #}x",
    "{% raw %}{{ {% {% endraw %}",
]
BAD = [
    ("{{ name", '"{{" is not closed by "}}"'),
    ("{{ name }", '"}" after "{{" where "}}" was expected'),
    ("a {{ }}", 'nothing stands between "{{" and "}}"'),
    ("{% %}", 'nothing stands between "{%" and "%}"'),
    ("{% if a %}x", '"{% if %}" is not closed by "{% endif %}"'),
    ("{% if a %}{% for b in c %}{% endif %}{% endfor %}", '"{% endif %}" closes nothing'),
    ("{% endif %}", '"{% endif %}" closes nothing'),
    ("{# x", 'a comment "{#" is not closed by "#}"'),
    ("{{ 'x }}", 'a quote after "{{" is not closed'),
    ("{{ f(x }}", '"}" after "{{" where ")" was expected'),
    ("{{ (x", '")" is missing'),
    ("{% raw %}x", '"{% raw %}" is not closed by "{% endraw %}"'),
]


@pytest.mark.parametrize("text", GOOD)
def test_what_jinja_accepts_is_not_refused(text):
    jinja2.Environment().parse(text)
    assert template_fault(text) is None


@pytest.mark.parametrize(("text", "fault"), BAD)
def test_what_is_not_closed_is_named(text, fault):
    with pytest.raises(jinja2.TemplateSyntaxError):
        jinja2.Environment().parse(text)
    assert template_fault(text) == fault


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
    " endif ",
    "-",
    "\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_nothing_is_refused_that_jinja_accepts(text):
    assume(not text.rstrip("-+\n").endswith("{#"))  # Jinja takes an opened comment at the very end for text.
    if template_fault(text) is not None:
        with pytest.raises(jinja2.TemplateSyntaxError):
            jinja2.Environment().parse(text)


def test_known_filters_and_tests_are_those_that_replies_are_compiled_with() -> None:
    environment = _environment()
    assert set(environment.filters) == FILTERS
    assert {name for name in environment.tests if name.isidentifier()} == TESTS


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
