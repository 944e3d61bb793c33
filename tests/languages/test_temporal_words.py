"""Words of dates, times and numbers in a message."""

from __future__ import annotations

import pytest

from llm_fsm.languages.reading import speaks_of_time


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
        "the 8th",
    ],
)
@pytest.mark.parametrize("tag", ["", "de", "xx"])
def test_a_message_may_name_a_time_in_any_language(text: str, tag: str) -> None:
    assert speaks_of_time(text, tag)


@pytest.mark.parametrize(
    "text",
    [
        "My name is Tom Baker",
        "yes please",
        "what do you have on the menu",
        "ich bin hier",
        "Bonjour, je m'appelle Alice",
        "me llamo Ana",
        "はい",
        "",
    ],
)
def test_other_messages_name_no_time(text: str) -> None:
    assert not speaks_of_time(text)


def test_an_everyday_word_counts_in_a_definition_of_its_language() -> None:
    assert speaks_of_time("on kişi", "tr")
    assert not speaks_of_time("come on", "")
