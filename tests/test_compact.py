"""Compact JSON is what the standard library writes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm.compact import in_ascii, in_unicode, value_of

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
    for text in (in_ascii(value), in_unicode(value)):
        assert json.dumps(json.loads(text)) == said


@settings(max_examples=60)
@given(_VALUES)
def test_what_was_written_is_read_as_the_standard_library_reads_it(value: object) -> None:
    text = in_unicode(value)
    assert json.dumps(value_of(text)) == json.dumps(json.loads(text))


@settings(max_examples=60)
@given(st.recursive(st.text() | st.booleans() | st.integers(), lambda inner: st.dictionaries(st.text(), inner)))
def test_it_writes_what_the_standard_library_writes_but_for_some_floats(value: object) -> None:
    assert in_ascii(value) == in_ascii(value, escapes=True) == json.dumps(value, separators=(",", ":"))
    assert in_unicode(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("value", ["\x7f", "é\x7f", "é\\x41", "😀\\U0001f600", "\\\\xe9é", "né 日本 😀 \U0010ffff"])
def test_what_looks_like_an_escape_stays_what_it_is(value: str) -> None:
    assert in_ascii([value]) == json.dumps([value])


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["😀", "\ud83d"]])
def test_halves_of_surrogate_pairs_are_kept(value: object) -> None:
    assert in_unicode(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert value_of(in_unicode(value)) == value
    assert in_ascii(value) == json.dumps(value, separators=(",", ":"))


def test_a_value_that_is_very_deep_is_written() -> None:
    deep: list[object] = []
    for _ in range(400):
        deep = [deep]
    assert in_ascii(deep) == "[" * 401 + "]" * 401
    assert value_of(in_unicode(deep)) == deep


@pytest.mark.parametrize("write", [in_ascii, in_unicode])
def test_what_is_no_json_is_an_error(write: Callable[[object], str]) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        write({"key": object()})


@pytest.mark.parametrize("write", [in_ascii, in_unicode])
def test_a_circle_ends_in_an_error(write: Callable[[object], str]) -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(RecursionError):
        write(circle)
