"""The values of a reply lead: a slip in the rest of it costs at most one turn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.session import events as ev
from machines import machine, reply, say, start, talk


def way(target: str, *keys: str, **more: Any) -> dict[str, Any]:
    conditions = [{"requires_context_keys": list(keys)}] if keys else []
    return {"target_state": target, "conditions": conditions, **more}


FORM_KEYS = ("name", "guests", "day")
STATES: dict[str, Any] = {
    "name": {
        "purpose": "What is your name?",
        "required_context_keys": ["name"],
        "transitions": [way("guests", "name")],
    },
    "guests": {
        "purpose": "How many guests?",
        "required_context_keys": ["guests"],
        "transitions": [way("day", "guests")],
    },
    "day": {
        "purpose": "On which day?",
        "required_context_keys": ["day"],
        "transitions": [way("check", "day")],
    },
    "check": {
        "reply": "{{ name }}, {{ guests }}, {{ day }}. Right?",
        "transitions": [way("end"), way("wish"), way("day")],
    },
    "wish": {"purpose": "Any wishes?", "transitions": [way("end"), way("check")]},
    "end": {"reply": "Booked for {{ guests }}."},
}
KEYS = {
    "properties": {
        "name": {"type": "string"},
        "guests": {"type": "integer", "maximum": 12},
        "day": {"type": "string"},
        "wish": {"type": "string"},
    }
}
PATTERNS = ["correct", "cancel", "skip", "restart"]
TABLE = machine(STATES, context_schema=KEYS, patterns=PATTERNS)
VALUES = {"name": "Ada", "guests": 4, "day": "Monday"}
SLIPS = ("name", "guests", "day", "check", "nowhere", "skip", "cancel", "restart")


@given(st.lists(st.tuples(st.sets(st.sampled_from(FORM_KEYS)), st.sampled_from(SLIPS)), min_size=3))
def test_no_answer_is_asked_for_again_whatever_a_reply_names(
    turns: list[tuple[set[str], str]],
) -> None:
    session = start(TABLE, state="name").session
    for beside, named in turns:
        asked = session.state
        if asked == "check":
            break
        keys = {asked, *beside}  # the answer, and what the user tells besides
        given = {key: VALUES[key] for key in keys if key not in session.context}
        done = say(TABLE, session, "x", reply(named, "", **given))
        session = done.session
        assert asked in session.context
        assert session.state != asked
        assert done.usage.calls == 1
    assert session.context == VALUES
    assert session.state == "check"


def checked(*patterns: str) -> Any:
    made = machine(STATES, context_schema=KEYS, patterns=list(patterns))
    return made, talk(made, "x", reply("check", "", **VALUES)).session


NAMED = ("check", "correct", "end", "wish", "name", "nowhere")


@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("patterns", [(), ("correct",)])
def test_a_changed_value_is_read_back_whatever_the_reply_names(
    named: str, patterns: tuple[str, ...]
) -> None:
    made, shown = checked(*patterns)
    done = say(made, shown, "Yes, but five", reply(named, "", guests=5))
    assert (done.session.state, done.text) == ("check", "Ada, 5, Monday. Right?")
    assert done.usage.calls == 1
    assert say(made, done.session, "Yes", reply("end", "")).text == "Booked for 5."


@pytest.mark.parametrize("named", ["end", "wish", "nowhere"])
def test_a_refused_value_is_read_back_with_the_reason(named: str) -> None:
    made, shown = checked("correct")
    done = say(made, shown, "Yes, but for 90", reply(named, "Done!", guests=90))
    assert done.session.state == "check"
    assert "Done!" not in done.text
    assert "90" in done.text
    assert done.text.endswith("Ada, 4, Monday. Right?")


def test_a_question_that_shows_a_value_reads_nothing_back() -> None:
    states = {**STATES, "day": {**STATES["day"], "reply": "{{ guests }} guests. On which day?"}}
    made = machine(states, context_schema=KEYS)
    begun = talk(made, "Ada, 4", reply("guests", "", name="Ada", guests=4)).session
    done = say(made, begun, "Monday, and we are five", reply("check", "", day="Monday", guests=5))
    assert (done.session.state, done.text) == ("check", "Ada, 5, Monday. Right?")


WISH: dict[str, Any] = {
    "wish": {"purpose": "Any wishes?", "transitions": [way("end")]},
    "end": {"reply": "Goodbye."},
}


@pytest.mark.parametrize(
    ("known", "given", "state"),
    [
        ({"guests": 4}, {"guests": 5}, "wish"),
        ({"guests": 4}, {"guests": 4}, "end"),
        ({}, {"guests": 5}, "end"),
        ({"dishes": ["soup"]}, {"dishes": ["soup", "cake"]}, "end"),
    ],
    ids=["another value", "the same value", "a first value", "one more item"],
)
def test_an_end_is_held_back_while_a_known_value_changes(
    known: dict[str, Any], given: dict[str, Any], state: str
) -> None:
    made = machine(WISH)
    begun = talk(made, "x", reply("wish", "Any wishes?", **known)).session
    replies = [reply("end", "", **given), reply("wish", "Changed. Any wishes?")]
    done = say(made, begun, "That is all", *replies, spare=True)
    assert done.session.state == state
    assert done.session.context.items() >= given.items()


@pytest.mark.parametrize(
    ("message", "value", "kept"),
    [
        ("Do you have room for a dog?", "window seat", False),
        ("¿Hay aparcamiento?", "no parking", False),
        ("犬は大丈夫ですか？", "window", False),
        ("Do you have room for a dog?", "a dog", True),
        ("Is it quiet? We love dogs.", "window seat", True),
        ("A window seat, please", "seat at the window", True),
        ("Haben Sie etwas Vegetarisches?", "vegetarisch", True),
    ],
)
def test_a_text_that_nobody_said_in_a_mere_question_is_not_noted(
    message: str, value: str, *, kept: bool
) -> None:
    done = talk(machine(WISH, context_schema=KEYS), message, reply("wish", "Yes.", wish=value))
    assert ("wish" in done.session.context) is kept
    refused = done.of(ev.ContextRefused)
    assert [event.key for event in refused] == ([] if kept else ["wish"])
    assert done.text.startswith("Yes.")
