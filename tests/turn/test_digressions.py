"""Digressions: global transitions that come back, and whose words are said then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.definition.subflows import MAX_DEPTH
from llm_fsm.session import events as ev
from llm_fsm.session.session import dump_session, parse_session
from llm_fsm.turn.available import asides, available_moves
from llm_fsm.turn.model import turn_view
from machines import Played, machine, nested, reply, say, talk

STATES: dict[str, Any] = {
    "name": {
        "purpose": "Ask for the name",
        "required_context_keys": ["name"],
        "transitions": [
            {"target_state": "size", "conditions": [{"requires_context_keys": ["name"]}]}
        ],
    },
    "size": {"reply": "Which size, {{ name }}?", "transitions": [{"target_state": "done"}]},
    "done": {"reply": "Goodbye."},
    "hours": {"purpose": "Tell the opening hours"},
    "sign": {"reply": "We never sleep."},
    "help": {
        "purpose": "Find out what the question is",
        "transitions": [{"target_state": "answered", "description": "The question is known"}],
    },
    "answered": {"purpose": "Answer the question"},
    "other": {
        "purpose": "Ask about the other thing",
        "transitions": [{"target_state": "answered"}],
    },
}
ASIDE = [{"target_state": name, "return": True} for name in ("hours", "sign", "help", "other")]
SHOP = machine(STATES, global_transitions=ASIDE)


def asked(*replies: str) -> Played:
    """A conversation in which the name was asked for, and then these replies came."""
    done = talk(SHOP, "hello", reply("name", "Welcome!", "What is your name?"))
    for one in replies:
        done = say(SHOP, done.session, "…", one)
    return done


def open_states(done: Played) -> list[str]:
    return [frame.saved["state"] for frame in done.session.stack]


def test_a_digression_that_leads_nowhere_answers_and_comes_back_in_the_same_turn() -> None:
    done = asked(reply("hours", "From nine to five.", "So, what is your name?"))
    assert (done.session.state, done.session.stack, done.usage.calls) == ("name", (), 1)
    # the model named the digression, so that its question is not for the state behind it
    assert done.text == "From nine to five.\n\nWhat is your name?"
    assert [
        type(event)
        for event in done.events
        if isinstance(event, ev.FlowPushed | ev.FlowReturned | ev.StateEntered)
    ] == [ev.FlowPushed, ev.StateEntered, ev.FlowReturned]
    assert not done.session.ended


def test_where_the_words_ask_nothing_the_open_question_is_asked_again() -> None:
    assert (
        asked(reply("hours", "From nine to five.")).text
        == "From nine to five.\n\nWhat is your name?"
    )
    done = say(
        SHOP,
        talk(SHOP, "hello", reply("name", "Your name would help.")).session,
        "?",
        reply("hours", "Nine."),
    )
    assert done.text == "Nine.\n\nStill needed: name."


@pytest.mark.parametrize(
    ("purpose", "words"),
    [
        ("Please tell us your number.", "Now, please tell us your number."),
        ("Diga-nos seu telefone.", "Diga-nos seu telefone."),
    ],
)
def test_a_question_without_a_question_mark_is_no_other_than_one_with_it(
    purpose: str, words: str
) -> None:
    program = machine(
        {**STATES, "name": {**STATES["name"], "purpose": purpose}},
        global_transitions=ASIDE,
        context_schema={"properties": {"name": {"type": "string", "title": "氏名"}}},
    )
    done = say(
        program,
        talk(program, "hello", reply("name", "", purpose)).session,
        "?",
        reply("name", "From nine.", words),
    )
    assert done.text == f"From nine.\n\n{words}"


def test_a_fixed_reply_of_the_state_left_asks_again() -> None:
    done = asked(reply("size", "Hello Ada.", name="Ada"), reply("hours", "From nine."))
    assert (done.session.state, done.text) == ("size", "From nine.\n\nWhich size, Ada?")
    done = asked(reply("size", "Hello Ada.", name="Ada"), reply("sign", "Look!"))
    assert (done.session.state, done.text) == (
        "size",
        "Look!\n\nWe never sleep.\n\nWhich size, Ada?",
    )


def test_a_longer_digression_keeps_its_place_until_it_ends() -> None:
    begun = asked(reply("help", "What would you like to know?"))
    assert (begun.session.state, open_states(begun)) == ("help", ["name"])
    assert begun.text == "What would you like to know?"
    ended = say(SHOP, begun.session, "prices", reply("answered", "Ten euros.", name="Ada"))
    assert (ended.session.state, ended.session.stack, ended.session.ended) == ("size", (), False)
    assert ended.text == "Ten euros.\n\nWhich size, Ada?"  # the name was given on the way
    assert ended.session.context == {"name": "Ada"}
    assert ended.usage.calls == 1


def test_the_prompt_says_what_a_digression_comes_back_to() -> None:
    begun = asked(reply("help", "What?"))
    done = say(SHOP, begun.session, "prices", reply("help", "Which?"))
    assert "Then back to name.\n" in done.prompt
    assert "\nname: back to what was left open. Then ask: " in done.prompt


def test_what_only_answers_a_digression_is_said_once_to_come_back() -> None:
    done = asked(reply("name", "Hello."))
    assert 'Then say: "Tell the opening hours". Then back to name.\n' in done.prompt
    assert "Tell the opening hours" not in done.requests[0].messages[0].content


def test_a_state_is_not_summarised_for_a_digression_that_comes_back_at_once() -> None:
    shop = machine(
        {**STATES, "name": {**STATES["name"], "summarize": True}}, global_transitions=ASIDE
    )
    summary = json.dumps({"summary": "Somebody came", "todo_list": []})
    hello = talk(shop, "hello", reply("name", "Welcome!", "What is your name?"))
    told = say(shop, hello.session, "hours?", reply("hours", "From nine."))
    assert (told.text, told.usage.calls) == ("From nine.\n\nWhat is your name?", 1)
    longer = say(shop, told.session, "help", reply("help", "With what?"), summary)
    assert (longer.usage.calls, longer.session.summary) == (2, "Somebody came")
    left = say(shop, told.session, "Ada", reply("size", "Hello.", name="Ada"), summary)
    assert (left.usage.calls, left.session.summary) == (2, "Somebody came")


def test_an_answer_that_comes_with_a_question_aside_leads_on() -> None:
    made = machine(STATES, global_transitions=ASIDE[:1])
    done = talk(made, "hello", reply("name", "Welcome!", "What is your name?"))
    done = say(made, done.session, "Ada. When do you open?", reply("size", "At nine.", name="Ada"))
    assert (done.session.state, done.text) == ("size", "At nine.\n\nWhich size, Ada?")


def test_own_states_of_patterns_that_come_back_are_not_shown_as_ends() -> None:
    states = {
        "name": STATES["name"],
        "size": {},
        "clarify": {"purpose": "As in a shop."},
        "restart": {},
    }
    done = talk(machine(states, patterns=["clarify", "restart"]), "m", reply("name"))
    assert 'Then say: "As in a shop.". Then back to name.\n' in done.prompt
    assert "\nrestart: " in done.prompt


def test_the_prompt_asks_for_no_question_that_a_fixed_reply_asks_again() -> None:
    begun = asked(reply("size", "Hello Ada.", name="Ada"))
    done = say(SHOP, begun.session, "hours?", reply("hours", "From nine."))
    assert "Then back to size.\n" in done.prompt
    assert "\nsize: stay: all else. It says its own text.\n" in done.prompt


def test_the_prompts_of_a_called_definition_say_where_digressions_of_its_caller_are_told() -> None:
    inner = {
        "name": "inner",
        "initial_state": "q",
        "states": {"q": {"transitions": [{"target_state": "z"}]}, "z": {}},
    }
    outer = {
        "name": "outer",
        "initial_state": "call",
        "states": {"call": {"kind": "subflow", "flow": "inner", "transitions": [{"target_state": "end"}]},
                   "hours": STATES["hours"], "end": {}},
    }  # fmt: skip
    for returns in (True, False):
        done = talk(
            nested(outer | {"global_transitions": ASIDE[:1] if returns else []}, inner=inner),
            "m",
            reply("q"),
        )
        assert ("Then back to q." in done.prompt) is returns


@pytest.mark.parametrize(("number", "whole"), [(20, True), (2000, False)])
def test_what_a_digression_of_the_caller_answers_from_is_told_at_length(
    number: int, whole: bool
) -> None:
    facts = " ".join(f"Shop {n} opens at nine." for n in range(number))
    inner = {
        "name": "inner",
        "initial_state": "q",
        "states": {"q": {"transitions": [{"target_state": "z"}]}, "z": {}},
    }
    states = {
        "call": {"kind": "subflow", "flow": "inner", "transitions": [{"target_state": "end"}]},
        "hours": {
            "purpose": "Hours",
            "extraction_instructions": "Ask which shop.",
            "instructions": facts,
        },
        "end": {},
    }
    outer = {
        "name": "outer",
        "initial_state": "call",
        "states": states,
        "global_transitions": ASIDE[:1],
    }
    done = talk(nested(outer, inner=inner), "m", reply("q"))
    told = f'Then say: "Hours {facts} Ask which shop.". Then back to q.'
    assert (told in done.prompt) is whole


def test_an_end_ends_the_digression_and_not_the_conversation() -> None:
    states = {**STATES, "help": {**STATES["help"], "transitions": [{"target_state": "done"}]}}
    program = machine(states, global_transitions=ASIDE)
    done = talk(program, "?", reply("help", "What?"))
    done = say(program, done.session, "x", reply("done", "Fine."))
    assert (done.session.state, done.session.ended) == ("name", False)
    done = say(program, done.session, "Ada", reply("size", "Ok", name="Ada"))
    assert say(program, done.session, "L", reply("done", "ok")).session.outcome == "final"


def test_a_digression_named_again_begins_anew_and_does_not_stack() -> None:
    states = {**STATES, "help": {"purpose": "Help", "transitions": [{"target_state": "more"}]},
              "more": {"purpose": "More", "transitions": [{"target_state": "answered"}]}}  # fmt: skip
    program = machine(states, global_transitions=ASIDE)
    done = talk(program, "hello", reply("name", "Welcome!", "What is your name?"))
    for one in (reply("help", "What?"), reply("more", "And?"), reply("help", "Anew:", "what?")):
        done = say(program, done.session, "…", one)
    assert (done.session.state, open_states(done)) == ("help", ["name"])
    done = say(program, done.session, "…", reply("other", "Which other?"))
    done = say(program, done.session, "…", reply("help", "What?"))
    assert (done.session.state, open_states(done)) == ("help", ["name", "other"])


def test_a_digression_that_is_left_open_can_begin_again_from_the_way() -> None:
    done = asked(reply("help", "What?"), reply("name", "Your name?"), reply("help", "What?"))
    assert (done.session.state, open_states(done)) == ("help", ["name"])


def test_a_second_digression_stacks_and_both_come_back_in_turn() -> None:
    done = asked(reply("help", "What about?"), reply("other", "Which other thing?"))
    assert (done.session.state, open_states(done)) == ("other", ["name", "help"])
    done = say(SHOP, done.session, "that", reply("answered", "So it is."))
    assert (done.session.state, open_states(done), done.text) == (
        "help",
        ["name"],
        "So it is.\n\nWhat about?",
    )
    done = say(SHOP, done.session, "that", reply("answered", "Like this."))
    assert (done.session.state, done.text) == ("name", "Like this.\n\nWhat is your name?")


def test_open_states_are_resumed_in_the_order_that_the_user_chooses() -> None:
    both = asked(reply("help", "What about?"), reply("other", "Which other thing?"))
    first = say(SHOP, both.session, "my name first", reply("name", "Sure:", "your name?"))
    assert (first.session.state, open_states(first), first.text) == (
        "name",
        ["help"],
        "Sure:\n\nyour name?",
    )
    assert first.of(ev.FlowReturned)[0].how == "resumed"
    done = say(SHOP, first.session, "now the help", reply("help", "About what?"))
    assert (done.session.state, open_states(done)) == ("help", ["name"])
    done = say(SHOP, done.session, "that", reply("answered", "So it is."))
    assert (done.session.state, done.session.ended, done.text) == (
        "name",
        False,
        "So it is.\n\nyour name?",
    )


def test_a_digression_that_waits_for_another_is_come_back_to_first() -> None:
    both = asked(reply("help", "What about?"), reply("other", "Which other thing?"))
    first = say(SHOP, both.session, "the help first", reply("help", "Sure:", "about what?"))
    assert (first.session.state, open_states(first)) == ("help", ["name", "other"])
    done = say(SHOP, first.session, "that", reply("answered", "So it is."))
    assert (done.session.state, open_states(done), done.text) == (
        "other",
        ["name"],
        "So it is.\n\nWhich other thing?",
    )


def test_a_digression_that_is_left_for_the_way_itself_is_done_with() -> None:
    done = asked(
        reply("help", "What about?"), reply("name", "Your name?"), reply("size", "Ok.", name="Ada")
    )
    done = say(SHOP, done.session, "L", reply("done", "Ok."))
    assert (done.session.state, done.session.ended) == ("done", True)


def test_an_answer_is_corrected_on_the_way_while_a_digression_is_open() -> None:
    kinds = {
        "kind": {
            "purpose": "Which kind?",
            "required_context_keys": ["kind"],
            "transitions": [
                {"target_state": kind, "conditions": [{"logic": {"==": [{"var": "kind"}, kind]}}]}
                for kind in "ab"
            ],
        },
        "a": {"purpose": "What of a?", "transitions": [{"target_state": "done"}]},
        "b": {"purpose": "What of b?", "transitions": [{"target_state": "done"}]},
    }
    program = machine({**STATES, **kinds}, "kind", global_transitions=ASIDE, patterns=["correct"])
    done = talk(program, "a", reply("a", "What of a?", kind="a"))
    for one in (reply("help", "What about?"), reply("other", "Which?"), reply("a", "What of a?")):
        done = say(program, done.session, "…", one)
    assert open_states(done) == ["help"]
    done = say(program, done.session, "b, rather", reply("correct", "Then b.", kind="b"))
    assert (done.session.state, done.text) == ("b", "Then b.\n\nWhat of b?")


def test_what_a_digression_said_is_not_said_again_with_the_open_question() -> None:
    done = asked(reply("sign", ""), reply("sign", ""))
    assert done.text == "We never sleep.\n\nWhat is your name?"


def test_what_is_still_open_is_come_back_to_before_the_end() -> None:
    both = asked(reply("help", "What about?"), reply("other", "Which other thing?"))
    done = say(SHOP, both.session, "my name", reply("name", "Your name?"))
    done = say(SHOP, done.session, "Ada", reply("size", "Ok.", name="Ada"))
    done = say(SHOP, done.session, "L", reply("done", "Ok."))
    assert (done.session.state, done.session.ended) == ("help", False)
    assert done.text.endswith("What about?")


def test_naming_what_was_left_open_is_no_transition_of_the_definition_and_still_stands() -> None:
    done = say(
        SHOP, asked(reply("help", "What?")).session, "back", reply("name", "Your name, then?")
    )
    assert (done.session.state, done.session.stack, done.usage.calls) == ("name", (), 1)
    assert done.requests[0].schema is not None
    assert "name" in done.requests[0].schema.schema["properties"]["target_state"]["enum"]


def test_no_more_is_left_open_than_can_be_kept_in_mind() -> None:
    done = talk(SHOP, "hello", reply("name", "Your name?"))
    session = done.session
    states = {
        f"s{n}": {"purpose": f"Topic {n}", "transitions": [{"target_state": "answered"}]}
        for n in range(12)
    }
    program = machine(
        {**STATES, **states},
        global_transitions=[{"target_state": name, "return": True} for name in states],
    )
    for number in range(MAX_DEPTH):
        session = say(program, session, "and", reply(f"s{number}", "And?")).session
    assert len(session.stack) == MAX_DEPTH
    done = say(program, session, "and", reply("s9", "And?"), reply("s7", "Well?"))
    assert len(done.session.stack) == MAX_DEPTH
    assert "too much is left open" in done.of(ev.MoveRefused)[0].reason


def test_a_digression_may_be_a_subflow() -> None:
    quiz: dict[str, Any] = {
        "name": "quiz",
        "initial_state": "q",
        "states": {
            "q": {"reply": "Two and two?", "transitions": [{"target_state": "right"}]},
            "right": {"reply": "Right!"},
        },
    }
    document = {
        "name": "shop",
        "initial_state": "name",
        "states": {"name": STATES["name"], "size": STATES["size"], "done": STATES["done"],
                   "quiz": {"kind": "subflow", "flow": "quiz"}},
        "global_transitions": [{"target_state": "quiz", "return": True}],
    }  # fmt: skip
    program = nested(document, quiz=quiz)
    done = talk(program, "hello", reply("name", "What is your name?"))
    done = say(program, done.session, "a quiz", reply("quiz", "With pleasure."))
    assert (done.session.flow, done.session.state, done.text) == (
        "quiz",
        "q",
        "With pleasure.\n\nTwo and two?",
    )
    done = say(program, done.session, "four", reply("right", "Four!"))
    assert (done.session.flow, done.session.state, done.session.stack) == ("", "name", ())
    assert done.text == "Four!\n\nRight!\n\nWhat is your name?"
    assert done.usage.calls == 1


def test_a_flow_that_a_digression_began_is_left_for_what_was_open() -> None:
    inner: dict[str, Any] = {
        "name": "inner",
        "initial_state": "q",
        "states": {"q": {"purpose": "Ask", "transitions": [{"target_state": "end"}]}, "end": {}},
    }
    document = {
        "name": "outer",
        "initial_state": "a",
        "states": {"a": {"purpose": "A", "transitions": [{"target_state": "end"}]}, "end": {},
                   "call": {"kind": "subflow", "flow": "inner"}},
        "global_transitions": [{"target_state": "call", "return": True}],
    }  # fmt: skip
    program = nested(document, inner=inner)
    done = talk(program, "x", reply("call", "Ok."), reply("q", "Q?"))
    assert done.session.open_places() == {}
    back = say(program, done.session, "back", reply("a", "Back.", "So, what about A?"))
    assert (back.session.flow, back.session.state, back.session.stack) == ("", "a", ())
    assert back.text == "Back.\n\nSo, what about A?"
    assert "a: back to what was left open." in back.requests[0].messages[1].content


TRIP = nested(
    {
        "name": "trip",
        "initial_state": "where",
        "states": {
            "where": {"purpose": "Where to?", "transitions": [{"target_state": "who"}]},
            "who": {"kind": "subflow", "flow": "person", "transitions": [{"target_state": "meal"}]},
            "meal": {"purpose": "Which meal?", "transitions": [{"target_state": "booked"}]},
            "booked": {"reply": "Booked."},
            "pets": {"purpose": "Dog or cat?", "transitions": [{"target_state": "pet_price"}]},
            "pet_price": {"reply": "Thirty euros."},
            "bags": {"purpose": "How heavy?", "transitions": [{"target_state": "bag_price"}]},
            "bag_price": {"reply": "Fifty euros."},
        },
        "global_transitions": [{"target_state": name, "return": True} for name in ("pets", "bags")],
    },
    person={
        "name": "person",
        "initial_state": "name",
        "states": {
            "name": {"purpose": "Which name?", "transitions": [{"target_state": "passport"}]},
            "passport": {"purpose": "Which number?", "transitions": [{"target_state": "noted"}]},
            "noted": {"reply": "Noted."},
            "visa": {"purpose": "Which country?", "transitions": [{"target_state": "visa_price"}]},
            "visa_price": {"reply": "Ten euros."},
        },
        "global_transitions": [{"target_state": "visa", "return": True}],
    },
)


def travelled(*replies: tuple[str, str]) -> Played:
    """A conversation in the flow that asks for a person, and then these replies came."""
    done = talk(TRIP, "to Rome", reply("who", "Rome!"))
    for target, words in (("passport", "Which number?"), *replies):
        done = say(TRIP, done.session, "…", reply(target, words))
    return done


def test_the_schema_in_a_flow_has_the_keys_of_the_digressions_around_it() -> None:
    begun = talk(TRIP, "to Rome", reply("who", "Rome!"))
    done = say(TRIP, begun.session, "Ada", reply("name", "And the rest of it?"))
    turn = done.requests[0]
    assert turn.schema is not None
    assert '"bags"' in turn.schema.text


def test_the_open_question_of_a_flow_is_chosen_from_a_digression_of_its_caller() -> None:
    done = travelled(("pets", "Dog or cat?"), ("passport", "The number, then?"))
    assert (done.session.flow, done.session.state, open_states(done)) == (
        "person",
        "passport",
        ["who"],
    )
    assert done.text == "The number, then?"
    assert done.of(ev.FlowReturned)[0].how == "resumed"


def test_an_end_of_a_digression_out_of_a_flow_is_said_to_come_back_to_the_flow() -> None:
    done = travelled(("pets", "Dog or cat?"), ("pets", "Hm?"))
    assert "Then back to passport.\n" in done.prompt
    done = say(TRIP, done.session, "a cat", reply("pet_price", "A cat."))
    assert (done.session.flow, done.session.state) == ("person", "passport")
    assert (done.text, done.usage.calls) == ("A cat.\n\nThirty euros.\n\nWhich number?", 1)


def test_what_else_was_left_open_in_the_caller_waits_until_the_flow_has_come_back() -> None:
    done = travelled(
        ("pets", "Dog or cat?"), ("bags", "How heavy?"), ("passport", "The number, then?")
    )
    assert (done.session.state, open_states(done)) == ("passport", ["pets", "who"])
    done = say(TRIP, done.session, "X1", reply("noted", "Thanks."))
    assert (done.session.flow, done.session.state, open_states(done)) == ("", "meal", ["pets"])
    done = say(TRIP, done.session, "fish", reply("booked", ""))
    assert (done.session.state, done.session.ended) == ("pets", False)
    assert done.text == "Booked.\n\nDog or cat?"


def test_a_digression_that_the_caller_left_open_is_taken_up_from_within_the_flow() -> None:
    done = travelled(
        ("pets", "Dog or cat?"),
        ("bags", "How heavy?"),
        ("passport", "The number?"),
        ("pets", "So, which?"),
    )
    assert (done.session.flow, done.session.state, open_states(done)) == (
        "",
        "pets",
        ["who", "passport"],
    )
    done = say(TRIP, done.session, "a dog", reply("pet_price", ""))
    assert (done.session.state, open_states(done)) == ("passport", ["who"])
    assert done.text == "Thirty euros.\n\nWhich number?"


def test_every_place_that_flows_and_callers_left_open_can_be_chosen() -> None:
    both = travelled(("visa", "Which country?"), ("pets", "Dog or cat?"))
    assert open_states(both) == ["who", "passport", "visa"]
    way = say(TRIP, both.session, "the number first", reply("passport", "The number?"))
    assert (way.session.state, open_states(way)) == ("passport", ["who", "visa"])
    aside = say(TRIP, both.session, "France", reply("visa", "And the country?"))
    assert (aside.session.state, open_states(aside)) == ("visa", ["who", "passport"])
    done = say(TRIP, aside.session, "France", reply("visa_price", ""))
    assert (done.session.state, done.text) == ("passport", "Ten euros.\n\nWhich number?")


def test_what_a_reply_says_about_the_definition_it_leads_into_is_kept_there() -> None:
    pin = {"type": "string", "x-secret": True}
    inner: dict[str, Any] = {
        "name": "inner",
        "initial_state": "pin",
        "context_schema": {"properties": {"pin": pin}},
        "states": {"pin": {"purpose": "PIN?", "transitions": [{"target_state": "in"}]}, "in": {}},
    }
    document = {
        "name": "outer",
        "initial_state": "hello",
        "context_schema": {"properties": {"size": {"type": "string"}}},
        "states": {
            "hello": {"purpose": "Hello", "transitions": [{"target_state": "call"}]},
            "call": {"kind": "subflow", "flow": "inner"},
            "help": {"purpose": "Which size?", "transitions": [{"target_state": "told"}]},
            "told": {"reply": "Size {{ size }} it is."},
        },
        "global_transitions": [{"target_state": "help", "return": True}],
    }
    program = nested(document, inner=inner)
    begun = talk(program, "in", reply("call", ""))
    aside = say(program, begun.session, "do you have L?", reply("help", "L, then?", size="L"))
    assert (aside.session.state, aside.session.context) == ("help", {"size": "L"})
    back = say(
        program, aside.session, "the PIN is 1234", reply("pin", "Thanks.", pin="1234", size="M")
    )
    assert (back.session.state, back.session.context) == ("pin", {"pin": "1234"})
    assert back.session.root_context() == {"size": "M"}


def test_a_session_in_which_places_of_several_definitions_are_open_survives_its_json_form() -> None:
    session = travelled(
        ("pets", "Which?"), ("bags", "Heavy?"), ("passport", "So?"), ("bags", "Heavy?")
    ).session
    assert parse_session(dump_session(session)) == session
    assert TRIP.knows(session)


@pytest.mark.parametrize("target", ["help", "hours"])
def test_a_session_with_open_digressions_survives_its_json_form(target: str) -> None:
    session = asked(reply(target, "What?")).session
    assert parse_session(dump_session(session)) == session


@pytest.mark.parametrize("replies", [(), (("visa", "Which country?"),), (("pets", "Dog or cat?"),)])
def test_the_plain_view_offers_what_the_prompt_offers(replies: tuple[tuple[str, str], ...]) -> None:
    session = travelled(*replies).session
    look = available_moves(TRIP.of(session), session, asides(TRIP, session))
    view = turn_view(TRIP, session, look, speak=False, refused=())
    assert {choice.target_state for choice in view.choices if choice.open} == {*look.valid} - {
        session.state
    }


CALLING = nested(
    {
        "name": "desk",
        "initial_state": "start",
        "context_schema": {"properties": {"topic": {"type": "string"}}},
        "global_transitions": [
            {"target_state": "faq", "description": "A question", "return": True}
        ],
        "states": {
            "start": {"purpose": "Start?", "transitions": [{"target_state": "called"}]},
            "called": {
                "kind": "subflow",
                "flow": "count",
                "transitions": [{"target_state": "end"}],
            },
            "faq": {
                "purpose": "Answer",
                "required_context_keys": ["topic"],
                "transitions": [{"target_state": "end"}],
            },
            "end": {"reply": "Bye."},
        },
    },
    count={
        "name": "count",
        "initial_state": "many",
        "context_schema": {"properties": {"many": {"type": "integer"}}},
        "states": {
            "many": {
                "purpose": "How many?",
                "required_context_keys": ["many"],
                "transitions": [
                    {
                        "target_state": "which",
                        "auto": True,
                        "conditions": [{"requires_context_keys": ["many"]}],
                    }
                ],
            },
            "which": {"purpose": "Which?", "transitions": [{"target_state": "counted"}]},
            "counted": {"reply": "Good."},
        },
    },
)


def test_what_is_said_about_a_digression_that_is_not_made_is_on_record() -> None:
    begun = talk(CALLING, "go", reply("called", "Gladly."))
    said = (reply("faq", "x!", many=3, topic="x"),)
    done = say(CALLING, begun.session, "3, and about x", *said)
    assert (done.session.state, done.session.context) == (
        "which",
        {"many": 3, "_extra": {"topic": "x"}},
    )
