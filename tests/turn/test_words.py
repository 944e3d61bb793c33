"""Whose words a turn has: no word of a message is lost, and a turn that asks ends in one question."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from machines import machine, nested, reply, say, start, talk

FIXED: dict[str, Any] = {
    "ask": {
        "reply": "Shall I book it?",
        "transitions": [{"target_state": "law"}, {"target_state": "done"}],
    },
    "law": {
        "reply": "You have a right to withdraw.",
        "reply_alone": True,
        "transitions": [{"target_state": "done"}],
    },
    "done": {"reply": "Booked. Goodbye!"},
}


def test_a_message_between_fixed_texts_is_shown_and_before_the_last_words_too() -> None:
    done = talk(machine(FIXED), "ok, and where do I pay?", reply("done", "You pay at the desk."))
    assert done.text == "You pay at the desk.\n\nBooked. Goodbye!"
    assert talk(machine(FIXED), "ok", reply("done", "")).text == "Booked. Goodbye!"


def test_a_reply_that_is_alone_is_said_without_the_message_on_arrival_only() -> None:
    law = talk(machine(FIXED), "hm?", reply("law", "Here is the law."))
    assert law.text == "You have a right to withdraw."
    stays = say(machine(FIXED), law.session, "why?", reply("law", "Because it is so."))
    assert stays.text == "Because it is so.\n\nYou have a right to withdraw."


def test_the_message_is_shown_where_the_turn_rests_behind_deciding_states() -> None:
    states = {
        "ask": {"purpose": "Old enough?", "transitions": [{"target_state": "sort"}]},
        "sort": {"kind": "decide", "transitions": [{"target_state": "law"}]},
        "law": {"reply": "The law.", "reply_alone": True},
    }
    assert talk(machine(states), "m", reply("sort", "Yes!")).text == "The law."
    states["law"] = {"reply": "The law."}
    assert talk(machine(states), "m", reply("sort", "Yes!")).text == "Yes!\n\nThe law."


@pytest.mark.parametrize(
    ("purpose", "message", "text"),
    [
        ("How many guests?", "Gladly.", "Gladly.\n\nHow many guests?"),
        ("How many guests?", "Gladly. How many?", "Gladly. How many?"),
        ("何名様ですか？", "かしこまりました。", "かしこまりました。\n\n何名様ですか？"),
        ("Ask for the number of guests", "Tell me the number.", "Tell me the number."),
        ("How many guests?", "", "How many guests?"),
    ],
)
@pytest.mark.parametrize("moves", [True, False])
def test_a_turn_that_rests_in_a_state_that_asks_ends_in_one_question(
    purpose: str, message: str, text: str, moves: bool
) -> None:
    way = [{"target_state": "guests" if moves else "end"}]
    states = {
        "hello": {"purpose": "Hello" if moves else purpose, "transitions": way},
        "guests": {"purpose": purpose, "transitions": [{"target_state": "end"}]},
        "end": {},
    }
    target = "guests" if moves else "hello"
    assert talk(machine(states), "m", reply(target, message)).text == text


CROSSROADS = {
    "ask": {
        "purpose": "How many?",
        "required_context_keys": ["n"],
        "transitions": [{"target_state": "sort"}],
    },
    "sort": {
        "kind": "decide",
        "transitions": [
            {"target_state": "few", "conditions": [{"logic": {"<": [{"var": "n"}, 9]}}]},
            {"target_state": "many"},
        ],
    },
    "few": {"purpose": "Which day?", "transitions": [{"target_state": "end"}]},
    "many": {"purpose": "May we call you?", "transitions": [{"target_state": "end"}]},
    "end": {},
}
NUMBER = {"properties": {"n": {"type": "integer"}}}


def test_a_pick_of_a_state_behind_a_crossroads_is_the_pick_of_the_way_to_it() -> None:
    made = machine(CROSSROADS, context_schema=NUMBER)
    done = talk(made, "four", reply("few", "Four it is.", "Which day?", n=4))
    assert (done.session.state, done.text, done.usage.calls) == (
        "few",
        "Four it is.\n\nWhich day?",
        1,
    )
    assert not done.of(ev.MoveRefused)


def test_conditions_decide_at_a_crossroads_whatever_is_named_behind_it() -> None:
    made = machine(CROSSROADS, context_schema=NUMBER)
    done = talk(made, "twelve", reply("few", "", "Which day?", n=12))
    assert (done.session.state, done.text, done.usage.calls) == ("many", "May we call you?", 1)


def test_a_caller_is_corrected_in_a_subflow_with_values_of_their_own_types() -> None:
    inner = {
        "name": "inner",
        "initial_state": "day",
        "context_schema": {"properties": {"day": {"type": "string"}}},
        "states": {
            "day": {"purpose": "Which day?", "transitions": [{"target_state": "end"}]},
            "end": {},
        },
    }
    outer = {
        "name": "outer",
        "initial_state": "many",
        "patterns": ["correct"],
        "context_schema": {
            "properties": {
                "n": {"type": "integer"},
                "guests": {"type": "array", "items": {"type": "string"}},
            }
        },
        "states": {
            "many": {
                "purpose": "How many?",
                "required_context_keys": ["n"],
                "transitions": [{"target_state": "call"}],
            },
            "call": {"kind": "subflow", "flow": "inner", "transitions": [{"target_state": "bye"}]},
            "bye": {},
        },
    }
    made = nested(outer, inner=inner)
    begun = say(made, start(made).session, "4, Ann", reply("call", "", n=4, guests=["Ann"]))
    done = say(
        made, begun.session, "five, and Bob", reply("day", "Five.", n=5, **{"+guests": ["Bob"]})
    )
    schema = done.requests[0].schema
    assert schema is not None
    update = schema.schema["properties"]["context_update"]["properties"]
    assert update["n"] == {"type": "integer"}
    assert update["-guests"] == {"type": "array", "items": {"type": "string"}}
    assert done.session.of_caller(0).context == {"n": 5, "guests": ["Ann", "Bob"]}


def test_what_is_to_be_collected_names_the_missing_parts_of_an_object() -> None:
    address = {
        "type": "object",
        "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        "required": ["street", "city"],
    }
    states = {
        "a": {
            "purpose": "Where?",
            "required_context_keys": ["address"],
            "transitions": [{"target_state": "b"}],
        }
    }
    made = machine({**states, "b": {}}, context_schema={"properties": {"address": address}})
    first = talk(
        made, "Main Street 1", reply("a", "And the city?", address={"street": "Main Street 1"})
    )
    assert (
        "<information_to_collect>address.street, address.city</information_to_collect>"
        in first.prompt
    )
    second = say(made, first.session, "hm", reply("a", "Which city?"))
    assert "<information_to_collect>address.city</information_to_collect>" in second.prompt


def _way(target: str, key: str) -> dict[str, Any]:
    return {"target_state": target, "conditions": [{"requires_context_keys": [key]}]}


FORM: dict[str, Any] = {
    "mail": {"required_context_keys": ["mail"], "transitions": [_way("day", "mail")]},
    "day": {
        "purpose": "Which day?",
        "required_context_keys": ["day"],
        "transitions": [_way("size", "day")],
    },
    "size": {
        "purpose": "Ask for the size",
        "required_context_keys": ["size"],
        "transitions": [_way("color", "size")],
    },
    "color": {"required_context_keys": ["color"], "transitions": [_way("end", "color")]},
    "end": {"reply": "Done."},
}


@pytest.mark.parametrize(
    ("known", "reply_", "text"),
    [
        ({}, reply("mail", "Sure.", "Which address?"), "Sure.\n\nWhich address?"),
        ({}, reply("day", "Thanks.", "And the day?", mail="a@b"), "Thanks.\n\nAnd the day?"),
        # the machine took one way more, to a state that asks by itself
        ({"day": 1}, reply("day", "Hm.", "How big?", mail="a"), "Hm.\n\nHow big?"),
        # two ways more: the question was written for another state
        ({}, reply("mail", "Why not? It is free.", "", mail=None), "Why not? It is free.\n\nOh?"),
    ],
    ids=["where it stays", "where it moves", "behind one way", "left empty"],
)
def test_the_question_of_a_reply_is_said_where_it_was_written_for(
    known: dict[str, Any], reply_: str, text: str
) -> None:
    further = (reply("mail", "", "Oh?"),) if "Oh?" in text else ()
    assert talk(machine(FORM), "m", reply_, *further, context=known).text == text


def test_a_question_that_was_written_for_another_state_is_dropped() -> None:
    states = {**FORM, "size": {**FORM["size"], "purpose": "What size?"}}
    done = talk(
        machine(states), "m", reply("day", "Good.", "Which day?", mail="a"), context={"day": 1}
    )
    assert (done.session.state, done.text) == ("size", "Good.\n\nWhat size?")
    far = {"day": 1, "size": 2}
    done = talk(
        machine(FORM),
        "m",
        reply("day", "Good.", "Which day?", mail="a"),
        reply("color", "", "What colour?"),
        context=far,
    )
    assert (done.session.state, done.text) == ("color", "Good.\n\nWhat colour?")


@pytest.mark.parametrize(
    ("missing", "text"),
    [(("first", "last"), "Your first name? Your last name?"), (("last",), "Your last name?")],
)
def test_a_state_asks_for_what_is_missing_in_the_words_of_its_keys(
    missing: tuple[str, ...], text: str
) -> None:
    asked = {"first": "Your first name?", "last": "Your last name?"}
    keys = {key: {"type": "string", "x-ask": words} for key, words in asked.items()}
    states: dict[str, Any] = {
        "hello": {"purpose": "Hello", "transitions": [{"target_state": "name"}]},
        "name": {
            "purpose": "What is your name?",
            "required_context_keys": [*asked],
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    }
    made = machine(states, context_schema={"type": "object", "properties": keys})
    known = {key: "Ada" for key in asked if key not in missing}
    done = talk(made, "m", reply("name", "Fine.", ""), context=known)
    assert done.text == f"Fine.\n\n{text}"
