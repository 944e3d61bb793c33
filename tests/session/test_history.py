"""Which exchanges are shown: blocks, and a token budget that is the harder bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._text import estimate
from llm_fsm.definition.models import HistorySettings
from llm_fsm.session.history import in_prompt, surplus


def window(*sizes: int) -> tuple[tuple[str | None, str], ...]:
    return tuple(("u" * size, "s" * size) for size in sizes)


def taken(exchanges: list[tuple[str | None, str]]) -> int:
    return sum(estimate(user or "") + estimate(system) + 12 for user, system in exchanges)


def test_a_prompt_shows_who_said_what() -> None:
    assert in_prompt(()) == ""
    assert in_prompt(((None, "Hi"), ("a <b>", "c"))) == '[{"system":"Hi"},{"user":"a \\u003cb\\u003e"},{"system":"c"}]'


@pytest.mark.parametrize(("count", "dropped"), [(0, 0), (5, 0), (10, 0), (11, 6), (12, 7)])
def test_the_window_is_cut_in_one_block_when_it_is_twice_as_long(count: int, dropped: int) -> None:
    assert surplus(window(*[4] * count), HistorySettings()) == dropped


@pytest.mark.parametrize(("count", "dropped"), [(7, 0), (8, 3), (10, 5), (11, 6)])
def test_where_no_cache_serves_the_history_half_a_block_is_cut(count: int, dropped: int) -> None:
    assert surplus(window(*[4] * count), HistorySettings(), afresh=True) == dropped


def test_the_token_budget_cuts_to_the_block_and_below_it_if_it_must() -> None:
    assert surplus(window(*[1000] * 8), HistorySettings(max_tokens=3000)) == 3
    assert surplus(window(*[1000] * 8), HistorySettings(max_tokens=1200)) == 6
    assert surplus(window(10_000), HistorySettings(max_tokens=100)) == 1


@pytest.mark.parametrize(("tokens", "kept", "most_cuts"), [(650, {3, 4}, 30), (1000, {2, 3}, 30), (1400, {2}, 60)])
def test_where_the_block_does_not_fit_the_history_is_cut_every_other_turn_but_for_the_last_two_exchanges(
    tokens: int, kept: set[int], most_cuts: int
) -> None:
    shown, lengths, cuts = window(), set(), 0
    for turn in range(60):
        shown += window(2 * tokens - 24)
        dropped = surplus(shown, HistorySettings(max_tokens=3000))
        shown, cuts = shown[dropped:], cuts + bool(dropped)
        lengths |= {len(shown)} if turn > 10 else set()
    assert lengths == kept
    assert cuts <= most_cuts


def test_no_exchanges_means_none() -> None:
    assert surplus(window(1), HistorySettings(max_exchanges=0)) == 1


@given(st.lists(st.integers(0, 2000), max_size=30), st.integers(0, 6), st.integers(1, 4000))
def test_what_is_kept_fits_and_is_never_cut_without_need(sizes: list[int], most: int, tokens: int) -> None:
    settings = HistorySettings(max_exchanges=most, max_tokens=tokens)
    shown = window(*sizes)
    kept = shown[surplus(shown, settings) :]
    assert len(kept) <= 2 * most
    assert taken(kept) <= tokens
    assert kept == shown or len(shown) > 2 * most or taken(shown) > tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word", 1), ("hello world", 3), ("日本語", 3), ("привет", 3), ("Größe", 2), ("한국 ｱｲ", 5)],
)
def test_tokens_are_estimated_by_script(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@given(st.text(st.characters() | st.sampled_from("aéд'’世가ｱ😀\ud800")))
def test_tokens_are_those_of_each_character_of_a_script(text: str) -> None:
    wide = sum(
        any(low <= ord(char) <= high for low, high in ((0x1100, 0x11FF), (0x2E00, 0x9FFF), (0xAC00, 0xD7FF)))
        or any(low <= ord(char) <= high for low, high in ((0xF900, 0xFAFF), (0xFF00, 0xFFFF)))
        for char in text
    )
    plain = sum(char.isascii() for char in text)
    assert estimate(text) == -(-plain // 4) + wide + -(-(len(text) - plain - wide) // 2)
