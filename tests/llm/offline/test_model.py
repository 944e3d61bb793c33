"""A partner without a model: values that are certain, moves that are certain, and what it says
otherwise.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm import Machine
from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.offline.extract import read_update
from llm_fsm.llm.offline.model import NOTICE, OfflineLLM, answer
from llm_requests import LOOK, choice, request, view

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}
EMAIL = {"type": "string", "format": "email"}
DATE = {"type": "string", "format": "date"}
HOUR = {"type": "string", "pattern": "^\\d\\d:\\d\\d$"}
SIZE = {"type": "string", "enum": ["small", "medium", "extra large"]}
CODE = {"type": "string", "pattern": "^[A-Z]{2}-\\d{4}$"}
PHONE = {"type": "string", "pattern": "^\\+?[0-9 ()/-]{6,25}$"}
MENU = "Which one?\n1. medium\n2. small\n3) extra large"


def update(
    user: str,
    wanted: dict,
    context: dict | None = None,
    others: dict | None = None,
    words: str = "",
) -> dict:
    known = context or {}
    writable = {**wanted, **(others or {}), **{key: (others or {}).get(key, {}) for key in known}}
    seen = view(user=user, wanted=wanted, writable=writable, context=known, own_words=words)
    return read_update(seen)


@pytest.mark.parametrize(
    ("user", "schema", "value"),
    [
        ("it's ada@example.org, thanks", EMAIL, "ada@example.org"),
        ("my mail is <a.b+c@mail.example.co.uk>.", EMAIL, "a.b+c@mail.example.co.uk"),
        ("I have none", EMAIL, None),
        ("on 2026-12-24 please", DATE, "2026-12-24"),
        ("24.12.2026", DATE, "2026-12-24"),
        ("the 3rd of May 2027", DATE, "2027-05-03"),
        ("May 3, 2027", DATE, "2027-05-03"),
        ("May 3", DATE, None),
        ("tomorrow", DATE, None),
        ("2026-02-31", DATE, None),
        ("2026-12-24 or 2026-12-25", DATE, None),
        ("at 3 pm", HOUR, "15:00"),
        ("15:30", HOUR, "15:30"),
        ("9.15am", HOUR, "09:15"),
        ("12 am", HOUR, "00:00"),
        ("25:00", {"type": "string", "format": "time"}, None),
        ("3pm", {"type": "string", "format": "time"}, "15:00"),
        ("we are four", NUMBER, 4),
        ("the blue one", NUMBER, None),
        ("one", NUMBER, 1),
        ("1,200 pieces", NUMBER, 1200),
        ("-3", NUMBER, -3),
        ("3.5", NUMBER, None),
        ("3.5 kg", {"type": "number"}, 3.5),
        ("200, no, 20", {"type": "integer", "maximum": 99}, None),
        ("minus 8", NUMBER, None),
        ("8 to 12", NUMBER, None),
        ("three or more", NUMBER, None),
        ("at 8:15 in the evening", HOUR, "20:15"),
        ("in the evening, at 8:15", HOUR, "20:15"),
        ("8:15 o'clock in the evening", HOUR, "20:15"),
        ("a quarter past eight in the evening", HOUR, "20:15"),
        ("half past eight in the evening", HOUR, "20:30"),
        ("at about 8:15", HOUR, None),
        ("after 8:15 pm", HOUR, None),
        ("before 2027-04-18", DATE, None),
        ("until 2027-04-18", DATE, None),
        ("from 2027-04-18 to 2027-04-20", DATE, None),
        ("on 2027-04-18", DATE, "2027-04-18"),
        ("8:15, this evening or tomorrow", HOUR, None),
        ("maybe 8:15", HOUR, None),
        ("in 100 weeks", DATE, None),
        ("ja", BOOLEAN, True),
        ("24/12/2026", DATE, "2026-12-24"),
        ("+49 421 555987", {"type": "string", "pattern": "^[0-9]{6,}$"}, None),
        ("+49 421 555987", {"type": "string", "pattern": r"^\+[0-9]{8,15}$"}, "+49421555987"),
        ("how about 20?", NUMBER, None),
        ("Yes.", BOOLEAN, True),
        ("no thanks", BOOLEAN, False),
        ("yes, but later", BOOLEAN, None),
        ("that is not correct", BOOLEAN, None),
        ("maybe", BOOLEAN, None),
        ("Medium please", SIZE, "medium"),
        ("an extra-large one", SIZE, "extra large"),
        ("not small, medium", SIZE, "medium"),
        ("small or medium", SIZE, None),
        ("small or medium?", SIZE, None),
        ("not small", SIZE, None),
        ("2", SIZE, None),
        ("huge", SIZE, None),
        ("C#", {"enum": ["C", "C++", "C#"]}, "C#"),
        ("in C, please", {"enum": ["C", "C++", "C#"]}, "C"),
        ("the Post-Event one", {"enum": ["Event", "Post-Event", "Post-Even"]}, "Post-Event"),
        ("2", {"enum": [1, 2, 3]}, 2),
        ("cancel", {"enum": ["book", "cancel"]}, "cancel"),
        ("my code is AB-1234.", CODE, "AB-1234"),
        ("ab-1234", CODE, "AB-1234"),
        ("1234", CODE, None),
        ("call 030 555 0188 please", PHONE, "030 555 0188"),
        ("eggs, milk and bread", {"type": "array", "items": TEXT}, ["eggs", "milk", "bread"]),
        ("I'd like small and medium", {"type": "array", "items": SIZE}, ["small", "medium"]),
        ("1, 2 and 3", {"type": "array", "items": NUMBER}, [1, 2, 3]),
        ("My screen is broken.", TEXT, "My screen is broken."),
        ("My screen is broken.", {}, "My screen is broken."),
        ("what is that?", TEXT, None),
        ("yes", TEXT, None),
        ("stop", TEXT, None),
        ("hello", TEXT, None),
        ("x", {"type": "string", "minLength": 3}, None),
        ("anything", {"type": "object"}, None),
        ("for the engine to check", {"$ref": "#/$defs/none"}, "for the engine to check"),
    ],
)
def test_a_value_is_read_by_its_schema_where_it_is_certain(user, schema, value):
    assert update(user, {"answer": schema}) == ({} if value is None else {"answer": value})


@pytest.mark.parametrize(
    ("user", "value"),
    [("1", "medium"), ("2.", "small"), ("the third one", "extra large"), ("number two", "small"), ("4", None),
     ("2 of them", None)],
)  # fmt: skip
def test_a_number_counts_as_it_was_shown(user, value):
    assert update(user, {"size": SIZE}, words=MENU) == ({} if value is None else {"size": value})


@pytest.mark.parametrize(
    ("key", "user", "value"),
    [
        ("name", "Ada", "Ada"),
        ("name", "I'm Ada", "Ada"),
        ("name", "my name is Ada Lovelace", "Ada Lovelace"),
        ("name", "it’s O'Neill.", "O'Neill"),
        ("user_name", "Ümit", "Ümit"),
        ("company_name", "I'm looking for a shoe", "I'm looking for a shoe"),
        ("city", "I'm Ada", "I'm Ada"),
    ],
)
def test_the_whole_message_is_the_free_text_that_is_asked_for(key, user, value):
    assert update(user, {key: TEXT}) == {key: value}


@pytest.mark.parametrize(
    ("user", "value"),
    [
        ("+49 421 555987", "+49 421 555987"),
        ("my number is 040 7654321", "040 7654321"),
        ("it's (040) 765-4321, thanks", "(040) 765-4321"),
        ("0421/555-987", "0421/555-987"),
        ("my phone is 040 7654321", "040 7654321"),
        ("my number is 040 7654321 and my order is 815", None),
        ("040 7654321 or 040 7654322", None),
        ("I have none", None),
        ("call me after 5", None),
    ],
)
@pytest.mark.parametrize("title", ["phone", "telephone number", "Handynummer"])
def test_a_telephone_number_is_never_a_sentence(title: str, user: str, value: str | None) -> None:
    found = update(user, {"number": {"type": "string", "title": title}})
    assert found == ({} if value is None else {"number": value})


def test_numbers_of_a_definition_are_in_its_language():
    spoken = view(user="siebzehn", wanted={"n": NUMBER}, writable={"n": NUMBER}, language="de")
    assert read_update(spoken) == {"n": 17}


def test_several_typed_values_are_taken_from_one_message_and_a_name_that_is_all_the_rest():
    wanted = {"name": TEXT, "email": EMAIL, "guests": NUMBER, "day": DATE}
    assert update("I'm Ada, ada@example.org, 4, 2026-12-24", wanted) == {
        "name": "Ada",
        "email": "ada@example.org",
        "guests": 4,
        "day": "2026-12-24",
    }
    assert update("4 for the party on 2026-12-24", wanted) == {"guests": 4, "day": "2026-12-24"}


def test_a_typed_value_belongs_to_the_key_that_is_named_beside_it_where_several_fit():
    wanted = {"children": NUMBER, "adults": NUMBER}
    assert update("2 adults and 3 children", wanted) == {"adults": 2, "children": 3}
    assert update("2 and 3", wanted) == {}
    assert update("2", wanted) == {"children": 2}


def test_the_whole_message_answers_only_what_is_asked_for_first():
    assert update("12 Main Street", {"address": {}, "city": {}}) == {"address": "12 Main Street"}
    assert update("12 Main Street", {"email": EMAIL, "city": {}}) == {}


@pytest.mark.parametrize(
    ("user", "changed"),
    [
        ("change my email to b@example.org", {"email": "b@example.org"}),
        ("yes, but the size is medium", {"size": "medium"}),
        ("size medium instead of small", {"size": "medium"}),
        ("change the city to Rome", {"city": "Rome"}),
        ("the city is Rome. And the rest is right", {"city": "Rome"}),
        ("the email is a@example.org", {}),
        ("make it medium", {}),
        ("b@example.org", {}),
        ("is my email b@example.org?", {}),
        ("no", {}),
    ],
)
def test_a_known_value_is_corrected_by_the_title_of_its_key(user, changed):
    context = {"email": "a@example.org", "city": "Paris", "size": "small", "name": "Ada"}
    others = {"email": EMAIL, "city": TEXT, "size": SIZE, "name": TEXT}
    assert update(user, {}, context, others) == changed


BEFORE = choice(
    "done", judged=False, requires=("day",), logic=({">": [{"var": "day"}, "2026-12-01"]},),
    reasons=("The day is in December",),
)  # fmt: skip


def test_a_bare_value_corrects_the_key_that_keeps_the_way_closed():
    seen = {
        "context": {"day": "2026-11-01", "size": "small"},
        "writable": {"day": DATE, "size": SIZE},
    }
    reply = answer(view(state="here", user="2026-12-24", choices=(BEFORE,), **seen))
    assert reply["transition"] == {"target_state": "done", "context_update": {"day": "2026-12-24"}}
    reply = answer(view(state="here", user="medium", choices=(BEFORE,), **seen))
    assert reply["transition"] == {"target_state": "here", "context_update": {}}
    assert reply["message"] == "I cannot continue with that."


def test_a_yes_after_a_no_changes_what_a_choice_depends_on():
    gate = choice("done", judged=False, logic=({"==": [{"var": "confirmed"}, True]},))
    writable = {"confirmed": BOOLEAN, "newsletter": BOOLEAN}
    known = {"confirmed": False, "newsletter": False}
    reply = answer(view(user="yes", context=known, writable=writable, choices=(gate,)))
    assert reply["transition"] == {"target_state": "done", "context_update": {"confirmed": True}}


NEXT = choice("next", requires=("name",), judged=False)
YES = choice("done", description="The user confirms")
NO = choice("edit", description="The user says no, or wants to change something")
OVER_FOUR = choice("group", judged=False, logic=({">": [{"var": "guests"}, 4]},))
UP_TO_FOUR = choice("table", judged=False, logic=({"<=": [{"var": "guests"}, 4]},))
BILLING = choice("billing", description="Questions about an invoice or a payment")
REPAIR = choice("repair", description="A device is broken")
CANCEL = choice("cancelled", description="The user does not want it any more", own=False)
STOPPED = choice("gone", description="The user wants to stop", own=False)
LEFT_OUT = choice("next", description="The user has no phone")


@pytest.mark.parametrize(
    ("user", "wanted", "context", "choices", "target"),
    [
        ("I'm Ada", {"name": TEXT}, {}, (NEXT,), "next"),
        ("what?", {"name": TEXT}, {}, (NEXT,), "here"),
        ("we are 6", {"guests": NUMBER}, {}, (UP_TO_FOUR, OVER_FOUR), "group"),
        ("we are 2", {"guests": NUMBER}, {}, (UP_TO_FOUR, OVER_FOUR), "table"),
        (
            "Ada",
            {"name": TEXT},
            {},
            (choice("next", description="The name is known"), CANCEL),
            "next",
        ),
        ("4", {"guests": NUMBER, "name": TEXT}, {}, (choice("next"),), "here"),
        (
            "Ada",
            {"name": TEXT},
            {},
            (choice("x", logic=({"nonsense": []},), judged=False),),
            "here",
        ),
        ("yes", {}, {}, (YES, NO), "done"),
        ("Yes!", {}, {}, (YES, NO, CANCEL), "done"),
        ("yes", {}, {}, (NO,), "here"),
        ("yes", {}, {}, (choice("next"),), "next"),
        ("yes", {}, {}, (choice("next"), choice("other")), "here"),
        (
            "yes",
            {},
            {},
            (choice("a", description="Yes: it works", own=False), choice("b", description="x")),
            "a",
        ),
        ("yes", {"name": TEXT}, {}, (YES, NO), "here"),
        ("yes, but wait", {}, {}, (YES, NO), "here"),
        ("no", {}, {}, (YES, NO, CANCEL), "edit"),
        ("no", {}, {}, (YES, CANCEL), "here"),
        ("no", {}, {}, (YES, choice("end", description="The user does not confirm")), "end"),
        ("no", {"phone": PHONE}, {"name": "Ada"}, (NEXT, LEFT_OUT), "next"),
        ("skip", {"phone": PHONE}, {}, (LEFT_OUT, CANCEL), "next"),
        ("no", {"phone": PHONE}, {}, (choice("next"),), "here"),
        ("billing", {}, {}, (BILLING, REPAIR), "billing"),
        ("A device is broken.", {}, {}, (BILLING, REPAIR), "repair"),
        ("my laptop is broken", {}, {}, (BILLING, REPAIR), "here"),
        ("why is the invoice so high?", {}, {}, (BILLING, REPAIR), "here"),
        ("stop", {"name": TEXT}, {}, (NEXT, CANCEL), "cancelled"),
        ("goodbye", {"name": TEXT}, {}, (NEXT, STOPPED), "gone"),
        ("stop", {}, {}, (choice("x", description="Bleeding that does not stop"), STOPPED), "gone"),
        ("stop", {}, {}, (STOPPED, CANCEL), "here"),
        ("cancel", {"wish": {"enum": ["book", "cancel"]}}, {}, (CANCEL,), "here"),
        ("don't stop now", {}, {}, (STOPPED,), "here"),
        ("green", {}, {}, (choice("next"),), "here"),
        ("0170 5550188", {}, {}, (YES,), "here"),
        ("leaving 2026-12-15", {"arrival": DATE, "departure": DATE}, {}, (STOPPED,), "here"),
    ],
)
def test_a_move_is_taken_only_where_it_is_certain(user, wanted, context, choices, target):
    seen = view(
        state="here", user=user, wanted=wanted, writable=wanted, context=context, choices=choices
    )
    assert answer(seen)["transition"]["target_state"] == target


def test_a_correction_never_takes_the_only_way_of_a_state_that_asks_for_nothing():
    known = {"amount": 2000}
    seen = view(
        state="here",
        user="yes, but amount 2500",
        context=known,
        writable={"amount": NUMBER},
        choices=(YES,),
    )
    assert answer(seen) == {
        "transition": {"target_state": "here", "context_update": {"amount": 2500}},
        "message": "Noted – amount: 2500.",
    }


@pytest.mark.parametrize(
    ("user", "patterns", "target"),
    [
        ("stop", ("cancel", "skip"), "cancel"),
        ("Say that again.", ("repeat",), "repeat"),
        ("start over", ("restart",), "restart"),
        ("skip", ("skip",), "skip"),
        ("a human", ("handover",), "handover"),
        ("I want to speak to a human", ("handover",), "handover"),
        ("a human told me so", ("handover",), "here"),
        ("skip", (), "here"),
    ],
)
def test_a_message_that_is_nothing_else_names_a_pattern(user, patterns, target):
    seen = view(
        state="here", user=user, wanted={"code": CODE}, writable={"code": CODE}, patterns=patterns
    )
    assert answer(seen)["transition"] == {"target_state": target, "context_update": {}}


def words(**changes) -> str:
    return answer(view(**changes))["message"]


def test_the_greeting_is_the_definitions_own_and_the_notice_stands_beside_it():
    said = words(user=None, speak=True, own_words="Welcome to Ada's", wanted={"name": {}})
    assert said == "Welcome to Ada's. Please tell me: name."
    assert OfflineLLM().notice == NOTICE


@pytest.mark.parametrize("question", ["Who are you?", "ما اسمك؟"])
def test_words_that_ask_are_not_followed_by_another_question(question):
    assert words(user=None, speak=True, own_words=question, wanted={"name": {}}) == question


@pytest.mark.parametrize(
    ("key", "schema", "asked"),
    [
        ("email_address", {"title": "E-mail"}, "E-mail"),
        ("delivery_day", DATE, "delivery day (a date such as 2026-03-14)"),
        ("size", SIZE, "size (small, medium, extra large)"),
        ("ok", {"type": "boolean"}, "ok (yes or no)"),
        ("postcode", {"description": "Ask for five digits.", "pattern": "^[0-9]{5}$"}, "postcode"),
        (
            "size",
            {"enum": ["s", "xl"], "x-labels": {"s": "small", "xl": "extra large"}},
            "size (small, extra large)",
        ),
        ("size", {"enum": ["very_small", "big"]}, "size (very small, big)"),
    ],
)
def test_a_key_is_asked_for_by_a_readable_name_and_its_form(key, schema, asked):
    assert words(speak=True, wanted={key: schema}) == f"Please tell me: {asked}."


def test_words_alone_are_the_states_own():
    reply = answer(
        view(state="s", user="x", speak=True, own_words="All is done", choices=(choice("next"),))
    )
    assert reply == {
        "transition": {"target_state": "s", "context_update": {}},
        "message": "All is done.",
    }
    assert words(speak=True) == "Please go on."


def test_a_move_speaks_the_arrivals_words_and_asks_for_what_it_needs():
    there = choice("next", arrival="Now the delivery", wanted={"name": TEXT, "size": SIZE})
    said = words(user="I'm Ada", wanted={"name": TEXT}, writable={"name": TEXT}, choices=(there,))
    assert said == "Now the delivery. Please tell me: size (small, medium, extra large)."


def test_a_fixed_reply_follows_by_itself():
    assert words(user="ok", choices=(choice("next", arrival="Goodbye!", fixed=True),)) == ""


def test_a_fixed_reply_with_the_values_of_before_is_not_said_beside_a_correction():
    known = {"amount": 2000}
    spoken = {
        "own_words": "2000 euros. Is that right?",
        "purpose": "",
        "choices": (YES,),
        "context": known,
    }
    assert (
        words(user="amount 2500", writable={"amount": NUMBER}, **spoken) == "Noted – amount: 2500."
    )
    assert words(user="hm?", **spoken) == "I did not understand that. 2000 euros. Is that right?"


def test_what_is_not_understood_is_said_before_the_question_is_asked_again():
    said = words(user="hm?", wanted={"day": DATE}, choices=(NEXT,))
    assert said == "I did not find day in that. Please tell me: day (a date such as 2026-03-14)."


@pytest.mark.parametrize(
    ("format_", "form"),
    [
        ("date", " (a date such as 2026-03-14)"),
        ("time", " (a time such as 15:30)"),
        ("email", " (such as ada@example.org)"),
        ("uri", " (such as https://example.org)"),
        ("ipv4", ""),
    ],
)
def test_a_purpose_that_asks_is_told_the_form_that_is_wanted(format_, form):
    said = words(
        user="hm?",
        wanted={"v": {"type": "string", "format": format_, "title": "value"}},
        choices=(NEXT,),
        purpose="What is it?",
    )
    assert said == f"I did not find value{form} in that."


@pytest.mark.parametrize(
    "said",
    [
        "repeat",
        "Repeat, please",
        "can you repeat that?",
        "a human",
        "an agent please",
        "I want to talk to a human",
        "I need a person",
        "please start over",
        "go back now",
        "I want to cancel",
    ],
)
@pytest.mark.parametrize("title", ["story", "name", "reason", "company name"])
def test_a_wish_is_no_free_text(said, title):
    assert update(user=said, wanted={"v": {"type": "string", "title": title}}) == {}


def test_what_was_understood_is_said_before_the_next_question():
    wanted = {"ok": {"type": "boolean", "title": "Ready"}, "day": DATE}
    said = words(user="yes", wanted=wanted, writable=wanted, choices=())
    assert said == "Noted – Ready: yes. Please tell me: day (a date such as 2026-03-14)."


def test_without_a_matching_move_the_state_asks_again_and_shows_no_ids_and_no_words_for_models():
    said = words(user="the weather", own_words="How can I help?", choices=(BILLING, REPAIR, NEXT))
    assert said == "I did not understand that. How can I help?"


GUESTS = {"type": "integer", "title": "number of guests"}
COLOUR = {"enum": ["red", "blue"]}
LABELLED = {"enum": ["s", "xl"], "x-labels": {"s": "klein", "xl": "sehr groß"}}
JA = {"type": "boolean", "x-labels": {"true": "ja", "false": "nein"}}


@pytest.mark.parametrize(("user", "wanted", "values"), [
    # Titles of several words are heard.
    ("the number of guests is 4", {"guests": GUESTS, "children": NUMBER}, {"guests": 4}),
    ("Number-of-guests: 4", {"guests": GUESTS, "children": NUMBER}, {"guests": 4}),
    ("date of birth 2001-05-03, date 2026-12-24", {"date": DATE, "date_of_birth": DATE},
     {"date": "2026-12-24", "date_of_birth": "2001-05-03"}),
    # A value belongs to the title before it, else it is asked for.
    ("adults 2 children 3", {"children": NUMBER, "adults": NUMBER}, {"adults": 2, "children": 3}),
    ("arrival 2026-12-01, departure 2026-12-05", {"departure": DATE, "arrival": DATE},
     {"arrival": "2026-12-01", "departure": "2026-12-05"}),
    ("first name Ada, last name Byron", {"last_name": TEXT, "first_name": TEXT},
     {"first_name": "Ada", "last_name": "Byron"}),
    ("adults and children: 2, 3", {"children": NUMBER, "adults": NUMBER}, {}),
    ("departure as said, 2026-12-01 or 2026-12-05", {"departure": DATE, "arrival": DATE}, {}),
    # Digits of a date, a time, a telephone number or a code are no count.
    *((user, {"guests": NUMBER, "note": BOOLEAN}, {}) for user in (
        "on 2026-12-24", "24.12.2026", "24.12. please", "on 24 December", "May 3, 2027", "on the 24th", "12/24",
        "at 7 pm", "at 19:30", "7 o'clock", "at seven", "around 8", "in 2027", "call 030 555 0188",
        "+49 170 5550188", "my number is 0170-5550188", "code AB-1234", "AB 1234", "order 4711", "flight LH 400",
        "PIN: 1234", "invoice number 778",
    )),
    ("4 people on 24.12.2026 at 19:30", {"guests": NUMBER, "note": BOOLEAN}, {"guests": 4}),
    ("we are four at 7 pm", {"guests": NUMBER, "note": BOOLEAN}, {"guests": 4}),
    # Not to know is no "no", and what is not wanted is no choice.
    ("no idea", {"ok": BOOLEAN}, {}),
    ("no idea", {"ok": {"enum": ["yes", "no"]}}, {}),
    ("I have no idea", {"city": TEXT}, {}),
    ("I don't know", {"city": TEXT}, {}),
    ("no, thanks", {"ok": {"enum": ["yes", "no"]}}, {"ok": "no"}),
    ("anything but small", {"size": SIZE}, {}),
    ("everything except medium", {"size": SIZE}, {}),
    ("I hate red", {"colour": COLOUR}, {}),
    ("I don't like blue", {"colour": COLOUR}, {}),
    ("blue is not for me", {"colour": COLOUR}, {}),
    ("I hate red, blue please", {"colour": COLOUR}, {"colour": "blue"}),
    ("not small but medium", {"size": SIZE}, {"size": "medium"}),
    # A sentence is no name.
    ("Hi, I am Ada", {"name": TEXT}, {"name": "Ada"}),
    ("Hello! My name is Ada Lovelace.", {"name": TEXT}, {"name": "Ada Lovelace"}),
    ("Hi, my name is Ada and I want a table", {"name": TEXT}, {"name": "Ada"}),
    ("Good evening, Ludwig van Beethoven", {"name": TEXT}, {"name": "Ludwig van Beethoven"}),
    ("ada", {"name": TEXT}, {"name": "ada"}),
    ("Hi, I'd like a table", {"name": TEXT}, {}),
    ("I'm looking for a shoe", {"name": TEXT}, {}),
    ("Ich bin Ada", {"name": TEXT}, {}),
    # Labels are taken as well as shown.
    ("sehr groß", {"size": LABELLED}, {"size": "xl"}),
    ("Klein bitte", {"size": LABELLED}, {"size": "s"}),
    ("nein", {"ok": JA}, {"ok": False}),
])  # fmt: skip
def test_only_what_is_certain_is_taken(user, wanted, values):
    assert update(user, wanted) == values


def test_in_another_language_it_says_the_definitions_own_words_and_no_english():
    spoken = {"language": "de", "own_words": "Wie viele Gäste?", "purpose": "Wie viele Gäste?"}
    wanted = {
        "guests": {"type": "integer", "title": "Gäste"},
        "size": {**LABELLED, "title": "Größe"},
    }
    assert words(user=None, speak=True, wanted=wanted, **spoken) == "Wie viele Gäste?"
    # the machine asks, in the words of the purpose
    assert words(user="hm", wanted=wanted, **spoken) == ""
    told = {"language": "de", "own_words": "Willkommen.", "purpose": "Willkommen."}
    assert words(user=None, speak=True, wanted=wanted, **told) == "Willkommen. Gäste?"
    later = {"size": wanted["size"]}
    assert words(user="hm", wanted=later, **told) == "Größe (klein, sehr groß)?"
    assert (
        words(user="4", wanted=wanted, writable=wanted, **told)
        == "Gäste: 4. Größe (klein, sehr groß)?"
    )
    assert words(user="das Wetter", choices=(BILLING, REPAIR), **told) == "Willkommen."
    assert words(user="4", refused=("closed",), wanted=later, **told) == "Größe (klein, sehr groß)?"
    assert words(user="x", speak=True, language="de") == "…"


def test_labels_are_counted_as_they_were_shown():
    shown = "Welche?\n1. klein\n2. sehr groß"
    assert update("2", {"size": LABELLED}, words=shown) == {"size": "xl"}


def test_after_a_refusal_it_stays():
    seen = view(
        state="here", user="I'm Ada", wanted={"name": TEXT}, choices=(NEXT,), refused=("closed",)
    )
    assert answer(seen) == {
        "transition": {"target_state": "here", "context_update": {}},
        "message": "That is not possible now. Please tell me: name.",
    }


@given(st.text(max_size=60))
@settings(max_examples=200)
def test_any_message_gets_words_and_a_legal_target(user):
    wanted = {
        "name": TEXT,
        "day": DATE,
        "size": SIZE,
        "code": CODE,
        "tags": {"type": "array"},
        "n": {"type": "number"},
    }
    reply = answer(view(user=user, wanted=wanted, writable=wanted, choices=(NEXT, YES)))
    assert reply["message"] or reply["transition"]["target_state"] != "ask_name"
    assert reply["transition"]["target_state"] in {"ask_name", "next", "done"}
    assert set(reply["transition"]["context_update"]) <= set(wanted)
    json.dumps(reply, allow_nan=False)


@pytest.mark.parametrize(
    "user", ["a" * 10**6, "1" * 10**6, "a@" * 10**5, "I'm " * 10**5, "\x00" * 10**5, "é́" * 10**5]
)
def test_a_message_of_a_megabyte_is_read_only_at_its_beginning(user):
    wanted = {"name": TEXT, "email": EMAIL, "code": CODE, "phone": TEXT, "day": DATE}
    assert answer(view(user=user, wanted=wanted, writable=wanted))["message"]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_adapter_answers_with_the_reply_as_json():
    llm = OfflineLLM()
    seen = view(user="I'm Ada", wanted={"name": TEXT}, choices=(NEXT,))
    reply = await llm.complete(request(view=seen))
    assert json.loads(reply.text) == answer(seen)
    assert (isinstance(llm, LLM), reply.model, llm.reads_view) == (True, "offline", True)
    with pytest.raises(ModelError, match="view"):
        await llm.complete(request(view=None))


@pytest.mark.anyio
async def test_a_task_gets_plain_words_and_no_calls():
    asked = request(view=view(task=True, purpose="Find the cheapest flight"), tools=(LOOK,))
    reply = await OfflineLLM().complete(asked)
    assert "Find the cheapest flight" in reply.text
    assert "no language model" in reply.text
    assert reply.tool_calls == ()


def test_a_value_that_breaks_a_rule_beside_a_move_is_asked_again_with_the_rule() -> None:
    rule = {"description": "The day is in 2099", "logic": {">": [{"var": "day"}, "2099"]}}
    definition = {
        "name": "card",
        "initial_state": "order",
        "context_schema": {"properties": {"email": EMAIL, "day": {**DATE, "x-valid": [rule]}}},
        "states": {
            "order": {
                "purpose": "Which address, and which day?",
                "required_context_keys": ["email", "day"],
                "transitions": [
                    {
                        "target_state": "done",
                        "conditions": [{"requires_context_keys": ["email", "day"]}],
                    }
                ],
            },
            "done": {"reply": "Thank you."},
        },
    }
    with Machine.from_dict(definition, model="offline", store="memory") as machine:
        chat = machine.start()
        turn = chat.send("ada@example.org on 2020-01-01")
        assert turn.state == "order"
        assert turn.text.startswith("The day is in 2099.")
        assert chat.send("2099-05-01").text == "Thank you."
