"""Which sentences ask, and whether two ask the same."""

from __future__ import annotations

import pytest

from llm_fsm.turn.repair.questions import asks, is_nearer, question_in, told_in


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("Welcome to our shop! What is your name?", "Welcome to our shop! What is your name?"),
        ("Hello! What is your name?", "What is your name?"),
        ("For groups we ask for a deposit. Is that all right?", "For groups we ask for a deposit. Is that all right?"),
        ("We are open all day. Which day would you like to come, and at what time?",
         "Which day would you like to come, and at what time?"),
        ("Your name, please.", ""),
        ("What? And where?", "What? And where?"),
        ("Your balance is 100 euros.\n\nHow much?", "How much?"),
        ("Are you still there?\n\nHow much? In euros.\n\nWe are open.", "How much?"),
        ("かしこまりました。お届け先は？", "かしこまりました。お届け先は？"),
        ("آپ کا نمبر لکھ لیا گیا ہے۔ آپ کس دن اور کس وقت آنا چاہیں گے؟", "آپ کس دن اور کس وقت آنا چاہیں گے؟"),
        ("How much? ... [truncated]", ""),
    ],
)  # fmt: skip
def test_a_short_question_takes_along_what_it_leans_on(said: str, question: str) -> None:
    assert question_in(said) == question


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("2,000 it is. On which day?", "2,000 it is."),
        ("On which day?", ""),
        ("Noted!\n\nOn which day? Take your time.", "Noted!\n\nTake your time."),
        ("かしこまりました。サイズは？", "かしこまりました。"),
        ("Nothing is asked here.", "Nothing is asked here."),
    ],
)
def test_what_is_told_is_left_where_the_questions_go(said: str, told: str) -> None:
    assert told_in(said) == told


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        ("Who?", True),
        ("誰ですか\uff1f", True),
        ("ما اسمك؟", True),
        ("Tell me.", False),
        ("", False),
    ],
)
def test_a_question_mark_of_any_script_asks(text: str, asking: bool) -> None:
    assert asks(text) is asking


def test_the_question_that_shares_more_letters_is_the_nearer_one() -> None:
    assert is_nearer("On what day was it?", "Which day?", "How many guests?")
    assert not is_nearer("And how many are you?", "Which day?", "How many guests?")
    assert not is_nearer("", "Which day?", "How many guests?")
