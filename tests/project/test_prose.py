"""The pages read easily: short sentences in running text, short cells in tables.

A page is read with the parts that the build generates, so the docstrings of commands and rules are
held, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llm_fsm.cli.group import COMMANDS
from messages import texts_of_calls
from paths import ROOT
from prose import MOST_WORDS, cells, long_cells, long_sentences, sentences, words
from website.generated import every_command, filled

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_sentence_of_a_page_is_long(page: Path) -> None:
    assert long_sentences(filled(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_table_cell_of_a_page_is_long(page: Path) -> None:
    assert long_cells(filled(page.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent != ROOT], ids=name)
def test_a_link_to_a_page_has_the_name_of_the_page_and_not_of_its_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"\[[^]`]*\.md\]\([^)]*\)", text) == []


def test_no_option_of_a_command_has_a_long_help() -> None:
    helps = {
        f"{path} {option.name}": option.help
        for path, command in every_command()
        for option in command.params
        if isinstance(getattr(option, "help", None), str)
    }
    assert helps
    assert {place: text for place, text in helps.items() if long_sentences(text)} == {}


def test_no_purpose_of_a_command_is_long() -> None:
    assert {command: text for command, text in COMMANDS.items() if words(text) > MOST_WORDS} == {}


def test_no_sentence_of_a_message_is_long() -> None:
    texts = list(texts_of_calls(ROOT / "src" / "llm_fsm"))
    assert len(texts) > 1000
    assert [(place, long) for place, text in texts for long in long_sentences(text)] == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f(1, None)", []),
        ("f('a', f'b {c} d {e!r:>9}')", ["a", "b X d X"]),
        ("f('a ' + name, hint='b')", ["a X", "b"]),
        ("f(g('inner'))", ["inner"]),
    ],
)
def test_messages_are_the_texts_that_calls_get(
    tmp_path: Path, call: str, expected: list[str]
) -> None:
    (tmp_path / "module.py").write_text(call, encoding="utf-8")
    assert [text for _, text in texts_of_calls(tmp_path)] == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("One. Two?  Three!", ["One.", "Two?", "Three!"]),
        ("A line\nthat goes on.\n\nNext", ["A line that goes on.", "Next"]),
        (
            "Do this:\n\n- first\n- second\n  part\n\nEnd.",
            ["Do this:", "first", "second part", "End."],
        ),
        ("1. one\n2. two", ["one", "two"]),
        ("# A heading\nText.", ["Text."]),
        ("- item\n\n# A heading\n\n    code of it", ["item"]),
        ("Text.\n\n```bash\nmake all of it. Now.\n```\nMore.", ["Text.", "More."]),
        ("Text:\n\n    llm-fsm serve. Now.\n\nMore.", ["Text:", "More."]),
        ("- item:\n\n      llm-fsm serve\n\n  More of it.", ["item:", "More of it."]),
        ("Use `a. b c` here.", ["Use CODE here."]),
        ("See [the page](a/b.md). **Bold.** Next.", ["See the page.", "**Bold.", "Next."]),
        ("It takes 2.5 s, e.g. here, at 1.10.", ["It takes 2.5 s, e.g here, at 1.10."]),
        ("<!-- generated: x. y -->\nText.", ["Text."]),
        ("| a cell. | b |\n|---|---|\n", []),
    ],
)
def test_sentences_are_those_that_a_reader_sees(page: str, expected: list[str]) -> None:
    assert sentences(page) == expected


def test_a_sentence_of_twenty_words_is_the_longest() -> None:
    twenty = " ".join(["word"] * 20)
    assert long_sentences(f"{twenty}. {twenty}.") == []
    assert long_sentences(f"{twenty} more.") == [f"{twenty} more."]
    assert long_sentences(f"- {twenty}\n  more") == [f"{twenty} more"]


def test_a_colon_a_semicolon_or_a_dash_ends_no_sentence() -> None:
    ten = " ".join(["word"] * 10)
    for sign in (":", ";", " –", ","):
        assert len(long_sentences(f"{ten}{sign} {ten} more.")) == 1


def test_cells_are_split_at_bars_outside_of_code() -> None:
    assert cells("| a | `b | c` | d \\| e |") == ["a", "CODE", "d \\| e"]
    forty = " ".join(["word"] * 40)
    assert long_cells(f"| {forty} | b |") == []
    assert long_cells(f"| {forty} more | b |") == [f"{forty} more"]
