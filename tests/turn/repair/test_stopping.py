"""A cancel asks first while something is known, and the next message says whether it ends."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.languages import language_of
from llm_fsm.session.session import Session
from llm_fsm.turn.choices import choices_of
from llm_fsm.turn.compiled import CompiledMachine
from machines import machine, reply, say, start

STATES: dict[str, Any] = {
    "name": {
        "purpose": "What is your name?",
        "required_context_keys": ["name"],
        "transitions": [
            {"target_state": "day", "conditions": [{"requires_context_keys": ["name"]}]}
        ],
    },
    "day": {
        "purpose": "Which day?",
        "required_context_keys": ["day"],
        "transitions": [
            {"target_state": "end", "conditions": [{"requires_context_keys": ["day"]}]}
        ],
    },
    "end": {"reply": "Done."},
}


def form(language: str = "") -> CompiledMachine:
    return machine(STATES, patterns=["cancel"], language=language)


def half(program: CompiledMachine) -> Session:
    begun = start(program).session
    return say(program, begun, "Ada", reply("day", "", "Which day?", name="Ada")).session


@pytest.mark.parametrize(
    "language", ["", "de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ar", "ja"]
)
def test_a_cancel_asks_first_and_ends_at_a_yes_without_a_model(language: str) -> None:
    program, words = form(language), language_of(language)
    asked = say(program, half(program), "stop", reply("cancel", "Bye."))
    assert (asked.session.ended, asked.text) == (False, f"Bye.\n\n{words.sentences['stop']}")
    labels = [choice.label for choice in choices_of(program, asked.session)]
    assert labels == [words.yes[0], words.no[0]]
    done = say(program, asked.session, words.yes[0])
    assert (done.session.outcome, done.usage.calls) == ("cancelled", 0)
    assert done.text == words.sentences["stopped"]


def test_a_no_goes_on_where_it_was() -> None:
    program = form()
    asked = say(program, half(program), "stop", reply("cancel", ""))
    done = say(program, asked.session, "No")
    assert (done.session.state, done.text, done.usage.calls) == ("day", "Which day?", 0)
    assert done.session.context == {"name": "Ada"}


def test_other_words_are_read_by_the_model() -> None:
    program = form()
    asked = say(program, half(program), "stop", reply("cancel", "")).session
    ended = say(program, asked, "I am sure", reply("cancel", "Bye."))
    assert (ended.session.outcome, ended.text) == ("cancelled", "Bye.")
    went_on = say(program, asked, "Monday, rather", reply("end", "", "", day="Monday"))
    assert went_on.session.state == "end"


def test_where_nothing_is_known_a_cancel_ends_at_once() -> None:
    program = form()
    done = say(program, start(program).session, "stop", reply("cancel", "Bye."))
    assert (done.session.outcome, done.text) == ("cancelled", "Bye.")


def test_after_two_refusals_what_was_kept_is_acknowledged() -> None:
    program = machine(
        STATES, context_schema={"properties": {"mail": {"title": "e-mail"}, "name": {}}}
    )
    begun = start(program).session
    broken = reply("end", "Done!", "", mail="a@b")
    done = say(program, begun, "a@b", broken, "no JSON")
    assert done.text == "Noted: e-mail.\n\nWhat is your name?"
    nothing = say(program, begun, "x", "no JSON", "no JSON")
    assert nothing.text == "Sorry, I did not get that.\n\nWhat is your name?"
