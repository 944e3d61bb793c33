"""Compact JSON is what the standard library writes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm.compact import in_ascii, in_unicode

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=60)
@given(_VALUES)
def test_it_writes_what_the_standard_library_writes(value: object) -> None:
    assert in_ascii(value) == json.dumps(value, separators=(",", ":"))
    assert in_unicode(value) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("write", [in_ascii, in_unicode])
def test_what_is_no_json_is_an_error(write: Callable[[object], str]) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        write({"key": {1, 2}})


@pytest.mark.parametrize("write", [in_ascii, in_unicode])
def test_a_circle_ends_in_an_error(write: Callable[[object], str]) -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(RecursionError):
        write(circle)
