from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_fsm.errors import ModelError
from llm_fsm.llm.base import LLM
from llm_fsm.llm.offline.extract import read_update
from llm_fsm.llm.offline.model import OfflineLLM, answer
from llm_fsm.llm.offline.wording import NOTICE
from llm_requests import LOOK, choice, request, view

FRIDAY = 1_795_176_000.0  # 2026-11-20, a Friday

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
BOOLEAN = {"type": "boolean"}
EMAIL = {"type": "string", "format": "email"}
DATE = {"type": "string", "format": "date"}
HOUR = {"type": "string", "pattern": "^\\d\\d:\\d\\d$"}
SIZE = {"type": "string", "enum": ["small", "medium", "extra large"]}
CODE = {"type": "string", "pattern": "^[A-Z]{2}-\\d{4}$"}


def update(user: str, wanted: dict, context: dict | None = None, others: dict | None = None) -> dict:
    known = context or {}
    writable = {**wanted, **(others or {}), **{key: (others or {}).get(key, {}) for key in known}}
    seen = view(user=user, wanted=wanted, writable=writable, context=known, system={"_timestamp": FRIDAY})
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
        ("May 3", DATE, "2027-05-03"),
        ("December 1st", DATE, "2026-12-01"),
        ("tomorrow", DATE, "2026-11-21"),
        ("next Monday", DATE, "2026-11-23"),
        ("Friday", DATE, "2026-11-27"),
        ("2026-02-31", DATE, None),
        ("at 3 pm", HOUR, "15:00"),
        ("15:30", HOUR, "15:30"),
        ("9.15am", HOUR, "09:15"),
        ("half past three", HOUR, "03:30"),
        ("quarter to 5", HOUR, "04:45"),
        ("at noon", HOUR, "12:00"),
        ("2026-12-24 at 18:00", {"type": "string", "format": "date-time"}, "2026-12-24T18:00:00Z"),
        ("3pm", {"type": "string", "format": "time"}, "15:00"),
        ("see https://example.org/a?b=1.", {"type": "string", "format": "uri"}, "https://example.org/a?b=1"),
        ("we are four", NUMBER, 4),
        ("1,200 pieces", NUMBER, 1200),
        ("-3", NUMBER, -3),
        ("3.5", NUMBER, None),
        ("3.5 kg", {"type": "number"}, 3.5),
        ("200, no, 20", {"type": "integer", "maximum": 99}, 20),
        ("Yes, that's right", BOOLEAN, True),
        ("correct", BOOLEAN, True),
        ("that is not correct", BOOLEAN, False),
        ("no thanks", BOOLEAN, False),
        ("maybe", BOOLEAN, None),
        ("ok, sounds good to me", BOOLEAN, True),
        ("that's fine, thank you", BOOLEAN, True),
        ("great service", BOOLEAN, None),
        ("no problem at all", BOOLEAN, False),
        ("Medium please", SIZE, "medium"),
        ("an extra-large one", SIZE, "extra large"),
        ("not small, medium", SIZE, "medium"),
        ("2", SIZE, "medium"),
        ("the third one", SIZE, "extra large"),
        ("7", SIZE, None),
        ("huge", SIZE, None),
        ("not small", SIZE, None),
        ("two pizzas", SIZE, None),
        ("I'll take number 2", SIZE, "medium"),
        ("the wifi does not work", {"enum": ["no connection", "wifi only"]}, "wifi only"),
        ("at 3 pm", SIZE, None),
        ("no", {"enum": ["no connection", "wifi only"]}, None),
        ("ok", {"enum": [True, False]}, True),
        ("two", {"enum": [1, 2, 3]}, 2),
        ("my code is ab-1234.", CODE, "AB-1234"),
        ("1234", CODE, None),
        ("agreed", {"const": True}, True),
        ("eggs, milk and bread", {"type": "array", "items": TEXT}, ["eggs", "milk", "bread"]),
        ("I'd like small and medium", {"type": "array", "items": SIZE}, ["small", "medium"]),
        ("1, 2 and 3", {"type": "array", "items": NUMBER}, [1, 2, 3]),
        ("My screen is broken.", TEXT, "My screen is broken."),
        ("My screen is broken.", {}, "My screen is broken."),
        ("what is that?", TEXT, None),
        ("yes", TEXT, None),
        ("hello there", TEXT, None),
        ("help", TEXT, None),
        ("x", {"type": "string", "minLength": 3}, None),
        ("anything", {"type": "object"}, None),
        ("for the engine to check", {"$ref": "#/$defs/none"}, "for the engine to check"),
    ],
)
def test_a_value_is_read_by_its_schema(user, schema, value):
    assert update(user, {"answer": schema}) == ({} if value is None else {"answer": value})


@pytest.mark.parametrize(
    ("key", "user", "value"),
    [
        ("name", "I'm Ada", "Ada"),
        ("name", "my name is Ada Lovelace and I need help", "Ada Lovelace"),
        ("name", "my name is ada", "ada"),
        ("name", "Hi, it’s Ludwig van Beethoven.", "Ludwig van Beethoven"),
        ("name", "call me O'Neill", "O'Neill"),
        ("name", "Ada", "Ada"),
        ("name", "Hello, ada lovelace", "ada lovelace"),
        ("name", "I'm looking for a shoe", None),
        ("name", "I am not sure", None),
        ("name", "yes", None),
        ("name", "hello", None),
        ("user_name", "Ümit", "Ümit"),
        ("customerName", "I'm Bob", "Bob"),
        ("email", "ada@example.org", "ada@example.org"),
        ("phone_number", "call +49 (170) 555-0188 please", "+49 (170) 555-0188"),
        ("age", "I'm 30 years old", 30),
    ],
)
def test_an_undeclared_key_is_read_by_its_name(key, user, value):
    assert update(user, {key: {}}) == ({} if value is None else {key: value})


def test_several_values_are_taken_from_one_message():
    wanted = {"name": TEXT, "email": EMAIL, "guests": NUMBER, "day": DATE}
    said = "I'm Ada, ada@example.org, 4 guests on 2026-12-24"
    assert update(said, wanted) == {
        "name": "Ada",
        "email": "ada@example.org",
        "guests": 4,
        "day": "2026-12-24",
    }


def test_a_number_belongs_to_the_key_named_beside_it():
    wanted = {"children": NUMBER, "adults": NUMBER}
    assert update("2 adults and 3 children", wanted) == {"adults": 2, "children": 3}


@pytest.mark.parametrize(
    ("user", "others", "taken"),
    [
        (
            "a table for 4 tomorrow at 3 pm",
            {"day": DATE, "time": HOUR},
            {"guests": 4, "day": "2026-11-21", "time": "15:00"},
        ),
        ("4, tomorrow", {"day": DATE, "birthday": DATE}, {"guests": 4}),
        ("4, small", {"size": SIZE, "note": TEXT}, {"guests": 4}),
        ("is it open tomorrow?", {"day": DATE}, {}),
    ],
)
def test_a_value_that_nobody_asked_for_is_taken_where_it_is_unmistakable(user, others, taken):
    assert update(user, {"guests": NUMBER}, others=others) == taken


def test_a_free_text_that_is_stated_needs_no_whole_message():
    assert update("my city is Paris. And a name?", {"name": TEXT, "city": TEXT}) == {}
    assert update("the city is Paris", {"name": TEXT, "city": TEXT}) == {"city": "Paris"}


def test_the_whole_message_answers_only_what_is_asked_for_first():
    assert update("12 Main Street", {"address": {}, "city": {}}) == {"address": "12 Main Street"}
    assert update("12 Main Street", {"email": EMAIL, "city": {}}) == {}


@pytest.mark.parametrize(
    ("user", "changed"),
    [
        ("change my email to b@example.org", {"email": "b@example.org"}),
        ("actually it's b@example.org", {"email": "b@example.org"}),
        ("the email is a@example.org", {}),
        ("change the city to Rome", {"city": "Rome"}),
        ("make it medium instead", {"size": "medium"}),
        ("my name is actually Bob", {"name": "Bob"}),
        ("b@example.org", {}),
        ("is my email a@example.org?", {}),
        ("no", {}),
    ],
)
def test_known_values_are_corrected_when_they_are_meant(user, changed):
    context = {"email": "a@example.org", "city": "Paris", "size": "small", "name": "Ada"}
    others = {"email": EMAIL, "city": TEXT, "size": SIZE, "name": TEXT}
    assert update(user, {}, context, others) == changed


def test_a_correction_and_an_answer_in_one_message():
    context, others = {"email": "a@example.org"}, {"email": EMAIL}
    said = "no, my email is b@example.org"
    assert update(said, {"confirmed": BOOLEAN}, context, others) == {
        "email": "b@example.org",
        "confirmed": False,
    }


def test_a_yes_after_a_no_changes_what_a_choice_depends_on():
    gate = choice("done", judged=False, logic=({"==": [{"var": "confirmed"}, True]},))
    writable = {"confirmed": BOOLEAN, "newsletter": BOOLEAN}
    known = {"confirmed": False, "newsletter": False}
    assert read_update(view(user="yes", context=known, writable=writable, choices=(gate,))) == {
        "confirmed": True
    }


NEXT = choice("next", requires=("name",), judged=False)
YES = choice("done", description="The user confirms")
NO = choice("edit", description="The user wants to change something")
OVER_FOUR = choice("group", judged=False, logic=({">": [{"var": "guests"}, 4]},))
UP_TO_FOUR = choice("table", judged=False, logic=({"<=": [{"var": "guests"}, 4]},))
BILLING = choice("billing", description="Questions about an invoice or a payment")
REPAIR = choice("repair", description="A device is broken")
CANCEL = choice("cancelled", description="The user cancels")


@pytest.mark.parametrize(
    ("user", "wanted", "context", "choices", "target"),
    [
        ("I'm Ada", {"name": TEXT}, {}, (NEXT,), "next"),
        ("hm", {"name": TEXT}, {}, (NEXT,), "here"),
        ("we are 6", {"guests": NUMBER}, {}, (UP_TO_FOUR, OVER_FOUR), "group"),
        ("we are 2", {"guests": NUMBER}, {}, (UP_TO_FOUR, OVER_FOUR), "table"),
        ("yes", {}, {}, (YES, NO), "done"),
        ("that's right", {}, {}, (YES, NO), "done"),
        ("please change the day", {}, {}, (YES, NO), "edit"),
        ("no", {}, {}, (YES,), "here"),
        ("no", {}, {}, (YES, choice("end", description="The user does not confirm")), "end"),
        ("my laptop is broken", {}, {}, (BILLING, REPAIR), "repair"),
        ("why is the invoice so high?", {}, {}, (BILLING, REPAIR), "billing"),
        ("the weather is nice", {}, {}, (BILLING, REPAIR), "here"),
        ("fine", {}, {}, (choice("next"),), "next"),
        ("what is this?", {}, {}, (choice("next"),), "here"),
        ("no", {}, {}, (choice("next"),), "here"),
        ("hm", {"name": TEXT}, {}, (choice("next"),), "here"),
        ("I want to cancel", {"name": TEXT}, {}, (NEXT, CANCEL), "cancelled"),
        ("ok", {}, {"name": "Ada"}, (NEXT,), "next"),
        ("what is my name?", {}, {"name": "Ada"}, (NEXT,), "here"),
        ("Ada", {"name": TEXT}, {}, (choice("x", logic=({"nonsense": []},), judged=False),), "here"),
        ("", {}, {}, (choice("next"),), "next"),
        ("yes", {"name": TEXT}, {}, (YES, NO), "here"),
        ("I want to return my shoes", {}, {}, (choice("x", description="Cancel the return"),), "here"),
        ("green", {}, {}, (choice("next"), CANCEL), "next"),
        ("green", {}, {}, (CANCEL,), "here"),
        ("green", {}, {}, (choice("x", description="The user gives up"),), "here"),
        ("a table for 4", {}, {}, (choice("stopped", description="Wants no table"),), "here"),
        (
            "a table",
            {},
            {},
            (choice("x", description="The guest does not want a table any more"),),
            "here",
        ),
        (
            "I don't want it any more",
            {},
            {},
            (choice("x", description="The guest does not want a table"), YES),
            "x",
        ),
        ("no", {"phone": TEXT}, {"name": "Ada"}, (NEXT,), "next"),
        ("skip that", {"phone": TEXT}, {}, (choice("next"), CANCEL), "next"),
        ("Bob", {"day": DATE}, {"name": "Ada"}, (NEXT,), "here"),
        (
            "blue",
            {},
            {"name": "Ada"},
            (choice("end", description="The user stops", requires=("name",)),),
            "here",
        ),
        ("0170 5550188", {}, {}, (YES,), "here"),
        ("I give up", {}, {}, (choice("x", description="The user gives up"), YES), "x"),
        ("yes", {}, {}, (NO,), "here"),
    ],
)
def test_the_move_follows_conditions_and_shared_words(user, wanted, context, choices, target):
    seen = view(state="here", user=user, wanted=wanted, writable=wanted, context=context, choices=choices)
    assert answer(seen)["transition"]["target_state"] == target


def words(**changes) -> str:
    return answer(view(**changes))["message"]


def test_the_greeting_says_that_there_is_no_model():
    said = words(
        user=None,
        speak=True,
        own_words="Welcome to Ada's",
        wanted={"name": {"description": "The user's name"}},
    )
    assert said == f"{NOTICE} Welcome to Ada's. Please tell me: your name."


@pytest.mark.parametrize("question", ["Who are you?", "ما اسمك؟"])
def test_words_that_ask_are_not_followed_by_another_question(question):
    said = words(user=None, speak=True, own_words=question, wanted={"name": {}})
    assert said == f"{NOTICE} {question}"


@pytest.mark.parametrize(
    ("key", "schema", "asked"),
    [
        ("deliveryDate", {}, "delivery Date"),
        ("email_address", {"title": "E-mail"}, "E-mail"),
        ("size", {"description": "small 26 cm, large 36 cm"}, "size"),
        ("city", {"description": "The customer's home town."}, "your home town"),
        ("ok", {"type": "boolean"}, "ok (yes or no)"),
        ("postcode", {"description": "Five digits"}, "postcode (Five digits)"),
        ("street", {"description": "Street and house number."}, "Street and house number"),
    ],
)
def test_a_key_is_asked_for_by_a_readable_name(key, schema, asked):
    assert words(speak=True, wanted={key: schema}) == f"Please tell me: {asked}."


def test_words_alone_are_the_states_own():
    reply = answer(view(state="s", user="x", speak=True, own_words="All is done", choices=(choice("next"),)))
    assert reply == {"transition": {"target_state": "s", "context_update": {}}, "message": "All is done."}
    assert words(speak=True) == "Please go on."


def test_a_move_speaks_the_arrivals_words_and_asks_for_what_it_needs():
    there = choice("next", arrival="Now the delivery", wanted={"name": TEXT, "size": SIZE})
    said = words(user="I'm Ada", wanted={"name": TEXT}, writable={"name": TEXT}, choices=(there,))
    assert said == "Now the delivery. Please tell me: size (small, medium, extra large)."


def test_a_fixed_reply_follows_by_itself():
    assert words(user="ok", choices=(choice("next", arrival="Goodbye!", fixed=True),)) == ""


def test_what_is_not_understood_is_said_before_the_question_is_asked_again():
    said = words(user="hm?", wanted={"day": DATE}, choices=(NEXT,))
    assert said == "I did not find day in that. Please tell me: day (a date such as 2026-03-14)."


def test_what_was_understood_is_said_before_the_next_question():
    wanted = {"ok": {"type": "boolean", "title": "Ready"}, "day": DATE}
    said = words(user="yes", wanted=wanted, writable=wanted, choices=())
    assert said == "Noted – Ready: yes. Please tell me: day (a date such as 2026-03-14)."


def test_without_a_matching_move_the_choices_are_listed():
    said = words(user="the weather", choices=(BILLING, REPAIR, NEXT))
    assert said == (
        "I did not understand what to do with that. "
        "Possible are: Questions about an invoice or a payment; A device is broken."
    )


def test_after_a_refusal_it_stays():
    seen = view(state="here", user="I'm Ada", wanted={"name": TEXT}, choices=(NEXT,), refused=("closed",))
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
    reply = answer(
        view(user=user, wanted=wanted, writable=wanted, choices=(NEXT, YES), system={"_timestamp": FRIDAY})
    )
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
