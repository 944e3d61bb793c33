"""The exchanges of a session, and their JSON in prompts."""

from __future__ import annotations

import json
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._text import escaped, estimate
from llm_fsm.session.window import Exchange, Window, in_prompt, longer, most_chars, shorter, tokens_in

exchanges = st.lists(st.tuples(st.none() | st.text(), st.text()), max_size=6)


def _grown(said: list[Exchange], start: tuple[Exchange, ...] = ()) -> tuple[Exchange, ...]:
    """A window that was shown in every turn."""

    def turn(window: tuple[Exchange, ...], exchange: Exchange) -> tuple[Exchange, ...]:
        in_prompt(window)
        return longer(window, exchange)

    return reduce(turn, said, start)


def test_a_window_is_shown_as_who_said_what() -> None:
    assert in_prompt(()) == ""
    assert in_prompt(((None, "Hi"), ("a <b>", "c"))) == '[{"system":"Hi"},{"user":"a \\u003cb\\u003e"},{"system":"c"}]'


@given(exchanges, exchanges)
def test_no_window_has_more_characters_than_are_told(before: list[Exchange], said: list[Exchange]) -> None:
    window = _grown(said, tuple(before))
    chars = sum(len(user or "") + len(system) for user, system in window)
    assert most_chars(tuple(window)) == chars <= most_chars(window)


@given(exchanges, exchanges)
def test_what_is_added_turn_by_turn_is_shown_as_if_it_were_written_anew(
    before: list[Exchange], said: list[Exchange]
) -> None:
    window = _grown(said, tuple(before))
    assert in_prompt(window) == in_prompt(tuple(window)) == in_prompt(window)
    assert in_prompt(window[1:]) == in_prompt(tuple(window)[1:])


def test_a_turn_writes_no_more_than_what_it_adds() -> None:
    window = _grown([("a", "b"), ("c", "d")])
    assert isinstance(window, Window)
    window.begun = '[{"system":"as it was written"}]'
    assert in_prompt(window) == '[{"system":"as it was written"},{"user":"c"},{"system":"d"}]'


@given(exchanges, exchanges)
def test_tokens_are_those_of_each_exchange_and_are_estimated_once(before: list[Exchange], said: list[Exchange]) -> None:
    window = reduce(longer, said, tuple(before))
    known = tokens_in(window)
    assert known == tuple(estimate(user or "") + estimate(system) + 12 for user, system in window)
    assert tokens_in(longer(window, ("a", "b"))) == (*known, 14)
    if isinstance(window, Window):
        window.tokens = (7,) * len(window)
        assert tokens_in(longer(window, ("a", "b"))) == (*(7,) * len(window), 14)


@given(exchanges, st.integers(0, 3))
def test_what_is_left_of_a_window_is_shown_and_counted_as_if_it_were_all(said: list[Exchange], dropped: int) -> None:
    window = _grown(said)
    tokens_in(window)
    left = shorter(window, dropped)
    assert (left, tokens_in(left)) == (tuple(said[dropped:]), tokens_in(tuple(said[dropped:])))
    assert in_prompt(left) == in_prompt(said[dropped:])


@given(exchanges)
def test_a_window_is_the_same_value_whether_it_was_shown_or_not(said: list[Exchange]) -> None:
    window = _grown(said)
    assert window == tuple(said)
    assert hash(window) == hash(tuple(said))
    assert escaped(window) == escaped(said)
    assert json.dumps(window) == json.dumps(said)
