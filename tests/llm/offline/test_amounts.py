"""Numbers of a message that stand for themselves, and words beside them that change them."""

from __future__ import annotations

import pytest

from llm_fsm.languages import every_language, language_of
from llm_fsm.llm.offline.amounts import Message, amounts

WITH_DOUBTS = ("ar", "de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "tr")


def read(text: str, tag: str = "", *titles: str) -> list[float]:
    places = tuple((text.index(title), text.index(title) + len(title)) for title in titles)
    return [one.value for one in amounts(Message(text, tag, places))]


def test_each_language_with_words_of_numbers_has_words_of_doubt() -> None:
    assert all(
        bool(one.senses.get("doubt")) is ("number" in one.senses) for one in every_language()
    )
    assert all(len(language_of(tag).senses["doubt"]) > 25 for tag in WITH_DOUBTS)


@pytest.mark.parametrize("tag", WITH_DOUBTS)
def test_no_number_is_taken_beside_a_word_of_doubt(tag: str) -> None:
    senses = language_of(tag).senses
    taken = []
    for word in (*senses["doubt"], *senses["minus"]):
        texts = (f"{word} 5", f"5 {word}", f"x {word} 17 x", f"x 17 {word} x", f"{word} ٤")
        taken += [text for text in texts if read(text, tag)]
    assert taken == []


@pytest.mark.parametrize("tag", WITH_DOUBTS)
def test_doubts_of_every_language_count_in_an_english_definition(tag: str) -> None:
    everyday = {word for one in every_language() for word in one.everyday}
    strong = [word for word, far in language_of(tag).senses["doubt"].items() if far == 0]
    assert [word for word in strong if word not in everyday and read(f"{word} 5")] == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("18", 18),
        ("-7", -7),
        ("we are six", 6),
        ("a table for twenty-two people", 22),
        ("8.25 kg please", 8.25),
        ("2,400 pieces", 2400),
        ("€40", 40),
        ("40 €, thanks", 40),
        ("I'm Grace and we are 9", 9),
        ("6 people on 24.12.2026 at 19:30", 6),
        ("we are 6 on 24 December", 6),
        ("6 people, 7pm", 6),
        ("grace8@example.org, 6", 6),
        ("party of 6", 6),
        ("٦ people", 6),
        ("0.125", 0.125),
    ],
)
def test_a_number_that_stands_for_itself_is_taken(text: str, number: float) -> None:
    assert read(text) == [number]


@pytest.mark.parametrize(
    "text",
    [
        "minus 8",
        "- 8",
        "8+",
        "~8",
        "8%",
        "8 %",
        "8 * 2",
        "2.5 million",
        "three hundred",
        "three fifty",
        "3k",
        "8 to 12",
        "8-12",
        "8–12",
        "1/3",
        "3 1/4",
        "2½",
        "3²",
        "8, I think",
        "8 or so",
        "8, at most",
        "3 and a half",
        "three of us and a dog",
        "six-ish",
        "8th",
        "8 th",
        "1.500",
        "May 8",
        "8 pm",
        "not 8",
        "8 o'clock",
        "the blue one",
        "2 adults, 1 child",
        "200, no, 20",
    ],
)
def test_part_of_an_amount_is_not_taken(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("tag", "text", "numbers"),
    [
        ("de", "17,25", [17.25]),
        ("de", "17,25 EUR bitte", [17.25]),
        ("de", "2.400 Stück", [2400]),
        ("de", "2.400,75", [2400.75]),
        ("de", "1,500", []),
        ("de", "siebzehn", [17]),
        ("de", "ein Tisch für sechs", [6]),
        ("de", "wir sind sechs um 19 Uhr", [6]),
        ("de", "sechs und ein Baby", []),
        ("de-CH", "17.25", [17.25]),
        ("fr", "17,25", [17.25]),
        ("fr", "nous sommes sept", [7]),
        ("es-MX", "17.25", [17.25]),
        ("es", "somos siete", [7]),
        ("pl", "siedem", [7]),
        ("ko", "17.25", [17.25]),
        ("xx", "17.25", [17.25]),
    ],
)
def test_numbers_are_read_with_the_words_and_marks_of_the_language(
    tag: str, text: str, numbers: list[float]
) -> None:
    assert read(text, tag) == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("6 adults and 3 children", [6, 3]),
        ("adults 6 and children 3", [6, 3]),
        ("adults: 6, children: 3", [6, 3]),
        ("adults to 6", [6]),
        ("at least 6 adults and 3 children", []),
        ("6 adults, maybe 3 children", []),
        ("6 or 7 adults", []),
        ("adults about 6", []),
        ("adults -6 children 3", [-6, 3]),
    ],
)
def test_titles_part_the_numbers_around_them(text: str, numbers: list[float]) -> None:
    titles = [title for title in ("adults", "children") if title in text]
    assert read(text, "", *titles) == numbers
