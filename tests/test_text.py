"""Which of several names a word was probably meant to be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._text import nearest, without_keys


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        ("gret", ["greet", "goodbye"], "greet"),
        ("GREET", ["goodbye", "greet"], "greet"),
        ("Greet", ["GREET", "Greet", "greet"], "Greet"),
        (
            "requried_context_keys",
            ["required_context_keys", "transitions"],
            "required_context_keys",
        ),
        ("=", ["==", "===", "!="], "=="),
        ("collect_nmae", ["collect_email", "collect_name"], "collect_name"),
        ("zebra", ["greet", "goodbye"], None),
        ("", ["greet"], None),
        ("greet", [], None),
        ("g" * 100_000, ["g" * 100_000], None),
        ("same", ["sane", "some"], "sane"),
    ],
)
def test_nearest_finds_what_was_meant(word, candidates, expected):
    assert nearest(word, candidates) == expected


@given(st.text(max_size=200), st.lists(st.text(max_size=20), max_size=5))
def test_nearest_answers_with_a_candidate_or_none(word, candidates):
    assert nearest(word, candidates) in [*candidates, None]


@given(st.text(min_size=1, max_size=200), st.lists(st.text(max_size=20), max_size=5))
def test_a_word_is_nearest_to_itself(word, candidates):
    assert nearest(word, [*candidates, word]) == word


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("e", "refused: the key e is wrong"),
        ("", "refused: the key  is wrong"),
        ("sk-0123456789abcdef", "refused: the key *** is wrong"),
    ],
)
def test_a_key_is_hidden_and_a_key_of_one_letter_eats_no_letters(key, shown):
    assert without_keys(f"refused: the key {key} is wrong", key) == shown
