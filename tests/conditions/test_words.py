"""Rules in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.conditions.words import in_words

AGE = {"var": "age"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({">=": [AGE, 18]}, "age is at least 18"),
        ({"<": [AGE, 18]}, "age is less than 18"),
        ({"<=": [1, AGE, 10]}, "1 is at most age and age is at most 10"),
        ({"==": [{"var": "agreed"}, True]}, "agreed is true"),
        ({"!==": [{"var": "user.city"}, "Oslo"]}, 'user.city is not "Oslo"'),
        ({"!=": [AGE, None]}, "age is known"),
        ({"==": [AGE, None]}, "age is not known"),
        ({"has_context": "age"}, "age is known"),
        ({"!": {"has_context": ["age"]}}, "age is not known"),
        ({"!": [{"==": [AGE, 1]}]}, "age is not 1"),
        ({"in": [{"var": "size"}, ["s", "m"]]}, 'size is one of "s", "m"'),
        ({"!": {"in": [{"var": "size"}, ["s", "m"]]}}, 'size is none of "s", "m"'),
        ({"in": ["a", {"var": "word"}]}, '"a" is in word'),
        ({"!": {"var": "x"}}, "not x"),
        ({"!": {"or": [{"var": "x"}, {"var": "y"}]}}, "not (x or y)"),
        ({"!!": {"var": "x"}}, "x"),
        ({"and": [{"has_context": "a"}, {"!=": [{"var": "b"}, None]}, {">": [AGE, 1]}]},
         "a and b are known and age is more than 1"),
        ({"or": [{"and": [{"var": "a"}, {"var": "b"}]}, {"var": "c"}]}, "(a and b) or c"),
        ({"cat": [AGE, "x"]}, 'cat(age, "x")'),
        (True, "true"),
    ],
)  # fmt: skip
def test_a_rule_in_words(rule: Any, words: str) -> None:
    assert in_words(rule) == words


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["and", "or", "!", "in", "==", "!=", "<", "var", "if", "x"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_stands_there_can_be_said(rule: Any) -> None:
    assert isinstance(in_words(rule), str)
