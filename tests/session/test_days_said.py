"""A day or a time that the words of the user do not give is no value: replies in many languages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from llm_fsm.session.proof import MISREAD, Claim, unsaid_moment
from llm_fsm.session.quotes import UserWords

TODAY = date(2026, 12, 1)
"""A Tuesday."""
TIME = {"type": "string", "pattern": "^[0-9:TZ+-]+$"}


def judged(
    said: str | Sequence[str],
    value: Any,
    tag: str = "",
    *,
    beside: str = "",
    old: Any = None,
    asked_by: str = "",
    schema: dict[str, Any] | None = None,
) -> str:
    """Judge a value of a reply. The key was asked for before the last message."""
    texts = [said] if isinstance(said, str) else said
    words = UserWords(
        messages=list(enumerate(texts, 1)),
        asked={"v": len(texts) - 1},
        today=TODAY,
        asked_by=asked_by,
    )
    claim = Claim(
        key="v",
        kind="quote",
        value=value,
        schema=schema or TIME,
        tag=tag,
        old=old,
        beside=f"{beside} {value}",
    )
    reason = unsaid_moment(claim, words)
    if not reason:
        return "kept"
    return "misread" if reason.startswith(MISREAD) else "unsaid"


@pytest.mark.parametrize(
    ("tag", "said", "right", "wrong"),
    [
        ("de", "Übermorgen um 19 Uhr", "2026-12-03", "2026-12-02"),
        ("", "Übermorgen um 19 Uhr", "2026-12-03", "2026-12-02"),
        ("de", "Übermorgen um 19 Uhr", "19:00", "18:00"),
        ("de", "Übermorgen um 19 Uhr", "2026-12-03T19:00:00Z", "2026-12-02T19:00:00Z"),
        ("de", "Guten Tag, ich hätte gern übermorgen einen Termin", "2026-12-03", "2026-12-02"),
        ("de", "Freitag bitte", "2026-12-04", "2026-12-05"),
        ("de", "heute Abend", "2026-12-01", "2026-12-02"),
        ("en", "tomorrow", "2026-12-02", "2026-12-03"),
        ("en", "the day after tomorrow", "2026-12-03", "2026-12-02"),
        ("en", "it broke yesterday", "2026-11-30", "2026-11-29"),
        ("en", "Half past two in the afternoon, tomorrow", "2026-12-02", "2026-12-04"),
        ("en", "the 2nd of December at noon", "2026-12-02T12:00:00Z", "2026-12-03T12:00:00Z"),
        ("fr", "Après-demain, ce serait bien", "2026-12-03", "2026-12-02"),
        ("fr", "demain à 19h", "19:00", "18:00"),
        ("fr", "demain à 19h", "2026-12-02T19:00:00+01:00", "2026-12-04T19:00:00+01:00"),
        ("es", "Pues pasado mañana", "2026-12-03", "2026-12-02"),
        ("es", "mañana por la mañana a las ocho", "2026-12-02", "2026-12-03"),
        ("tr", "Perşembe günü olabilir", "2026-12-03", "2026-12-02"),
        ("tr", "yarın saat 14:00'te", "2026-12-02", "2026-12-03"),
        ("it", "Domani sera alle otto", "2026-12-02", "2026-12-03"),
        ("it", "dopodomani", "2026-12-03", "2026-12-02"),
        ("nl", "overmorgen om 10 uur", "2026-12-03", "2026-12-02"),
        ("nl", "En terug op zondag", "2026-12-06", "2026-12-07"),
        ("pl", "pojutrze", "2026-12-03", "2026-12-02"),
        ("pl", "Może w poniedziałek", "2026-12-07", "2026-12-08"),
        ("pt", "depois de amanhã", "2026-12-03", "2026-12-02"),
        ("ja", "あさっての午後三時でお願いします", "2026-12-03", "2026-12-02"),
        ("ar", "الجمعة", "2026-12-04", "2026-12-05"),
        ("de", "So gegen Viertel nach drei nachmittags", "15:15", "15:45"),
        ("pt", "Por volta das nove e meia da noite", "21:30", "20:30"),
        ("es", "A las once y cuarto de la mañana", "11:15", "11:25"),
    ],
)
def test_a_day_that_is_read_for_certain_is_taken_and_no_other(
    tag: str, said: str, right: str, wrong: str
) -> None:
    assert judged(said, right, tag) == "kept"
    assert judged(said, wrong, tag) == "misread"


@pytest.mark.parametrize(
    ("tag", "said", "value"),
    [
        ("de", "Am liebsten übermorgen", "19:00"),
        ("de", "Am liebsten übermorgen", "2026-12-03T19:00:00Z"),
        ("de", "um 19 Uhr bitte", "2026-12-02"),
        ("de", "Guten Abend, ein Tisch bitte", "2026-12-02"),
        ("de", "Guten Abend, ein Tisch bitte", "19:00"),
        ("en", "Next Tuesday, please", "19:00"),
        ("en", "half past two in the afternoon", "2026-12-04"),
        ("fr", "Après-demain, ce serait bien", "09:00"),
        ("es", "Pues pasado mañana", "10:00"),
        ("es", "Buenas tardes, soy Ana", "17:00"),
        ("tr", "Perşembe günü olabilir", "14:00"),
        ("tr", "Öğleden sonra saat iki buçukta", "2026-12-03"),
        ("it", "dopodomani", "20:00"),
        ("nl", "overmorgen", "10:00"),
        ("pl", "Dzień dobry, pojutrze", "10:00"),
        ("ja", "あさってでお願いします", "15:00"),
    ],
)
def test_a_time_beside_a_day_and_a_day_beside_a_time_must_be_said(
    tag: str, said: str, value: str
) -> None:
    assert judged(said, value, tag) == "unsaid"


@pytest.mark.parametrize(
    ("tag", "said", "value"),
    [
        ("de", "nächsten Freitag", "2026-12-11"),
        ("de", "Freitag in zwei Wochen", "2026-12-18"),
        ("de", "Freitag 18", "2026-12-18"),
        ("de", "vor Freitag", "2026-12-03"),
        ("de", "am Tag nach Weihnachten", "2026-12-26"),
        ("de", "vom 7. bis 9. Dezember", "2026-12-07"),
        ("de", "morgen früh", "08:00"),
        ("de", "heute Abend", "19:00"),
        ("en", "the day after Christmas", "2026-12-26"),
        ("en", "the Friday after next", "2026-12-18"),
        ("en", "a week from tomorrow", "2026-12-09"),
        ("en", "from 7 to 9 December", "2026-12-07"),
        ("en", "December 7 to 9", "2026-12-09"),
        ("en", "Monday to Wednesday", "2026-12-08"),
        ("en", "Friday for three nights", "2026-12-07"),
        ("en", "tomorrow, and back the day after", "2026-12-03"),
        ("en", "4", "2026-12-04"),
        ("en", "lunch time tomorrow", "12:30"),
        ("en", "after 5", "17:30"),
        ("en", "quarter to eight", "20:15"),
        ("ja", "四時にしてください", "16:30"),
        ("en", "between 2 and 4", "14:00"),
        ("en", "3 nights", "2026-12-07"),
        ("es", "una noche", "2026-12-05"),
        ("es", "una mesa de 4", "2026-12-02"),
        ("en", "for the 2 of us", "2026-12-04"),
        ("fr", "dans deux heures", "12:00"),
        ("pl", "na 4", "2026-12-04"),
        ("tr", "3 gece", "2026-12-07"),
    ],
)
def test_what_the_words_leave_open_is_for_the_model_to_say(tag: str, said: str, value: str) -> None:
    assert judged(said, value, tag) == "kept"


def test_a_number_that_is_another_value_is_no_day_and_no_time() -> None:
    said = "A table for four tomorrow"
    assert judged(said, "2026-12-03", beside="4") == "misread"
    assert judged(said, "2026-12-03") == "misread"
    said = "Tomorrow evening please, actually we will be ten"
    assert judged(said, "2026-12-03") == "kept"
    assert judged(said, "2026-12-03", beside="10") == "misread"


def test_a_day_counts_from_one_that_the_reply_names_for_another_key() -> None:
    assert judged("it broke yesterday", "2026-12-01", beside="2026-11-30") == "kept"
    assert judged("it broke yesterday", "2026-12-01") == "misread"


def test_earlier_words_and_known_parts_complete_a_moment() -> None:
    assert judged(["on Friday", "at 5 pm"], "2026-12-04T17:00:00Z") == "kept"
    assert judged("make it 11 am", "2026-12-04T11:00:00Z", old="2026-12-04T10:00:00Z") == "kept"
    assert judged("make it 11 am", "2026-12-05T11:00:00Z", old="2026-12-04T10:00:00Z") == "unsaid"


def test_what_was_offered_may_be_picked_by_its_day_alone() -> None:
    offer = "We have Friday 10:00 or Monday 15:00."
    assert judged("Friday please", "2026-12-04T10:00:00Z", asked_by=offer) == "kept"
    assert judged("Friday please", "2026-12-04T11:00:00Z", asked_by=offer) == "unsaid"


def test_a_choice_is_named_by_other_words_than_its_value() -> None:
    slots = {"enum": ["09:00", "15:00"]}
    assert judged("the long treatment, on Friday", "15:00", schema=slots) == "kept"
    assert judged("the long treatment, on Friday", "15:00") == "unsaid"


def test_each_day_of_a_list_is_judged() -> None:
    days = {"type": "array", "items": {"type": "string", "format": "date"}}
    assert judged("Friday and Monday", ["2026-12-04", "2026-12-07"], schema=days) == "kept"
    assert judged("am Freitag", ["2026-12-04"], "de", schema=days) == "kept"
    assert judged("am Freitag", ["2026-12-03"], "de", schema=days) == "misread"


@pytest.mark.parametrize(
    "text",
    [
        "tomorrow",
        "next Tuesday",
        "at half past seven",
        "noon",
        "asap",
        "in two weeks",
        "Freitag",
        "übermorgen um halb acht",
        "uebermorgen",
        "mañana por la tarde",
        "demain soir",
        "domani alle sette",
        "amanhã",
        "vrijdag",
        "w piątek",
        "yarın akşam",
        "يوم الجمعة",
        "明日の夜",
        "七時",
        "٧",
        "deux",
        "the 8th",
    ],
)
@pytest.mark.parametrize("tag", ["", "de", "xx"])
def test_a_message_may_name_a_moment_in_any_language(text: str, tag: str) -> None:
    assert {judged(text, "2026-02-28", tag), judged(text, "03:33", tag)} != {"unsaid"}


@pytest.mark.parametrize(
    "text",
    [
        "My name is Tom Baker",
        "yes please",
        "what do you have on the menu",
        "ich bin hier",
        "Guten Morgen",
        "Buonasera",
        "Bonjour, je m'appelle Alice",
        "me llamo Ana",
        "はい",
        "",
    ],
)
def test_other_messages_name_no_moment(text: str) -> None:
    assert {judged(text, "2026-12-02"), judged(text, "19:00")} == {"unsaid"}


def test_an_everyday_word_counts_in_a_definition_of_its_language() -> None:
    assert judged("on kişi", "10:00", "tr") == "kept"
    assert judged("come on", "10:00") == "unsaid"
