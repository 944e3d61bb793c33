"""Words of several calls in one turn: what a call repeats is read once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.turn.repetition import continues, may_repeat, repeats, without_repetition
from llm_fsm.turn.turn_state import Part, texts_of

FIRST = "One moment, please."


@pytest.mark.parametrize(
    ("second", "read"),
    [
        (FIRST, (FIRST,)),
        ("ONE MOMENT, PLEASE!", (FIRST,)),
        ("one  moment\nplease", (FIRST,)),
        ("„One moment, please …“", (FIRST,)),
        ("please", (FIRST,)),
        (f"{FIRST} It is done.", (f"{FIRST} It is done.",)),
        ("One moment please: it is done.", ("One moment please: it is done.",)),
        ("It is done.", (FIRST, "It is done.")),
        ("One moment, pleased to help.", (FIRST, "One moment, pleased to help.")),
        ("lease", (FIRST, "lease")),
        ("👍", (FIRST, "👍")),
    ],
)
def test_what_a_second_call_repeats_is_read_once(second: str, read: tuple[str, ...]) -> None:
    assert texts_of((Part("model", FIRST), Part("model", second))) == read


@pytest.mark.parametrize(
    ("first", "second"),
    [("It is 5 °C", "It is -5 °C"), ("That is 10.5", "That is 105"), ("की", "का"), ("C", "C++")],
)
def test_texts_of_another_meaning_are_no_repetition(first: str, second: str) -> None:
    assert texts_of((Part("model", first), Part("model", second))) == (first, second)


def test_words_that_repeat_all_that_was_said_are_read_once() -> None:
    said = (Part("fixed", "Noted: 5 guests."), Part("model", "A table by the window?"))
    read = texts_of(said)
    assert texts_of((*said, Part("model", "Noted: 5 guests. A table by the window?"))) == read
    whole = "Noted: 5 guests. A table by the window? Or outside?"
    assert texts_of((*said, Part("model", whole))) == (whole,)


def test_a_text_of_the_definition_is_said_as_it_is() -> None:
    assert texts_of((Part("model", "booked"), Part("fixed", "Booked."))) == ("booked", "Booked.")


TEXTS = st.text(st.sampled_from("aAß1 .,?é何-"), max_size=12)


@given(TEXTS, TEXTS)
def test_no_word_is_lost_and_what_repeats_arrives_as_a_repetition(first: str, second: str) -> None:
    read = " ".join(without_repetition((first,), second))
    assert repeats(read, second) or continues(second, read) or second in read
    if repeats(first, second):
        assert all(may_repeat(first, second[:length]) for length in range(len(second)))
