"""Numbers, dates and times of day in words of eleven languages."""

from __future__ import annotations

from datetime import date

import pytest

from llm_fsm.languages.reading import dates, numbers, pieces, times

TODAY = date(2026, 11, 29)
"""A Sunday."""


def read_days(text: str, tag: str = "") -> set[str]:
    return {one.value for one in dates(pieces(text, tag), TODAY)}


def read_times(text: str, tag: str = "") -> set[str]:
    return {one.value for one in times(pieces(text, tag))}


def read_numbers(text: str, tag: str = "") -> list[float]:
    return [one.value for one in numbers(pieces(text, tag))]


@pytest.mark.parametrize(
    ("tag", "text", "day"),
    [
        ("en", "tomorrow", "2026-11-30"),
        ("en", "next Tuesday", "2026-12-08"),
        ("en", "on Friday the 4th", "2026-12-04"),
        ("en", "the third of March", "2027-03-03"),
        ("en", "3 March 2027", "2027-03-03"),
        ("en", "12/5", "2026-12-05"),
        ("en", "Dec 5, '26", "2026-12-05"),
        ("en", "in two weeks", "2026-12-13"),
        ("en", "Christmas Eve", "2026-12-24"),
        ("en", "2026-12-24", "2026-12-24"),
        ("de", "am 5.12.", "2026-12-05"),
        ("de", "am fünften Dezember", "2026-12-05"),
        ("de", "übermorgen", "2026-12-01"),
        ("es", "mañana por la tarde", "2026-11-30"),
        ("es", "el 5 de diciembre de 2026", "2026-12-05"),
        ("fr", "le 1er janvier", "2027-01-01"),
        ("it", "dopodomani", "2026-12-01"),
        ("pt", "depois de amanhã", "2026-12-01"),
        ("nl", "vrijdag", "2026-12-04"),
        ("pl", "piątego grudnia", "2026-12-05"),
        ("tr", "5 Aralık", "2026-12-05"),
        ("ar", "يوم الجمعة", "2026-12-04"),
        ("ja", "2027年3月5日", "2027-03-05"),
        ("en", "Freitag", "2026-12-04"),
        ("de", "tomorrow", "2026-11-30"),
    ],
)
def test_a_day_is_read_in_words(tag: str, text: str, day: str) -> None:
    assert day in read_days(text, tag)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("3 March 2027", "2026-03-03"),
        ("March 3rd or April 7th", "2027-04-03"),
        ("Friday the 4th", "2026-12-11"),
        ("5.12.2026", "2026-05-12"),
        ("next month", "2026-12-29"),
        ("a table for four", "2026-12-04"),
        ("31 February", "2027-03-03"),
    ],
)
def test_a_day_that_was_not_named_is_not_read(text: str, day: str) -> None:
    assert day not in read_days(text)


@pytest.mark.parametrize(
    ("tag", "text", "time"),
    [
        ("en", "half past seven", "19:30"),
        ("en", "7pm", "19:00"),
        ("en", "tomorrow evening at seven please", "19:00"),
        ("en", "noon", "12:00"),
        ("en", "8:15 in the evening", "20:15"),
        ("en", "in the evening at a quarter past eight", "20:15"),
        ("en", "quarter to eight", "07:45"),
        ("en", "12 am", "00:00"),
        ("en", "three in the afternoon", "15:00"),
        ("de", "19 Uhr 30", "19:30"),
        ("de", "halb acht", "19:30"),
        ("de", "Viertel vor sieben", "18:45"),
        ("fr", "sept heures et demie", "19:30"),
        ("fr", "huit heures moins le quart", "07:45"),
        ("es", "a las siete y media", "19:30"),
        ("it", "alle sette e mezza", "19:30"),
        ("pt", "às 19h", "19:00"),
        ("nl", "half acht", "19:30"),
        ("pl", "o wpół do ósmej", "19:30"),
        ("tr", "yediyi on geçe", "19:10"),
        ("ar", "الساعة السابعة والنصف", "19:30"),
        ("ja", "午後7時半", "19:30"),
    ],
)
def test_a_time_is_read_in_words(tag: str, text: str, time: str) -> None:
    assert time in read_times(text, tag)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("a table for 4 people please", "16:00"),
        ("8:15 in the evening", "08:15"),
        ("at 7pm tonight", "07:00"),
        ("25:00", "01:00"),
    ],
)
def test_a_time_that_was_not_named_is_not_read(text: str, time: str) -> None:
    assert time not in read_times(text)


@pytest.mark.parametrize(
    ("tag", "text", "number"),
    [
        ("en", "two hundred and fifty", 250),
        ("en", "two thousand three hundred", 2300),
        ("en", "twenty-five people", 25),
        ("en", "minus five", -5),
        ("en", "1,50", 1.5),
        ("en", "1,500", 1500),
        ("en", "1.234,50", 1234.5),
        ("en", "10 000", 10_000),
        ("en", "two and a half", 2.5),
        ("en", "1.5 million", 1_500_000),
        ("en", "٣ أشخاص", 3),
        ("de", "fünfundzwanzig", 25),
        ("fr", "quatre-vingt-dix-sept", 97),
        ("es", "doscientos cincuenta", 250),
        ("it", "duecentocinquanta", 250),
        ("pt", "duzentos e cinquenta", 250),
        ("nl", "tweehonderdvijftig", 250),
        ("pl", "dwieście pięćdziesiąt", 250),
        ("tr", "iki yüz elli", 250),
        ("ar", "خمسة وعشرون", 25),
        ("ja", "二万五千", 25_000),
    ],
)
def test_a_number_is_read_in_words(tag: str, text: str, number: float) -> None:
    assert number in read_numbers(text, tag)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2 adults and 3 children", 5),
        ("2 and 3", 23),
        ("1,50", 150),
        ("200 and 50", 250),
        ("sixty fifteen", 75),
        ("twenty, five", 25),
        ("see you on Monday", 10),
        ("ich bin hier", 1000),
        ("-5", 5),
        ("10-20", -20),
    ],
)
def test_two_numbers_are_no_third_one(text: str, number: float) -> None:
    assert number not in read_numbers(text)
