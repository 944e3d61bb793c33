"""Values that a reply takes back while it moves: none that the move needs is lost."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from machines import machine, reply, say, talk

SENT = {"requires_context_keys": ["name", "phone"]}
STATES: dict[str, Any] = {
    "ask": {
        "purpose": "Your name and phone?",
        "required_context_keys": ["name", "phone"],
        "transitions": [{"target_state": "check", "conditions": [SENT]}],
    },
    "check": {
        "purpose": "Shall I send it?",
        "transitions": [
            {"target_state": "sent"},
            {"target_state": "ask", "description": "Begin again"},
        ],
    },
    "sent": {"purpose": "It is sent."},
}
KEYS = {
    "properties": {
        "name": {"type": "string"},
        "phone": {"type": "string"},
        "town": {"type": "string"},
    }
}
FORM = machine(STATES, context_schema=KEYS)
KNOWN = {"name": "Ada", "phone": "030 1"}

TAKEN = {"_clear": "forget all"}
"""The words that take a value back."""


def checked() -> Any:
    """A conversation that reads its values back."""
    return talk(FORM, "Ada, 030 1", reply("check", "Shall I send it?", **KNOWN)).session


def test_a_yes_that_empties_the_form_keeps_it() -> None:
    done = say(FORM, checked(), "yes", reply("sent", "It is sent.", _clear=["name", "phone"]))
    assert (done.session.state, done.session.context) == ("sent", KNOWN)
    assert {event.key for event in done.of(ev.ContextRefused)} == {"name", "phone"}


def test_a_message_that_is_nothing_but_a_yes_takes_nothing_back() -> None:
    guarded = {
        **STATES,
        "check": {
            **STATES["check"],
            "transitions": [{"target_state": "sent", "conditions": [SENT]}],
        },
    }
    made = machine(guarded, context_schema=KEYS)
    begun = talk(made, "Ada, 030 1, Ulm", reply("check", "Shall I?", **KNOWN, town="Ulm")).session
    done = say(made, begun, "yes", reply("sent", "Sent.", _clear=["phone", "town"]))
    assert (done.session.state, done.session.context) == ("sent", {**KNOWN, "town": "Ulm"})


def test_a_move_that_asks_again_takes_back() -> None:
    done = say(
        FORM,
        checked(),
        "no, anew",
        reply("ask", "Your name?", _clear=["name", "phone"], _quotes={"_clear": "anew"}),
    )
    assert (done.session.state, done.session.context) == ("ask", {})


def test_staying_takes_back_all() -> None:
    done = say(
        FORM,
        checked(),
        "forget all that",
        reply(
            "check", "Forgotten.", _clear=["name", "phone"], _quotes={"_clear": "forget all that"}
        ),
    )
    assert done.session.context == {}


@pytest.mark.parametrize(
    ("quotes", "taken"),
    [
        ({"_clear": "forget"}, True),
        ({"_clear": "Forget my phone!"}, True),
        ({"phone": "my phone"}, False),
        ({"_clear": "Ada, 030 1"}, False),
        ({"_clear": "delete it all"}, False),
        ({"_clear": ""}, False),
        ({}, False),
        (None, False),
    ],
)
def test_nothing_is_taken_back_without_the_words_of_this_message(
    quotes: dict[str, str] | None, *, taken: bool
) -> None:
    given = reply("check", "Forgotten.", _clear=["phone"], _quotes=quotes)
    second = reply("check", "What shall I forget?")
    done = say(FORM, checked(), "forget my phone", given, second, spare=True)
    assert ("phone" in done.session.context) is not taken
    assert done.usage.calls == (1 if taken else 2)
    assert ("Forgotten." in done.text) is taken
    assert [event.reason.split(":")[0] for event in done.of(ev.ContextRefused)] == (
        [] if taken else ["not said"]
    )


def test_a_chatty_yes_takes_nothing_back_and_still_counts() -> None:
    done = say(FORM, checked(), "yes", reply("sent", "It is sent.", _clear=["name", "phone"]))
    assert (done.session.state, done.session.context, done.usage.calls) == ("sent", KNOWN, 1)
