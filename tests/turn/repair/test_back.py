"""The pattern `back`: to the question before, its answer open again."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from llm_fsm.session import events as ev
from llm_fsm.session.session import Session
from llm_fsm.turn.pipeline import UserMessage
from llm_fsm.turn.steps import begin
from machines import Played, machine, play, reply, start

KEYS = {
    **{name: {"type": "string"} for name in ("name", "city", "street", "note")},
    "price": {"type": "integer", "x-source": "host", "x-from": ["city"]},
}


def needs(*keys: str) -> list[dict[str, Any]]:
    return [{"requires_context_keys": list(keys)}]


def trip(*more: str, **changes: Any) -> Any:
    """Asks for a name, an address of two keys and a note, and confirms."""
    states = {
        "who": {
            "purpose": "What is your name?",
            "required_context_keys": ["name"],
            "transitions": [{"target_state": "where", "conditions": needs("name")}],
        },
        "where": {
            "reply": "Where do you live?",
            "required_context_keys": ["city", "street"],
            "transitions": [{"target_state": "sort", "conditions": needs("city", "street")}],
        },
        "sort": {"kind": "decide", "transitions": [{"target_state": "confirm"}]},
        "confirm": {
            "purpose": "Is that right?",
            "transitions": [{"target_state": "done", "description": "A yes"}],
        },
        "help": {"purpose": "Which help?", "transitions": [{"target_state": "told"}]},
        "told": {},
        "done": {},
        **changes.pop("states", {}),
    }
    aside = {"target_state": "help", "description": "Asks for help", "return": True}
    return machine(
        states,
        context_schema={"properties": KEYS},
        patterns=["back", *more],
        global_transitions=[aside],
        **changes,
    )


def said(made: Any, session: Session, *replies: str) -> Played:
    return play(begin(made, session, UserMessage(text="x", time=float(session.turn + 1))), replies)


def told(made: Any, *turns: str) -> Played:
    session = start(made).session
    for one in turns:
        last = said(made, session, one)
        session = last.session
    return last


NAME = reply("where", "Hello.", name="Ada")
CITY = reply("where", "And the street?", city="Bern")
STREET = reply("sort", "Right?", street="Main St")
BACK = reply("back", "Of course.", "")


def test_the_state_before_asks_again_and_its_answer_is_open() -> None:
    done = told(trip(), NAME, BACK)
    assert (done.session.state, done.session.context) == ("who", {})
    assert done.text == "Of course.\n\nWhat is your name?"
    assert done.usage.calls == 1
    assert done.of(ev.Repaired) == [ev.Repaired(pattern="back", how="moved")]
    assert done.of(ev.StateEntered)[0].by == "back"


def test_an_answer_of_the_same_state_is_open_first() -> None:
    done = told(trip(), NAME, CITY, BACK)
    assert (done.session.state, done.session.context) == ("where", {"name": "Ada"})
    assert done.text == "Of course.\n\nWhere do you live?"
    again = told(trip(), NAME, CITY, BACK, BACK)
    assert (again.session.state, again.session.context) == ("who", {})


def test_states_that_decide_are_passed_and_the_last_answer_alone_is_open() -> None:
    done = told(trip(), NAME, CITY, STREET, BACK)
    assert (done.session.state, done.session.context) == ("where", {"name": "Ada", "city": "Bern"})


def test_the_answer_can_be_given_anew_and_the_way_goes_on() -> None:
    done = told(trip(), NAME, BACK, reply("where", "Hello.", name="Eve"))
    assert (done.session.state, done.session.context) == ("where", {"name": "Eve"})


def test_before_the_first_question_there_is_none() -> None:
    done = told(trip(), BACK)
    assert (done.session.state, done.text) == (
        "who",
        "I cannot go further back.\n\nWhat is your name?",
    )


def test_what_worked_or_waited_is_not_gone_back_over() -> None:
    wait = {"kind": "wait", "wait_for": "the bank", "transitions": [{"target_state": "confirm"}]}
    made = trip(states={"bank": wait})
    session = told(made, NAME, CITY, STREET).session
    waited = replace(session, path=(*session.path, ("bank", "/states/bank/transitions/0")))
    done = said(made, waited, BACK)
    assert (done.session.state, done.session.context) == ("confirm", session.context)
    assert done.text == "I cannot go further back.\n\nIs that right?"


def test_in_a_digression_it_ends_the_digression() -> None:
    done = told(trip(), NAME, reply("help", "Which?"), BACK)
    assert (done.session.state, done.session.stack, done.session.context) == (
        "where",
        (),
        {"name": "Ada"},
    )
    assert done.text.endswith("Where do you live?")


def test_a_skipped_question_is_asked_again() -> None:
    states = {
        "where": {
            "purpose": "Where do you live?",
            "required_context_keys": ["city"],
            "transitions": [{"target_state": "confirm", "description": "On"}],
        },
        "confirm": {
            "purpose": "A note?",
            "required_context_keys": ["note"],
            "transitions": [{"target_state": "done"}],
        },
    }
    made = trip("skip", states=states)
    skipped = told(made, NAME, reply("skip", "Fine."))
    assert (skipped.session.state, skipped.session.skipped) == ("confirm", ("city",))
    done = said(made, skipped.session, BACK)
    assert (done.session.state, done.session.skipped) == ("where", ())


def test_what_is_made_of_the_answer_is_cleared_with_it() -> None:
    made = trip()
    session = play(
        begin(made, start(made, context={"price": 5}).session, UserMessage(text="x", time=1.0)),
        [NAME],
    ).session
    session = said(made, session, CITY).session
    done = said(made, session, BACK)
    assert "price" not in done.session.context


def test_a_state_of_its_own_takes_its_place() -> None:
    states = {
        "back": {
            "purpose": "Start page",
            "reply": "Start page.",
            "transitions": [{"target_state": "who"}],
        }
    }
    done = told(trip(states=states), NAME, reply("back", "Back."))
    assert (done.session.state, done.session.context) == ("back", {"name": "Ada"})
