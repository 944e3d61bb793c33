"""Messages that are certainly a value, and those that are not."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm._text import TRUNCATED
from llm_fsm.definition.models import Definition
from llm_fsm.session.context import compile_keys
from llm_fsm.turn.recognize import Heard, recognisers

FAST = {"x-fast": True}


def value(schema: dict[str, Any], text: str, *, first: bool = True, asked: str = "") -> Any:
    definition = Definition.model_validate(
        {
            "name": "d",
            "initial_state": "a",
            "states": {"a": {}},
            "context_schema": {"properties": {"k": {**schema, **FAST}}},
        }
    )
    keys = compile_keys(definition, ())
    found = recognisers(keys.offered, keys.fault)
    return found["k"](Heard(text, first, asked, not asked.endswith(TRUNCATED))) if "k" in found else "for the model"


SIZES = {"enum": ["Small", "Very large"]}
MENU = "Which size? 1. small 2) Very large"
ZIP = {"type": "string", "pattern": "^[0-9]{5}$"}
ANY = "for the model"


@pytest.mark.parametrize(
    ("schema", "text", "found"),
    [
        (SIZES, "small", "Small"),
        (SIZES, "  VERY   large. ".strip(), "Very large"),
        ({"enum": ["too_small", "too_big"]}, "Too big", "too_big"),
        ({"enum": ["too_small", "too_big"]}, "too_big", "too_big"),
        ({"enum": ["too_small", "too_big"]}, "big", None),
        ({"enum": ["too_big", "too big"]}, "too big", ANY),
        (SIZES, "small please", None),
        (SIZES, "smal", None),
        (SIZES, "1", None),
        ({"enum": ["a", "A"]}, "a", ANY),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "nein", False),
        ({"type": "boolean"}, "نعم", True),
        ({"type": "boolean"}, "לא", False),
        ({"type": "boolean"}, "yes but", None),
        ({"type": "integer", "minimum": 1}, "7", 7),
        ({"type": "integer", "minimum": 1}, "0", None),
        ({"type": "integer"}, "-3", -3),
        ({"type": "integer"}, "3.0", None),
        ({"type": "integer"}, "007", None),
        ({"type": "integer"}, "seven", None),
        ({"type": "integer"}, "٣", None),
        ({"type": "integer"}, "+1", None),
        ({"type": "integer"}, "not 3", None),
        ({"type": "integer"}, "3?", None),
        ({"type": "integer"}, "３", None),
        (SIZES, "not small", None),
        (SIZES, "small or very large", None),
        (SIZES, '"small"', None),
        (SIZES, "ｓｍａｌｌ", None),
        (SIZES, "no wait, small", None),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "1.500", None),
        ({"type": "number"}, "1,5", None),
        (ZIP, "24103", "24103"),
        (ZIP, "24103 Kiel", None),
        ({"type": "string", "pattern": "[0-9]{5}"}, "24103 or 24105", None),
        ({"type": "string", "pattern": "^[0-9]{5}"}, "24103 Kiel", None),
        ({"type": "string", "pattern": "[0-9]{5}$"}, "not 24103", None),
        ({"type": "string", "pattern": "^.+ [0-9]+$"}, "I think it is 5", None),
        ({"type": "string", "minLength": 25}, "I do not want to tell you that at all", None),
        ({"type": "string", "pattern": "^[A-Z]{4}$"}, "HELP", ANY),
        ({"type": "string", "pattern": "^[a-z]{7,}$"}, "restart", ANY),
        ({"type": "boolean", "const": True}, "no", None),
        ({"enum": ["a", "b"], "not": {"const": "a"}}, "a", None),
        ({"type": "string", "enum": [1, 2]}, "1", None),
        ({"enum": ["", "a"]}, "", ANY),
        ({"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}, "a", "a"),
        (ZIP, "", None),
        ({"type": "string", "format": "email"}, "ada@example.org", "ada@example.org"),
        ({"type": "string", "format": "email"}, "it is ada@example.org", None),
        ({"type": "string", "format": "date"}, "2030-02-30", None),
        (SIZES, "small...", None),
        (SIZES, "small!?", None),
        ({"type": "boolean"}, "no...", None),
        ({"type": "boolean"}, "no, thanks", None),
        ({"enum": ["yes", "no", "maybe"]}, "No.", "no"),
        ({"type": "string", "pattern": "^[A-Z][a-z]+$"}, "Stop", ANY),
        ({"type": "string", "pattern": "^[A-Z]{2}$"}, "OK", ANY),
        ({"type": "string"}, "Ada", ANY),
        ({"type": "string", "pattern": "^[A-Z][a-z ]+"}, "Ada", ANY),
        ({"type": "string", "minLength": 2}, "Ada", ANY),
        ({"type": ["string", "null"]}, "Ada", ANY),
        ({"type": "array"}, "[]", ANY),
    ],
)
def test_a_message_is_a_value_only_as_a_whole(schema: dict[str, Any], text: str, found: Any) -> None:
    assert value(schema, text) == found


@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        ("1", MENU, "Small"),
        ("2.", MENU, "Very large"),
        ("3", MENU, None),
        ("0", MENU, None),
        ("1", "1. small?", None),
        ("1...", MENU, None),
    ],
)
def test_a_number_means_the_choice_that_was_shown_with_it(text: str, asked: str, found: Any) -> None:
    assert value(SIZES, text, asked=asked) == found


def test_a_number_means_the_choice_that_was_shown_in_words_for_a_person() -> None:
    sizes = {"enum": ["too_small", "too_big"]}
    assert value(sizes, "2", asked="Which one?\n1. too small\n2. Too  big") == "too_big"
    assert value(sizes, "2", asked="1. too_small, 2. too_big?") == "too_big"
    assert value(sizes, "2", asked="1. small, 2. too big?") is None


def test_a_number_that_is_both_a_choice_and_the_place_of_another_is_for_the_model() -> None:
    assert value({"enum": [2, 1, 3]}, "2", asked="1. 2, 2. 1, 3. 3") is None
    assert value({"enum": [2, 1, 3]}, "3", asked="1. 2, 2. 1, 3. 3") == 3
    assert value({"type": "integer"}, "2", asked="1. by day 2. by night. How many?") is None
    assert value({"type": "integer"}, "2", asked="From 1 to 10: how many?") == 2


@pytest.mark.parametrize(
    "asked",
    [
        "1 - by day; 2 - by night. How many?",
        "[1] by day [2] by night. How many?",
        "1\ufe0f\u20e3 day 2\ufe0f\u20e3 night: how many?",
        "1 by day\n2 by night\nHow many?",
    ],
)
def test_a_number_of_a_list_in_any_writing_is_for_the_model(asked: str) -> None:
    assert value({"type": "integer"}, "2", asked=asked) is None
    assert value({"type": "string", "pattern": "^[0-9]{1,2}$"}, "2", asked=asked) is None


def test_a_choice_that_is_a_number_is_for_the_model_where_a_list_gives_that_number_to_another() -> None:
    tables = {"enum": [2, 4, 6]}
    assert value(tables, "2", asked="1. Table for 2\n2. Table for 4\n3. Table for 6") is None
    assert value(tables, "6", asked="1. Table for 2\n2. Table for 4\n3. Table for 6") == 6
    assert value({"enum": ["1", "2"]}, "2", asked="1) billing 2) repairs") == "2"
    assert value({"enum": ["1", "0"]}, "0", asked="1) billing 0) repairs") is None
    assert value({"enum": [1, 2, 4]}, "2", asked="1. alone\n2. a family\n3. a pair") is None
    assert value(tables, "2", asked="Press 2 to hear it again. How many: 2, 4 or 6?") is None


def test_the_number_of_a_choice_counts_only_where_a_list_shows_that_whole_choice() -> None:
    assert value({"enum": ["in", "out"]}, "1", asked="1. internal 2. outside") is None
    assert value({"enum": ["small", "large"]}, "2", asked="Which size? We have 1 small 2 large left.") is None
    assert value({"enum": ["small", "large"]}, "2", asked="Which size?\n1 small\n2 large") == "large"
    assert value({"enum": ["small", "large"]}, "1", asked="1 small\n2 large\nAnd the crust? 1. thin 2. thick") is None
    assert value(SIZES, "1", asked=f"{MENU} And th... [truncated]") is None


def test_a_number_of_two_lists_is_for_the_model() -> None:
    assert value(SIZES, "1", asked=f"{MENU} Which crust? 1. thin 2. thick") is None
    assert value(SIZES, "small", asked=f"{MENU} Which crust? 1. thin 2. thick") is None
    days, listed = {"enum": ["Monday", "Sunday"]}, "\n1. Monday\n2. Sunday\n"
    assert value(days, "2", asked=f"{listed}How many people?") is None
    assert value(days, "2", asked=f"Rate us from 1 to 5. Which day?{listed}") is None
    assert value(days, "2", asked=f"We are open. Which day?{listed}") == "Sunday"
    assert value(SIZES, "001", asked=MENU) is None


@pytest.mark.parametrize(
    ("asked", "text", "found"),
    [
        ("Is that right?", "yes", True),
        ("A pizza without olives. Is that right?", "no", False),
        ("Shall I keep it, yes or no?", "yes", True),
        ("Shall I keep it (yes/no)?", "no", False),
        ("Please confirm the order.", "yes", True),
        ("Quer o recibo?", "sim", True),
        ("You don’t want insurance, do you?", "yes", None),
        ("Is it not too late?", "no", None),
        ("Do you mind if I save it?", "yes", None),
        ("Shall I keep it or cancel it?", "yes", None),
        ("Möchten Sie keine Rechnung?", "nein", None),
        ("Vous ne voulez pas de facture ?", "oui", None),
        ("¿Lo guardo o lo borro?", "sí", None),
        ("領収書は必要ないですか。", "はい", None),
        ("夜の予約ですか、朝の予約ですか？", "はい", None),
        ("予約しますか？", "はい", True),
        ("هل تناولت أي دواء اليوم؟", "نعم", True),
        ("ألم تتناول أي دواء اليوم؟", "نعم", None),
        ("أليس لديك تأمين؟", "لا", None),
        ("Vuole la fattura?", "sì", True),
        ("Wilt u een factuur?", "nee", False),
        ("영수증이 필요하세요?", "네", True),
        ("영수증이 필요하지 않으세요?", "네", None),
        ("택배로 받으시겠어요, 방문하시겠어요?", "네", None),
        ("क्या आपको रसीद चाहिए?", "हाँ", True),
        ("क्या आपको रसीद नहीं चाहिए?", "हाँ", None),
        ("क्या आपको रसीद नहीं चाहिए?", "yes", None),
        ("Θέλετε απόδειξη;", "όχι", False),
        ("Δεν θέλετε απόδειξη;", "όχι", None),
        ("Fatura ister misiniz?", "evet", True),
        ("Fatura almadınız mı?", "evet", None),
        ("Kart ya da nakit mi?", "evet", None),
        ("Czy chcesz fakturę?", "no", None),
        ("Czy chcesz rachunek?", "no", None),
        ("Is it right? And shall ... [truncated]", "yes", None),
        ("領収書は必要ですか。袋は必要ですか。", "はい", None),
    ],
)
def test_yes_and_no_are_certain_only_where_they_answer_what_was_asked(asked: str, text: str, found: Any) -> None:
    assert value({"type": "boolean"}, text, asked=asked) is found


def test_no_is_for_the_model_where_the_keys_are_told_of_in_a_language_in_which_it_agrees() -> None:
    told = {"type": "boolean", "description": "czy klient potrzebuje faktury, prawda gdy tak właśnie mówi"}
    assert value(told, "no", asked="Potrzebna faktura?") is None
    assert value(told, "nein", asked="Potrzebna faktura?") is False


def test_a_choice_is_certain_after_the_first_question_only_where_the_choices_were_said_last() -> None:
    colours = {"enum": ["red", "blue", "ok"]}
    assert value(colours, "red", first=False, asked="Seats come in red. Which do you like?") is None
    assert value(colours, "red", first=False, asked="Red, blue or ok?") == "red"
    assert value(colours, "ok", first=False, asked="Red, blue or ok?") is None


@pytest.mark.parametrize(
    ("schema", "text"),
    [({"type": "boolean"}, "yes"), ({"type": "integer"}, "3"), ({"enum": ["yes", "no"]}, "yes")],
)
def test_an_answer_to_one_of_two_questions_is_for_the_model(schema: dict[str, Any], text: str) -> None:
    assert value(schema, text, asked="How many nights? And how many guests?") is None
    assert value(schema, text, asked="You are welcome. How many guests?") is not None


AGE = {"type": "integer", "minimum": 1}


@pytest.mark.parametrize(
    "asked",
    [
        *("Rate us from 1 to 5. How old are you?", "How old are you? Rate us!"),
        *("We would love a rating. How old are you?", "How old are you, or 3 for a person?"),
        *("Rating:\nAge:", "Age and number of children?", "How many nights, how many guests?", "Adults / children?"),
        *("Bewerten Sie uns. Wie alt sind Sie?", "Wie alt sind Sie und wie viele Kinder haben Sie?"),
        *("Évaluez-nous. Quel âge avez-vous ?", "Valuti il servizio. Quanti anni ha?"),
        *("Оцените нас. Сколько вам лет?", "قيّم خدمتنا. كم عمرك؟", "평가해 주세요. 몇 살이세요?"),
        *("評価してください。おいくつですか。", "请打分。您几岁？"),
        *("सेवा को आंकें। आपकी उम्र क्या है?", "Puan verin. Kaç yaşındasınız?", "Hoe oud bent u en uw vrouw?"),
        *("ให้คะแนนเรา 1 ถึง 5 คุณอายุเท่าไร", "3 = help. How old are you?"),
    ],
)
def test_a_number_is_for_the_model_where_anything_else_stands_beside_its_question(asked: str) -> None:
    assert value(AGE, "3", asked=asked) is None


@pytest.mark.parametrize(
    "asked",
    [
        *("How old are you?", "Thank you, Ada. How old are you?", "Great! Your age, in years:"),
        *("Danke, Frau Lovelace. Wie alt sind Sie?", "Merci. Quel âge avez-vous ?", "¡Gracias! ¿Cuántos años tiene?"),
        *("Спасибо. Сколько вам лет?", "ありがとうございます。おいくつですか。", "شكرا. كم عمرك؟"),
        *("감사합니다. 나이가 어떻게 되세요?", "धन्यवाद। आपकी उम्र क्या है?", "谢谢。您今年多大？"),
        *("How old are you (1 to 120)?", "Please enter your age."),
    ],
)
def test_a_number_is_certain_where_its_question_stands_alone_but_for_thanks(asked: str) -> None:
    assert value(AGE, "34", asked=asked) == 34


@pytest.mark.parametrize(
    ("schema", "text", "asked", "found"),
    [
        (ZIP, "24103", "The postcode? And the order number?", None),
        (ZIP, "24103", "Your postcode and your order number?", None),
        (ZIP, "24103", "Geben Sie die Bestellnummer ein. Und die Postleitzahl?", None),
        (ZIP, "24103", "It is for the bill. What is your postcode?", "24103"),
        ({"type": "string", "format": "email"}, "ada@example.org", "Your e-mail?", "ada@example.org"),
        ({"type": "boolean"}, "yes", "Confirm the order. Are you over 18?", None),
        ({"type": "boolean"}, "yes", "Do you accept the terms and conditions?", True),
        ({"type": "boolean"}, "no", "Are you over 18 and do you agree?", None),
        ({"type": "boolean"}, "yes", "Herbata czy kawa?", None),
        ({"enum": ["red", "blue"]}, "red", "Which colour for the frame, and which for the seat?", None),
        ({"enum": ["red", "blue"]}, "red", "Frame: red or blue? Seat: red or blue?", None),
    ],
)
def test_nothing_is_certain_where_more_than_one_thing_was_asked_for(
    schema: dict[str, Any], text: str, asked: str, found: Any
) -> None:
    assert value(schema, text, asked=asked) == found


@pytest.mark.parametrize(
    ("schema", "text", "found"),
    [
        ({"type": "boolean"}, "yes", None),
        ({"enum": ["yes", "no", "maybe"]}, "no", None),
        ({"enum": ["yes", "no", "maybe"]}, "maybe", None),
        ({"type": "integer"}, "3", None),
        ({"type": "string", "pattern": "^[0-9]{1,2}$"}, "3", None),
        (ZIP, "24103", "24103"),
    ],
)
def test_a_short_answer_is_certain_only_to_the_states_first_question(
    schema: dict[str, Any], text: str, found: Any
) -> None:
    assert value(schema, text, first=False) == found


LIST = "How would you like it?\n1. Small\n2. Very large"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (f"{LIST}\nPlease choose one.", "Very large"),
        (f"{LIST}\nReply with the number.", "Very large"),
        (f"{LIST}\nBitte wählen Sie eine Nummer", "Very large"),
        ("How would you like it? Please choose one:\n1. Small\n2. Very large", "Very large"),
        (f"{LIST}\nPlease choose a number from 1 to 5.", None),
        (f"{LIST}\nPlease choose one and tell me how many.", None),
        (f"{LIST}\nPlease enter your number.", None),
        ("How many? Please enter a number. As they come:\n1. Small\n2. Very large", None),
        (f"{LIST}\nPlease choose one.\nHow many guests?", None),
    ],
)
def test_what_only_asks_to_choose_from_a_list_is_no_further_question(asked: str, found: Any) -> None:
    assert value(SIZES, "2", asked=asked) == found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Got it. And your postal code?", "94110"),
        ("¿Y su código postal?", "94110"),
        ("En wat is uw postcode?", "94110"),
        ("A jaki jest kod pocztowy? Dziękuję.", "94110"),
        ("And your code and street?", None),
        ("En wat is uw postcode en straat?", None),
        ("A jaki jest kod i numer, w którym mieście?", None),
    ],
)
def test_a_question_that_begins_with_and_asks_for_one_thing(asked: str, found: Any) -> None:
    assert value(ZIP, "94110", asked=asked) == found
