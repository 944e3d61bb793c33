"""Secrets in somebody's words, however they are written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.session.redaction import DOTS, blotted, without

SEPARATORS = " \n./_-"


@pytest.mark.parametrize(
    ("secret", "text", "left"),
    [
        ("12345678", "My card: 1234-5678.", f"My card: {DOTS}."),
        ("1234 5678", "12345678 and 12.34 / 56.78", f"{DOTS} and {DOTS}"),
        ("Maria Gonzalez", "it is MARIA_GONZALEZ", f"it is {DOTS}"),
        ("123456", "١٢٣ ٤٥٦", DOTS),
        ("ΟΔΟΣΑΒ", "οδος αβ", DOTS),
        ("İİİabc", "İİİ ABC", DOTS),
        ("abcabc", "abcabcabcabcabc", f"{DOTS}{DOTS}abc"),
        ("a-b-c", "a-b-c or abc", f"{DOTS} or abc"),
        ("4711", "4711, 4 7 1 1, 47 11 and ４７１１", f"{DOTS}, {DOTS}, {DOTS} and {DOTS}"),
        ("471", "4 7 1 or 4-7-1", f"{DOTS} or 4-7-1"),
        ('a"b', 'a"b, "a\\"b", "a\\\\\\"b"', f'{DOTS}, "{DOTS}", "{DOTS}"'),
        ("geheim é", '"geheim \\u00e9" geheim%20%C3%A9', f'"{DOTS}" {DOTS}'),
        ("Tom & Co", "<b>Tom &amp; Co</b>", f"<b>{DOTS}</b>"),
    ],
)
def test_a_secret_is_known_in_groups_and_in_capitals(secret: str, text: str, left: str) -> None:
    assert without([secret], text) == left


@pytest.mark.parametrize(
    ("secret", "texts"),
    [
        ("Tr0ub4dor&3", ["TR0UB4DOR&3", "tr0ub4dor3", "tr0ub4dor 3", "Ｔｒ０ｕｂ４ｄｏｒ＆３"]),
        ("4111 1111 1111 1111", ["4111.1111.1111.1111", "4111–1111–1111–1111"]),
        (
            "4111111111111111",
            ["4111·1111·1111·1111", "4111|1111:1111_1111", "4111, 1111, 1111, 1111"],
        ),
        (
            "4111111111111111",
            ["4111\u00a01111\u20091111\u200b1111", "４１１１　１１１１　１１１１　１１１１"],
        ),
        ("hunter2", ["HUNTER2", "ｈｕｎｔｅｒ２", "h*u*n*t*e*r*2", "hun\u00adter2", "hunter²"]),
        ("abc12", ["ABC12", "ａｂｃ１２", "Abc 12"]),
        ("Anna", ["ANNA", "ａｎｎａ"]),
        ("0170-1234567", ["0170/123 45 67", "0170)1234567", "0170.1234567"]),
        ("4711", ["4-7-1-1", "4.7.1.1", "4,7,1,1", "47 11"]),
        ("müller99", ["MULLER99", "mu\u0308ller99", "MÜLLER 99"]),
        ("straße1", ["STRASSE1", "strasse-1"]),
        ("pass-word!", ["password", "PassWord", "pass_word", "pass word"]),
        ("p@ss", ["P@SS", "p@Ss", "ｐ＠ｓｓ"]),
        ("p@$$w0rd", ["P@$$W0RD", "p@$$ w0rd"]),
    ],
)
def test_a_secret_is_known_in_other_case_width_and_with_other_marks(
    secret: str, texts: list[str]
) -> None:
    for text in texts:
        assert without([secret], f"It is {text}.") == f"It is {DOTS}.", text
        assert blotted([secret], {"text": text}) == {"text": DOTS}, text


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("Anna", "Hosanna and annat"),
        ("abc12", "ABC123 or XABC12"),
        ("4711", "47-11 or 4.711"),
        ("2012", "20.12. or 20-12"),
        ("p@ss", "pss or passing"),
    ],
)
def test_a_short_secret_is_not_found_in_other_words(secret: str, text: str) -> None:
    assert without([secret], text) is None


@pytest.mark.parametrize(
    "text", ["123, 456", "123    456", "12345", "", "12345\u06466", "1 2 3 4 5 or 6"]
)
def test_what_says_something_else_between_its_parts_is_no_secret(text: str) -> None:
    assert without(["123456"], text) is None


@given(
    st.text(st.sampled_from("abAB1é"), min_size=6, max_size=9),
    st.text(st.sampled_from("abAB1é ,.-_"), max_size=8),
    st.data(),
)
def test_wherever_a_secret_stands_it_is_blotted_out(
    secret: str, around: str, data: st.DataObject
) -> None:
    between = st.text(st.sampled_from(SEPARATORS), max_size=3)
    cases = [st.sampled_from([letter, letter.swapcase()]) for letter in secret[1:]]
    written = secret[0] + "".join(data.draw(between) + data.draw(letter) for letter in cases)
    text = f"{around}, {written}, {around}"
    found = without([secret], text)
    assert found is not None
    assert f", {DOTS}, " in found
    assert not re.search(r"[\s./_-]{0,3}".join(secret), found, flags=re.IGNORECASE)


def test_a_long_secret_holds_nothing_up_that_is_much_like_it() -> None:
    """What took the product of these lengths would outlast the time that a test has."""
    assert without(["a" * 10_000 + "b"], "a" * 500_000) is None
    assert without(["ab" * 5_000], "ab, " * 100_000) is None
    assert without(["a" * 100], "a" * 100_000) == DOTS * 1_000


def test_a_document_keeps_its_form_and_its_names_and_shows_no_secret() -> None:
    document = {
        "state": "4711", "number": 4711, "text": "4711!", "parts": [{"text": "a 4711"}],
        "context": {"pin": "4711", "copy": 4711, "more": 47110, "accounts": {"no. 4711": 1}},
    }  # fmt: skip
    assert blotted(["4711"], document) == {
        "state": "4711", "number": 4711, "text": f"{DOTS}!", "parts": [{"text": f"a {DOTS}"}],
        "context": {"pin": DOTS, "copy": DOTS, "more": 47110, "accounts": {f"no. {DOTS}": 1}},
    }  # fmt: skip
    assert blotted([], document) is document
