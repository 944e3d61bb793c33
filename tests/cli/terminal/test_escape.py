"""What came from outside cannot move the cursor, hide text or crash the output."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm._text import visible
from llm_fsm.cli.terminal import escape

ANY = st.text(st.characters(codec=None))  # lone surrogates included
DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("plain", "plain", "plain"),
        ("a\nb\tc", "a\\nb\\tc", "a\nb\tc"),
        ("a\r\nb", "a\\r\\nb", "a\nb"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07", "\\x1b[31mred\\x07"),
        ("\x9b31m", "\\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u202eb", "a\\u202eb"),
        ("\u2066x\u2069", "\\u2066x\\u2069", "\\u2066x\\u2069"),
        ("\ud83d", "\\ud83d", "\\ud83d"),
        ("שלום\u200f é 😀", "שלום\u200f é 😀", "שלום\u200f é 😀"),
    ],
)
def test_control_characters_are_shown_as_escapes(text: str, line: str, words: str) -> None:
    assert visible(text) == line
    assert escape.words(text) == words


@given(ANY)
def test_nothing_dangerous_gets_through(text: str) -> None:
    assert DANGEROUS.search(escape.words(text)) is None
    assert DANGEROUS.search(visible(text)) is None
    assert not set(visible(text)) & {"\n", "\t"}


@given(
    st.recursive(ANY | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(ANY, inner))
)
def test_json_says_the_same_with_escapes(value: object) -> None:
    text = escape.as_json(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert DANGEROUS.search(text) is None


def test_long_texts_are_shortened() -> None:
    assert escape.shortened("abcdef", 6) == "abcdef"
    assert escape.shortened("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(("number", "text"), [(0, "0 files"), (1, "1 file"), (1200, "1,200 files")])
def test_numbers_agree_with_their_noun(number: int, text: str) -> None:
    assert escape.plural(number, "file") == text
