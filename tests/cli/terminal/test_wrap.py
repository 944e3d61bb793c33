"""Words on a terminal as they come: lines are broken between words, however the pieces are cut."""

from __future__ import annotations

import textwrap
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_fsm.cli.terminal.wrap import Words

TEXT = "I would like to know the name under which the table is reserved, please."


def shown(capsys: pytest.CaptureFixture[str], pieces: list[str], width: int = 20) -> list[str]:
    """The lines that a terminal shows, without spaces at their ends."""
    capsys.readouterr()
    words = Words(lambda: width)
    for piece in pieces:
        words.say(piece)
    words.end()
    found = capsys.readouterr().out
    assert found.startswith("\n")
    assert found.endswith("\n")
    return [line.rstrip(" ") for line in found[1:-1].split("\n")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(0, 3 * len(TEXT))), width=st.sampled_from((20, 30, 60)))
def test_lines_break_between_words_wherever_the_pieces_are_cut(
    capsys: pytest.CaptureFixture[str], cuts: set[int], width: int
) -> None:
    text = " ".join((TEXT, TEXT, TEXT))
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert shown(capsys, pieces, width) == textwrap.wrap(text, width)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\n\ntwo\r\nthree", ["one", "", "two", "three"]),
        ("12345678901234567890 after a full line", ["12345678901234567890", "after a full line"]),
        ("see https://example.org/a/long/place now", ["see https://example.org/a/long/place now"]),
        ("何名様でご利用でしょうか、教えてください", ["何名様でご利用でしょうか、教えてください"]),
        ("Combien est-ce en euro\u00a0?", ["Combien est-ce en", "euro\u00a0?"]),
        ("a \x1b[31mred\x1b[0m and more of it", ["a \\x1b[31mred\\x1b[0m", "and more of it"]),
    ],
)
def test_what_is_no_word_that_fits_is_left_to_the_terminal(
    capsys: pytest.CaptureFixture[str], text: str, lines: list[str]
) -> None:
    assert shown(capsys, [text]) == lines
    assert shown(capsys, list(text)) == lines


def test_a_word_is_shown_when_it_is_whole_and_a_wide_one_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = Words(lambda: 80)
    pieces = (
        ("Good mor", "\nGood "),
        ("ning ", "morning"),
        ("何名", " 何名"),
        ("様", "様"),
        ("\r", ""),
        ("\n", ""),
    )
    for piece, out in pieces:
        words.say(piece)
        assert capsys.readouterr().out == out
    words.end()
    assert capsys.readouterr().out == "\n\n"


def test_lines_follow_a_terminal_that_changes_its_size(capsys: pytest.CaptureFixture[str]) -> None:
    width = 20
    words = Words(lambda: width)
    words.say(TEXT[:40])
    width = 10
    words.say(TEXT[40:])
    words.end()
    lines = capsys.readouterr().out.strip().split("\n")
    assert " ".join(line.strip() for line in lines) == TEXT
    assert max(map(len, lines[3:])) <= 10


def test_a_reply_that_breaks_off_is_written_to_its_last_character(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = Words(lambda: 10)
    words.say("Good morn")
    assert capsys.readouterr().out == "\nGood "
    words.end()
    assert capsys.readouterr().out == "morn\n"
    words.end()
    assert capsys.readouterr().out == ""
