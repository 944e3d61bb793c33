"""The testing kit: playing conversations and saying what is expected."""

from __future__ import annotations

import pytest

from llm_fsm.testing import expect, play, reply
from machines import GREETER


def test_play_gives_every_turn_and_what_the_model_was_asked() -> None:
    played = play(
        GREETER,
        ["hi", "I'm Ada"],
        replies=[
            reply("hello", "Welcome"),
            reply("hello", "Name?"),
            reply("bye", "Bye Ada", name="Ada"),
        ],
        greet=True,
    )
    assert (played.greeting, played.texts, played.states) == (
        "Welcome",
        ["Name?", "Bye Ada"],
        ["hello", "bye"],
    )
    assert (played.context, played.ended, len(played.requests)) == ({"name": "Ada"}, True, 3)
    expect(
        played.turns[1],
        state="bye",
        moved=True,
        text="Ada",
        context={"name": "Ada"},
        calls=1,
        ended=True,
    )


def test_replies_that_were_never_asked_for_are_a_failure() -> None:
    with pytest.raises(AssertionError, match="1 of 2 scripted replies"):
        play(GREETER, ["hi"], replies=[reply("hello"), reply("hello")])


def test_expect_lists_everything_that_is_otherwise() -> None:
    turn = play(GREETER, ["hi"], replies=[reply("hello", "Name?")]).turns[0]
    with pytest.raises(AssertionError) as caught:
        expect(
            turn, state="bye", moved=True, text="Bye", context={"name": "Ada"}, calls=2, ended=True
        )
    assert str(caught.value) == (
        "turn 1: state is 'hello', not 'bye'; moved is False, not True; calls is 1, not 2; ended is False, not True; "
        "text 'Name?' does not contain 'Bye'; context key 'name' is None, not 'Ada'"
    )
