"""Templates as words and blanks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment, StrictUndefined
from jinja2.meta import find_undeclared_variables

from llm_fsm.engine.bundled import prompt_sources
from llm_fsm.turn.prompt.blanks import Blanks

_ENVIRONMENT = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
_SOURCE = prompt_sources()["turn"]
_TURN, _BLANKS = _ENVIRONMENT.from_string(_SOURCE), Blanks(_ENVIRONMENT, _SOURCE)
_NAMES = sorted(find_undeclared_variables(_ENVIRONMENT.parse(_SOURCE)))
_TEXTS = st.text(min_size=1) | st.sampled_from(("\0", "\0state\0", "{{ now }}", "state"))


@given(st.dictionaries(st.sampled_from(_NAMES), _TEXTS))
def test_the_user_message_is_what_its_template_renders(values: dict[str, str]) -> None:
    assert _BLANKS.filled(values) == _TURN.render(dict.fromkeys(_NAMES, "") | values)


@pytest.mark.parametrize(
    ("values", "text"),
    [({}, "-."), ({"a": "x"}, "x-."), ({"b": "y"}, "-.y, y"), ({"b": "y", "a": "x"}, "x-.y, y")],
)
def test_the_words_between_blanks_hang_on_what_is_given(values: dict[str, str], text: str) -> None:
    blanks = Blanks(_ENVIRONMENT, "{{ a }}-.{% if b %}{{ b }}, {{ b }}{% endif %}")
    assert [blanks.filled(values), blanks.filled(values)] == [text, text]
