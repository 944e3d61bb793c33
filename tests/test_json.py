"""Compact JSON is what the standard library writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from llm_fsm._json import in_unicode, value_of

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=60)
@given(_VALUES)
def test_it_says_what_the_standard_library_says(value: object) -> None:
    said = json.dumps(value)
    assert json.dumps(json.loads(in_unicode(value))) == said


@settings(max_examples=60)
@given(_VALUES)
def test_what_was_written_is_read_as_the_standard_library_reads_it(value: object) -> None:
    text = in_unicode(value)
    assert json.dumps(value_of(text)) == json.dumps(json.loads(text))


@settings(max_examples=60)
@given(
    st.recursive(
        st.text() | st.booleans() | st.integers(), lambda inner: st.dictionaries(st.text(), inner)
    )
)
def test_it_writes_what_the_standard_library_writes_but_for_some_floats(value: object) -> None:
    assert in_unicode(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["😀", "\ud83d"], "né \ud800 日本"])
def test_halves_of_surrogate_pairs_are_escaped_and_nothing_else_is(value: object) -> None:
    text = in_unicode(value)
    assert text.encode().decode() == text
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert text == written.encode("utf-8", "backslashreplace").decode()
    assert value_of(text) == value


def test_a_value_that_is_very_deep_is_written() -> None:
    deep: list[object] = []
    for _ in range(400):
        deep = [deep]
    assert in_unicode(deep) == "[" * 401 + "]" * 401
    assert value_of(in_unicode(deep)) == deep


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        in_unicode({"key": object()})


def test_a_circle_ends_in_an_error() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(RecursionError):
        in_unicode(circle)


def _read(read: Callable[[str | bytes], Any], text: str | bytes) -> str:
    try:
        return repr(read(text))
    except ValueError as error:
        return type(error).__name__


@settings(max_examples=300)
@given(st.text('{}[]",:0123456789.eE+-ntfNaIul \\\t\n\x01é\ud800') | _VALUES.map(json.dumps))
@example('{"a": 1, "a": 2}')
@example("[1e400, -0, -0.0, NaN, -Infinity, 01]")
@example("\ufeff{}")
@example("9" * 5000)
def test_any_text_is_read_or_refused_as_the_standard_library_does(text: str) -> None:
    for written in (
        text,
        text.encode("utf-8", "surrogatepass"),
        text.encode("utf-16", "surrogatepass"),
    ):
        assert _read(value_of, written) == _read(json.loads, written)
