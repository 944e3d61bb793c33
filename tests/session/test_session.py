"""Sessions: which exchanges are shown, and the stored JSON form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._text import estimate
from llm_fsm.definition.models import HistorySettings
from llm_fsm.errors import UnreadableError
from llm_fsm.session.session import Session, dump_session, parse_session, surplus


def window(*sizes: int) -> tuple[tuple[str | None, str], ...]:
    return tuple(("u" * size, "s" * size) for size in sizes)


def taken(exchanges: list[tuple[str | None, str]]) -> int:
    return sum(estimate(user or "") + estimate(system) + 12 for user, system in exchanges)


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


@pytest.mark.parametrize(
    ("tokens", "kept", "most_cuts"), [(650, {3, 4}, 30), (1000, {2, 3}, 30), (1400, {2}, 60)]
)
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
def test_what_is_kept_fits_and_is_never_cut_without_need(
    sizes: list[int], most: int, tokens: int
) -> None:
    settings = HistorySettings(max_exchanges=most, max_tokens=tokens)
    shown = window(*sizes)
    kept = shown[surplus(shown, settings) :]
    assert len(kept) <= 2 * most
    assert taken(kept) <= tokens
    assert kept == shown or len(shown) > 2 * most or taken(shown) > tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("word", 1),
        ("hello world", 3),
        ("日本語", 3),
        ("привет", 3),
        ("Größe", 2),
        ("한국 ｱｲ", 5),
    ],
)
def test_tokens_are_estimated_by_script(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


@given(st.text(st.characters() | st.sampled_from("aéд'’世가ｱ😀\ud800")))
def test_tokens_are_those_of_each_character_of_a_script(text: str) -> None:
    wide = sum(
        any(
            low <= ord(char) <= high
            for low, high in ((0x1100, 0x11FF), (0x2E00, 0x9FFF), (0xAC00, 0xD7FF))
        )
        or any(low <= ord(char) <= high for low, high in ((0xF900, 0xFAFF), (0xFF00, 0xFFFF)))
        for char in text
    )
    plain = sum(char.isascii() for char in text)
    assert estimate(text) == -(-plain // 4) + wide + -(-(len(text) - plain - wide) // 2)


def test_a_new_session_is_written_with_the_fields_that_each_one_has() -> None:
    assert list(json.loads(dump_session(Session(conversation_id="c")))) == [
        "format",
        "conversation_id",
        "definition",
        "state",
        "previous_state",
        "turn",
        "turns_in_state",
        "context",
        "origins",
        "window",
        "user_input",
        "time",
        "ended",
        "outcome",
    ]


def test_a_session_is_read_as_it_was_written() -> None:
    session = Session(
        conversation_id="c",
        state="a",
        context={
            "name": "Ada 🦊",
            "age": 36,
            "height": 1.7,
            "none": None,
            "big": 2**63,
            "half": "\ud83e",
        },
        origins={"name": (1, "model")},
        window=((None, "Hi"), ("a\ud800", "b")),
        time=1763767000.123456,
        skipped=("age",),
        path=(("a", "/states/a/transitions/0"),),
        misses=(1, 2),
        settled=("id", "answered"),
        reminders=(1.5,),
        spent={"money": 0.25, "tool_calls": 3},
    )
    assert parse_session(dump_session(session)) == session
    assert dump_session(parse_session(dump_session(session))) == dump_session(session)


def test_values_of_a_hosts_own_classes_are_written_as_what_they_are() -> None:
    class Name(str):
        __slots__ = ()

    class Count(int):
        pass

    text = dump_session(
        Session(conversation_id="c", context={Name("name"): Name("Ada"), "count": Count(3)})
    )
    assert parse_session(text).context == {"name": "Ada", "count": 3}


@pytest.mark.parametrize("text", ["", "{", "[]", "5", "[" * 100_000])
def test_a_text_that_is_no_session_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableError, match="a stored conversation cannot be read: "):
        parse_session(text)


def test_a_session_of_another_format_names_both() -> None:
    with pytest.raises(
        UnreadableError, match="is stored in format 2, and this version of llm_fsm reads format 1"
    ):
        parse_session('{"format": 2}')
