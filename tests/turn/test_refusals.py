"""Any refusal is one second call with the true advice, and never a third one."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from machines import machine, reply, say, start, talk


def _way(target: str, *keys: str) -> dict[str, Any]:
    return {"target_state": target, "conditions": [{"requires_context_keys": list(keys)}]}


DAY_RULE = "We are open from Monday to Friday"
KEYS: dict[str, Any] = {
    "name": {"type": "string"},
    "guests": {"type": "integer", "maximum": 12},
    "mail": {"type": "string", "format": "email", "title": "e-mail"},
    "day": {
        "enum": ["Monday", "Friday", "Sunday"],
        "x-valid": [{"logic": {"!=": [{"var": "day"}, "Sunday"]}, "description": DAY_RULE}],
    },
    "plate": {"type": "string", "x-said": "quote"},
    "date": {"type": "string", "format": "date"},
}
STATES: dict[str, Any] = {
    "ask": {
        "purpose": "Who comes?",
        "required_context_keys": ["name"],
        "transitions": [_way("more", "name"), {"target_state": "open"}],
    },
    "more": {
        "purpose": "How many guests, and when?",
        "required_context_keys": ["guests", "day"],
        "transitions": [_way("end", "guests", "day")],
    },
    "open": {"purpose": "Anything else?", "transitions": [{"target_state": "end"}]},
    "end": {"reply": "Done."},
}
TABLE = machine(STATES, context_schema={"properties": KEYS}, patterns=["correct", "cancel"])
REFUSED: list[dict[str, Any]] = [
    {"guests": "many"},
    {"guests": 40},
    {"mail": "ada at home"},
    {"day": "Sunday"},
    {"day": "Tuesday"},
    {"plate": "B-AD 1"},
    {"-name": ["x"]},
]


@pytest.mark.parametrize("update", REFUSED, ids=str)
@pytest.mark.parametrize("target", ["ask", "more", "open"])
def test_a_refused_value_is_one_second_call_with_the_reason(
    update: dict[str, Any], target: str
) -> None:
    first = reply(target, "I have noted that.", name="Ada", **update)
    second = reply("ask", "Let me see.", "What do you mean?")
    done = talk(TABLE, "Ada here", first, second)
    assert done.usage.calls == 2
    assert "I have noted that." not in done.text
    assert "Let me see." in done.text
    advice = done.requests[1].messages[-1].content
    assert next(iter(update)).lstrip("-") in advice
    assert f'name "{target}" again; else name "ask"' in advice
    assert done.session.context == {"name": "Ada"}


def test_the_second_reply_writes_the_value_in_its_form_and_moves() -> None:
    first = reply("more", "", name="Ada", mail="ada at home")
    second = reply("more", "", "How many?", name="Ada", mail="ada@home.org")
    done = talk(TABLE, "I am Ada, ada at home dot org", first, second)
    assert (done.session.state, done.usage.calls) == ("more", 2)
    assert done.session.context == {"name": "Ada", "mail": "ada@home.org"}


@pytest.mark.parametrize("update", [{}, {"guests": 4}, {"date": "2026-12-01"}, {"other": 1}])
def test_what_is_not_refused_costs_no_call(update: dict[str, Any]) -> None:
    done = talk(
        TABLE, "Ada, please", reply("more", "Hello Ada.", "How many?", name="Ada", **update)
    )
    assert (done.session.state, done.usage.calls) == ("more", 1)
    assert done.text == "Hello Ada.\n\nHow many?"
    assert "date" not in done.session.context


def test_a_part_of_an_object_is_no_refusal() -> None:
    place = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
        "required": ["street", "number"],
    }
    states = {"ask": {**STATES["ask"], "required_context_keys": ["place"]}, **STATES}
    made = machine(states, context_schema={"properties": {**KEYS, "place": place}})
    done = talk(made, "High Street", reply("ask", "", "Which number?", place={"street": "High"}))
    assert (done.usage.calls, done.text) == (1, "Which number?")
    wrong = reply("ask", "", "Which number?", place={"street": "High", "number": "two or three"})
    again = reply("ask", "", "Which one?")
    assert talk(made, "High Street, two or three", wrong, again).usage.calls == 2


@pytest.mark.parametrize(
    ("update", "text"),
    [
        ({"day": "Sunday"}, f"That does not fit (day): {DAY_RULE}."),
        ({"mail": "ada at home"}, "That does not fit (e-mail)"),
        ({"plate": "B-AD 1"}, ""),
    ],
    ids=["a rule", "a form", "not said"],
)
def test_after_two_refusals_the_reason_is_read_and_the_state_asks(
    update: dict[str, Any], text: str
) -> None:
    bad = reply("end", "Booked!", "Where?", **update)
    done = talk(TABLE, "well", bad, bad)
    assert (done.session.state, done.usage.calls) == ("ask", 2)
    assert text in done.text
    assert done.text.endswith("Who comes?")
    assert "Booked!" not in done.text
    assert "Sorry" not in done.text


def test_the_way_that_the_kept_values_opened_is_taken_after_two_refusals() -> None:
    bad = reply("ask", "Booked!", name="Ada", mail="ada at home")
    done = talk(TABLE, "Ada", bad, bad)
    assert (done.session.state, done.usage.calls) == ("more", 2)
    assert done.text.startswith("Noted: name.\n\nThat does not fit (e-mail)")
    assert done.text.endswith("How many guests, and when?")


def test_a_value_of_another_state_that_is_refused_twice_holds_nobody_back() -> None:
    bad = reply("open", "Fine!", mail="ada at home")
    done = talk(TABLE, "skip that, ada at home", bad, bad)
    assert (done.session.state, done.usage.calls) == ("open", 2)
    assert "Fine!" not in done.text


@pytest.mark.parametrize("second", ["correct", "ask"])
def test_a_correct_that_changes_nothing_is_one_second_call(second: str) -> None:
    begun = say(TABLE, start(TABLE).session, "Ada", reply("more", "", "How many?", name="Ada"))
    first = reply("correct", "I have changed it.")
    target = "more" if second == "ask" else "correct"
    update = {"name": "Eda"} if second == "correct" else {}
    done = say(
        TABLE, begun.session, "No, wrong", first, reply(target, "Oh.", "Which name?", **update)
    )
    assert done.usage.calls == 2
    assert "I have changed it." not in done.text
    assert done.text.startswith("Oh.")
    assert done.session.context == {"name": "Eda" if update else "Ada"}


@pytest.mark.parametrize("value", ["Ada", None])
def test_a_value_that_is_known_already_corrects_nothing(value: str | None) -> None:
    begun = say(TABLE, start(TABLE).session, "Ada", reply("more", "", "How many?", name="Ada"))
    wrong = reply("correct", "Changed.", name=value)
    done = say(TABLE, begun.session, "No, wrong", wrong, wrong)
    assert done.usage.calls == 2
    assert "Changed." not in done.text
    assert done.text.endswith("How many?") or done.text.endswith("and when?")


def test_the_message_is_shown_where_values_lead_another_way_than_the_end_that_is_named() -> None:
    first = reply("end", "You find us at 5 Hill Road.", "", name="Ada")
    done = talk(TABLE, "Ada. And where are you?", first)
    assert (done.session.state, done.usage.calls) == ("more", 1)
    assert done.text == "You find us at 5 Hill Road.\n\nHow many guests, and when?"


def test_the_message_of_a_cancel_that_asks_is_shown() -> None:
    begun = say(TABLE, start(TABLE).session, "Ada", reply("more", "", "How many?", name="Ada"))
    done = say(TABLE, begun.session, "Stop. Is it free?", reply("cancel", "It is free."))
    assert done.text == "It is free.\n\nShall I stop? Nothing of this will be kept."
    assert done.of(ev.Ended) == []
