"""The turn: who decides, whose words, and what every kind of reply leads to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm._json import read, text_of
from llm_fsm._text import estimate
from llm_fsm.session import events as ev
from llm_fsm.session.messages import ModelReply
from llm_fsm.session.reducer import fold
from llm_fsm.session.session import Session
from llm_fsm.turn.effects import HandlerResult, Point, RunHandlers
from machines import GREETER, machine, program, reply, say, start, talk

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
        "approved": {"type": "boolean", "x-source": "host"},
        "pin": {"type": "string", "x-secret": True},
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
        },
        "tags": {"type": "object"},
    },
}
GREET = program(GREETER)
TYPED = program(GREETER, context_schema=SCHEMA)


def needs(*keys: str, **more: Any) -> list[dict[str, Any]]:
    return [{"requires_context_keys": list(keys), **more}]


# -- the table of replies


def test_good_reply_moves_in_one_call() -> None:
    done = talk(GREET, "I'm Ada", reply("bye", "Bye Ada", name="Ada"))
    assert (done.session.state, done.text, done.usage.calls) == ("bye", "Bye Ada", 1)
    assert done.session.context == {"name": "Ada"}
    assert done.session.ended


def test_a_refused_list_or_object_is_said_to_be_refused_as_a_whole() -> None:
    item = {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer", "maximum": 9}},
    }
    schema = {
        "properties": {
            "items": {"type": "array", "items": item},
            "age": {"type": "integer", "maximum": 9},
        }
    }
    made = program(GREETER, context_schema=schema)
    first = talk(made, "two", reply("hello", items=[{"n": 1}, {"n": 10}], age=10))
    told = _told(first)
    assert "items: at /1/n: 10 is greater than the maximum of 9; nothing of it was kept" in told
    assert "age: 10 is greater than the maximum of 9" in told
    again = talk(made, "two", reply("bye", items=[{"n": 10}]), reply("hello"))
    assert "items: at /0/n: 10 is greater than the maximum of 9; nothing of it was kept" in _told(
        again
    )


PLACE = {
    "type": "object",
    "properties": {
        "street": {"type": "string"},
        "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
    },
    "required": ["street", "zip"],
}


def asking_for(*names: str, **more: Any) -> Any:
    hello = {
        "purpose": "Ask where",
        "required_context_keys": list(names),
        "transitions": [{"target_state": "later", "description": "In a hurry"}],
        **more,
    }
    later = {"purpose": "Ask when", "transitions": [{"target_state": "bye"}]}
    schema = {"properties": {"place": PLACE, "door": {**PLACE, "x-secret": True}}}
    states = {"hello": hello, "later": later, "bye": {"purpose": "Say goodbye"}}
    return program(
        {"name": "m", "initial_state": "hello", "states": states, "context_schema": schema}
    )


def test_parts_of_an_object_wait_for_those_that_it_lacks_and_are_shown_where_it_is_collected() -> (
    None
):
    made = asking_for("place")
    first = talk(made, "Main 5", reply("hello", place={"street": "Main 5"}))
    assert first.session.context == {}
    aside = say(made, first.session, "why?", reply("hello"))
    assert '<current_context>\n{"place":{"street":"Main 5"}}\n' in aside.prompt
    assert "<information_to_collect>place.zip</information_to_collect>" in aside.prompt
    left = say(made, aside.session, "no time", reply("later"))
    assert "<refused>" not in say(made, left.session, "m", reply("later")).prompt
    done = say(made, left.session, "12345", reply("later", place={"zip": "12345"}))
    assert done.session.context == {"place": {"street": "Main 5", "zip": "12345"}}
    assert not done.session.begun


def test_parts_that_are_asked_for_by_name_and_wait_are_not_missing() -> None:
    made = asking_for("place.street", "place.zip")
    first = talk(made, "Main 5", reply("hello", place={"street": "Main 5"}))
    prompt = say(made, first.session, "m", reply("hello")).prompt
    assert "<information_to_collect>place.zip</information_to_collect>" in prompt


def test_parts_that_wait_are_not_shown_where_the_state_narrows_what_is() -> None:
    made = asking_for("place", context_scope={"read": ["door"]})
    first = talk(made, "Main 5", reply("hello", place={"street": "Main 5"}))
    assert "so_far" not in say(made, first.session, "m", reply("hello")).prompt


def test_parts_in_an_object_that_is_written_as_a_text_wait_and_change_a_known_one() -> None:
    made = asking_for("place")
    first = talk(made, "Main 5", reply("hello", place='{"street": "Main 5", "zip": null}')).session
    assert first.begun == {"place": {"street": "Main 5"}}
    whole = say(made, first, "12345", reply("hello", place='{"zip": "12345"}')).session
    assert whole.context == {"place": {"street": "Main 5", "zip": "12345"}}
    other = say(made, whole, "54321", reply("hello", place='{"zip": "54321"}')).session
    assert other.context == {"place": {"street": "Main 5", "zip": "54321"}}


def test_no_part_of_a_secret_object_waits() -> None:
    made = asking_for("door")
    first = talk(made, "Main 5", reply("hello", door={"street": "Main 5"}))
    assert not first.session.begun
    refused = [event for event in first.events if isinstance(event, ev.ContextRefused)]
    assert {(event.key, event.begun) for event in refused} == {("door", None)}


def test_a_part_of_a_known_object_is_refused_for_what_is_wrong_with_it() -> None:
    made = asking_for("place")
    known = talk(made, "m", reply("hello", place={"street": "Main 5", "zip": "12345"})).session
    refused = say(made, known, "9", reply("hello", place={"zip": "9"}))
    assert refused.session.context == {"place": {"street": "Main 5", "zip": "12345"}}
    assert "place: at /zip: " in _told(refused)
    assert "nothing of it was kept" in _told(refused)


def test_good_reply_stays_in_one_call() -> None:
    done = talk(GREET, "hi", reply("hello", "Your name?"))
    assert (done.session.state, done.text, done.usage.calls, done.session.ended) == (
        "hello",
        "Your name?",
        1,
        False,
    )
    assert not done.of(ev.StateEntered)


def test_refused_value_alone_is_a_second_call_and_no_later_prompt_tells() -> None:
    first = talk(
        TYPED, "Ada, minus one", reply("hello", "And?", name="Ada", age=-1), reply("hello", "What?")
    )
    assert first.session.context == {"name": "Ada"}
    assert (first.text, first.usage.calls) == ("What?", 2)
    assert "age: -1 is less than the minimum of 0" in _told(first)
    second = say(TYPED, first.session, "ok", reply("hello"))
    assert "minimum of 0" not in second.prompt


def test_pick_stands_without_the_refused_value_unless_it_needs_it() -> None:
    done = talk(TYPED, "x", reply("bye", "Bye", name=1.5), reply("hello", "Name?"))
    assert (done.session.state, done.usage.calls, done.text) == ("hello", 2, "Name?")


@pytest.mark.parametrize(
    "bad", ["", "no json", "<html></html>", "[]", "{}", '{"message": "hi"}', '{"transition": 3}']
)
def test_unusable_reply_is_asked_for_once_more(bad: str) -> None:
    done = talk(GREET, "I'm Ada", bad, reply("bye", "Bye", name="Ada"))
    assert (done.session.state, done.text, done.usage.calls) == ("bye", "Bye", 2)
    assert len(done.requests[1].messages) == 4
    assert done.requests[1].messages[:2] == done.requests[0].messages
    assert done.requests[1].messages[2].content == (bad or "{}")


@pytest.mark.parametrize("target", ["Bye", "bye ", "BYE", "`bye`", "<bye>", "**bye**."])
def test_a_target_in_other_letters_is_the_one_name_that_it_can_be(target: str) -> None:
    done = talk(GREET, "I'm Ada", reply(target, "Bye, Ada", name="Ada"))
    assert (done.session.state, done.text, done.usage.calls) == ("bye", "Bye, Ada", 1)
    assert done.of(ev.MovePicked)[0].target == "bye"


def test_a_target_that_two_names_are_in_other_letters_is_refused() -> None:
    states = {
        "hello": {"transitions": [{"target_state": "bye"}, {"target_state": "Bye"}]},
        "bye": {"purpose": "Say goodbye"},
        "Bye": {"purpose": "Say goodbye loudly"},
    }
    done = talk(
        program(GREETER, states=states),
        "I'm Ada",
        reply("BYE", "Bye", name="Ada"),
        reply("Bye", "BYE"),
    )
    assert (done.session.state, done.usage.calls) == ("Bye", 2)
    marked = talk(program(GREETER, states=states), "I'm Ada", reply("`Bye`", "BYE", name="Ada"))
    assert (marked.session.state, marked.usage.calls) == ("Bye", 1)


@pytest.mark.parametrize("target", ["nowhere", "by e"])
def test_refused_pick_keeps_the_accepted_values_and_tells_why(target: str) -> None:
    done = talk(GREET, "Ada", reply(target, "Moving!", nick="A"), reply("hello", "Again?"))
    assert (done.session.state, done.text, done.usage.calls) == ("hello", "Again?", 2)
    assert done.session.context == {"nick": "A"}
    assert done.of(ev.MoveRefused)[0].by == "unknown"
    assert "no transition leads there" in done.requests[1].messages[3].content
    assert done.requests[1].messages[3].content.count("Name one of <transitions>.") == 1


def test_closed_pick_names_what_is_missing() -> None:
    done = talk(GREET, "hi", reply("bye", "Bye!"), reply("hello", "Name?"))
    assert done.of(ev.MoveRefused)[0] == ev.MoveRefused(
        target="bye", by="closed", reason="condition needs name, which is not known yet"
    )
    assert "Bye!" not in done.text


STAY = 'name "bye" again; else name "hello" as target_state, and ask for what is missing. Answer'


def test_a_second_try_is_told_one_way_out_of_a_closed_pick_and_may_add_what_it_left_out() -> None:
    done = talk(GREET, "I'm Ada", reply("bye", "Bye!"), reply("bye", "Bye Ada", name="Ada"))
    assert STAY in _told(done)
    assert (done.session.state, done.text) == ("bye", "Bye Ada")


def test_a_second_try_is_told_what_a_rule_reads_that_is_not_known() -> None:
    rule = {
        "or": [
            {"==": [{"var": "age"}, 1]},
            {"==": [{"var": "name"}, "Ada"]},
            {">": [{"var": "_turn"}, 9]},
        ]
    }
    hello = {
        "purpose": "Hello?",
        "transitions": [{"target_state": "bye", "conditions": [{"logic": rule}]}],
    }
    made = machine({"hello": hello, "bye": {"purpose": "Bye."}}, context_schema=SCHEMA)
    done = talk(made, "hi", reply("bye", age=2), reply("bye", name="Ada"))
    assert "is not possible: condition does not hold (name not known yet)" in _told(done)
    assert done.session.state == "bye"


def test_a_second_try_is_told_of_all_keys_that_are_missing() -> None:
    hello = {
        "purpose": "Hello?",
        "transitions": [{"target_state": "bye", "conditions": needs("name", "age")}],
    }
    made = machine({"hello": hello, "bye": {"purpose": "Bye."}}, context_schema=SCHEMA)
    done = talk(made, "hi", reply("bye", "Bye!"), reply("hello", "Name?"))
    assert "condition needs name, age, which are not known yet" in _told(done)


def test_a_second_try_is_not_offered_what_no_reply_can_open() -> None:
    hello = {
        "purpose": "Hello?",
        "transitions": [{"target_state": "bye", "conditions": needs("approved")}],
    }
    closed = machine({"hello": hello, "bye": {"purpose": "Bye."}}, context_schema=SCHEMA)
    done = talk(closed, "hi", reply("bye", "Bye!"), reply("hello", "Name?"))
    assert "needs approved, which is not known yet" in _told(done)
    assert STAY in _told(done)


def _told(done: Any) -> str:
    return str(done.requests[1].messages[3].content)


@pytest.mark.parametrize(
    "second", ["garbage", reply("nowhere", "Moved!"), reply("bye", "Bye!"), ""]
)
@pytest.mark.parametrize("first", ["garbage", reply("bye", "Bye!")])
def test_two_failures_stay_with_own_words_and_never_ask_a_third_time(
    first: str, second: str
) -> None:
    done = talk(GREET, "hi", first, second)
    assert (done.session.state, done.usage.calls) == ("hello", 2)
    assert (
        done.text
        == "Sorry, I did not get that.\n\nGreet the user and learn their name. Still needed: name."
    )
    assert done.of(ev.BotSaid)[0].fallback


def test_two_failures_are_not_excused_in_english_where_that_is_foreign() -> None:
    states = {"a": {"purpose": "Wie heißen Sie?", "transitions": [{"target_state": "b"}]}, "b": {}}
    assert talk(machine(states, language="da"), "hm", "x", "y").text == "Wie heißen Sie?"


def test_failure_text_of_the_definition_comes_first_then_the_fixed_reply() -> None:
    failing = program(GREETER, model={"on_failure": "Something went wrong."})
    own = "Greet the user and learn their name. Still needed: name."
    assert talk(failing, "hi", "x", "y").text == f"Something went wrong.\n\n{own}"
    fixed = machine(
        {"a": {"reply": "What is your name?", "transitions": [{"target_state": "b"}]}, "b": {}}
    )
    sorry = "Sorry, I did not get that."
    assert talk(fixed, "hi", "x", "y").text == f"{sorry}\n\nWhat is your name?"


def test_missing_message_shows_the_states_own_question() -> None:
    done = talk(
        GREET, "hi", json.dumps({"transition": {"target_state": "hello", "context_update": None}})
    )
    assert (done.text, done.usage.calls) == (
        "Greet the user and learn their name. Still needed: name.",
        1,
    )


@pytest.mark.parametrize("update", [["x"], "x", 5, True])
def test_update_that_is_no_object_counts_as_empty(update: object) -> None:
    text = json.dumps(
        {"transition": {"target_state": "hello", "context_update": update}, "message": "m"}
    )
    done = talk(GREET, "hi", text)
    assert (done.usage.calls, dict(done.session.context)) == (2, {})
    assert done.of(ev.ContextRefused)


@pytest.mark.parametrize("target", ["a", "nowhere"])
def test_fault_of_a_whole_update_is_told_to_the_model_and_to_no_user(target: str) -> None:
    made = machine({"a": {"reply": "Name?", "transitions": [{"target_state": "b"}]}, "b": {}})
    text = json.dumps({"transition": {"target_state": target, "context_update": 5}, "message": "m"})
    done = talk(made, "hi", text)
    assert (done.text, done.usage.calls) == ("Sorry, I did not get that.\n\nName?", 2)
    assert "context_update must be an object" in _told(done)


# -- who decides


def test_each_of_several_transitions_to_one_target_is_considered() -> None:
    made = machine(
        {
            "a": {
                "transitions": [
                    {"target_state": "b", "conditions": needs("x")},
                    {"target_state": "b", "conditions": needs("y")},
                ]
            },
            "b": {},
        }
    )
    assert talk(made, "m", reply("b", y=1)).session.state == "b"


def test_priority_never_overrules_what_the_model_read() -> None:
    made = machine(
        {
            "a": {
                "transitions": [
                    {"target_state": "b", "priority": 1},
                    {"target_state": "c", "priority": 900},
                ]
            },
            "b": {},
            "c": {},
        }
    )
    assert talk(made, "m", reply("c")).session.state == "c"


def test_lone_open_transition_is_not_taken_unless_picked() -> None:
    made = machine({"a": {"transitions": [{"target_state": "b"}]}, "b": {}})
    assert talk(made, "m", reply("a")).session.state == "a"


def test_context_of_a_refused_reply_is_checked_before_the_pick() -> None:
    made = machine(
        {
            "a": {
                "transitions": [
                    {"target_state": "b", "conditions": [{"logic": {">": [{"var": "age"}, 17]}}]}
                ]
            },
            "b": {},
        }
    )
    assert talk(made, "m", reply("b", age=18)).session.state == "b"
    done = talk(made, "m", reply("b", age=17), reply("a"))
    assert (done.session.state, done.session.context) == ("a", {"age": 17})


def test_failing_condition_does_not_hold_and_says_why() -> None:
    made = machine(
        {
            "a": {
                "transitions": [{"target_state": "b", "conditions": [{"logic": {"date": ["x"]}}]}]
            },
            "b": {},
        }
    )
    done = talk(made, "m", reply("b"), reply("a"))
    assert "cannot be evaluated" in done.of(ev.MoveRefused)[0].reason


AUTO = {
    "a": {
        "transitions": [
            {"target_state": "b", "auto": True, "conditions": needs("x")},
            {"target_state": "c"},
        ]
    },
    "b": {"purpose": "B", "transitions": [{"target_state": "a"}]},
    "c": {"transitions": [{"target_state": "a"}]},
}


def test_auto_is_taken_before_the_model_is_called() -> None:
    def set_x(effect: RunHandlers) -> HandlerResult | None:
        return (
            HandlerResult(handler="h", changes={"x": 1})
            if effect.point is Point.PRE_PROCESSING
            else None
        )

    done = talk(machine(AUTO), "m", reply("b", "words of b"), handler=set_x)
    assert (done.session.state, done.usage.calls, done.text) == ("b", 1, "words of b")
    assert "<id>b</id>" in done.prompt


def test_auto_that_holds_on_arrival_is_foreseen_by_the_one_call() -> None:
    made = machine(AUTO)
    done = say(
        made, start(made, state="c", context={"x": 1}).session, "m", reply("a", "words for b")
    )
    assert (done.session.state, done.usage.calls, done.text) == ("b", 1, "words for b")


def test_auto_is_taken_after_an_update_whatever_was_picked() -> None:
    done = talk(machine(AUTO), "m", reply("c", "to c", x=1), reply("b", "words for b"))
    assert (done.session.state, done.usage.calls) == ("b", 2)
    assert done.text == "to c\n\nwords for b"  # no word is lost


def test_auto_that_was_picked_needs_no_further_call() -> None:
    done = talk(machine(AUTO), "m", reply("b", "to b", x=1))
    assert (done.session.state, done.usage.calls, done.text) == ("b", 1, "to b")


DECIDE = {
    "ask": {
        "purpose": "Ask the age",
        "transitions": [{"target_state": "route", "conditions": needs("age")}],
    },
    "route": {
        "kind": "decide",
        "transitions": [
            {
                "target_state": "adult",
                "priority": 10,
                "conditions": [{"logic": {">=": [{"var": "age"}, 18]}}],
            },
            {
                "target_state": "child",
                "priority": 20,
                "conditions": [{"logic": {"<": [{"var": "age"}, 18]}}],
            },
        ],
    },
    "adult": {"purpose": "Serve an adult", "transitions": [{"target_state": "ask"}]},
    "child": {"purpose": "Be kind", "transitions": [{"target_state": "ask"}]},
}


@pytest.mark.parametrize(("age", "state"), [(30, "adult"), (7, "child")])
def test_decide_picks_by_conditions_and_the_one_call_speaks_for_the_arrival(
    age: int, state: str
) -> None:
    done = talk(machine(DECIDE), "m", reply("route", "words", age=age))
    assert (done.session.state, done.usage.calls, done.text) == (state, 1, "words")
    assert [event.by for event in done.of(ev.StateEntered)] == ["model", "decide"]
    assert "adult" not in done.prompt  # it looks no further than one step


def test_decide_that_turned_otherwise_gets_words_of_its_own() -> None:
    states = {
        **DECIDE,
        "route": {
            "kind": "decide",
            "transitions": [
                {
                    "target_state": "adult",
                    "priority": 1,
                    "conditions": [{"logic": {"==": [{"var": "approved"}, True]}}],
                },
                {"target_state": "child"},
            ],
        },
    }
    schema = {"properties": {"age": {"type": "integer"}, "approved": {"x-source": "host"}}}
    made = machine(states, context_schema=schema)

    def approve(effect: RunHandlers) -> HandlerResult | None:
        return (
            HandlerResult(handler="h", changes={"approved": True})
            if effect.point is Point.CONTEXT_UPDATE
            else None
        )

    done = talk(
        made,
        "m",
        reply("route", "for the child", age=30),
        reply("adult", "for the adult"),
        handler=approve,
    )
    assert (done.session.state, done.usage.calls) == ("adult", 2)
    assert done.text == "for the child\n\nfor the adult"
    words = done.requests[1].messages[1].content
    assert (
        "by itself. Write the message for it, and its question, if it has one. The user reads it "
        "right after <said_already>"
    ) in words
    assert words.endswith('<said_already>\n"for the child"\n</said_already>\n')
    plain = talk(made, "m", reply("route", "for the child", age=30))
    assert (plain.session.state, plain.usage.calls, plain.text) == ("child", 1, "for the child")


def test_decide_in_which_nothing_holds_ends_the_run_as_stuck() -> None:
    done = talk(
        machine({**DECIDE, "route": {"kind": "decide", "transitions": []}}),
        "m",
        reply("route", "x", age=1),
    )
    assert (done.session.state, done.session.ended, done.session.outcome) == (
        "route",
        True,
        "stuck",
    )
    assert done.text == "Sorry, I cannot continue with this."


def test_endless_decisions_end_the_conversation_at_the_limit() -> None:
    states = {
        "a": {"transitions": [{"target_state": "x"}]},
        "x": {"kind": "decide", "transitions": [{"target_state": "y"}]},
        "y": {"kind": "decide", "transitions": [{"target_state": "x"}]},
    }
    done = talk(machine(states), "m", reply("x"))
    assert done.of(ev.LimitReached) == [ev.LimitReached(limit="auto_steps", value=25)]
    assert len(done.of(ev.StateEntered)) == 26
    assert (done.session.ended, done.session.outcome) == (True, "limited")


def test_call_limit_of_the_definition_forbids_the_second_call() -> None:
    made = program(GREETER, limits={"llm_calls": 1})
    done = talk(made, "hi", "garbage")
    assert (done.usage.calls, done.session.state) == (1, "hello")
    assert done.of(ev.LimitReached) == [ev.LimitReached(limit="llm_calls", value=1)]


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        ({"tokens": 10}, {"input_tokens": 9, "output_tokens": 1}),
        ({"seconds": 2}, {"seconds": 2.5}),
        ({"money": 0.01}, {"cost": 0.02}),
    ],
)
def test_other_limits_stop_further_calls(limits: dict[str, Any], spent: dict[str, Any]) -> None:
    done = talk(program(GREETER, limits=limits), "hi", ModelReply(text="garbage", **spent))
    assert [event.limit for event in done.of(ev.LimitReached)] == list(limits)


def test_global_transition_is_offered_everywhere_but_at_its_target() -> None:
    states = {
        "a": {"transitions": [{"target_state": "b"}]},
        "b": {"transitions": [{"target_state": "a"}]},
        "off": {},
    }
    made = machine(
        states,
        global_transitions=[{"target_state": "off", "description": "stop"}, {"target_state": "b"}],
    )
    assert [move.target for move in made.states["a"].moves] == ["b", "off", "b"]
    assert [move.target for move in made.states["b"].moves] == ["a", "off"]
    assert made.states["off"].moves == ()
    assert talk(made, "stop", reply("off", "Bye")).session.ended


def test_a_closed_transition_has_no_line() -> None:
    made = machine(
        {
            "a": {
                "transitions": [
                    {"target_state": "b", "conditions": needs("approved")},
                    {"target_state": "c"},
                ]
            },
            "b": {},
            "c": {},
        },
        context_schema=SCHEMA,
    )
    done = talk(made, "m", reply("a"))
    assert "<transitions>\nc\na: stay: all else.\n</transitions>" in done.prompt
    assert done.requests[0].targets == ("c", "a")


def test_reply_schema_of_a_state_is_the_same_bytes_in_every_turn() -> None:
    made = machine(DECIDE, global_transitions=[{"target_state": "child"}])
    first = talk(made, "m", reply("ask"))
    second = say(made, first.session, "m", reply("ask", town="Bern"))
    third = say(made, second.session, "m", reply("ask"))
    assert first.requests[0].schema is not None
    assert first.requests[0].schema.text == third.requests[0].schema.text  # type: ignore[union-attr]
    enum = json.loads(first.requests[0].schema.text)["properties"]["target_state"]["enum"]
    assert enum == ["ask", "route", "adult", "child"]


# -- whose words


def fixed(left: str | None, right: str | None) -> Any:
    states: dict[str, Any] = {
        "a": {"transitions": [{"target_state": "b"}]},
        "b": {"transitions": [{"target_state": "a"}]},
    }
    for state, text in (("a", left), ("b", right)):
        if text is not None:
            states[state]["reply"] = text
    return machine(states)


@pytest.mark.parametrize(
    ("left", "right", "target", "text"),
    [
        (None, "B {{ x }}", "b", "words\n\nB 1"),
        ("A", "B {{ x }}", "b", "words\n\nB 1"),
        ("A", None, "b", "words"),
        ("A", None, "a", "words\n\nA"),
        (None, "B", "a", "words"),
    ],
)
def test_fixed_reply_follows_the_message_wherever_the_move_stands(
    left: str, right: str, target: str, text: str
) -> None:
    done = talk(fixed(left, right), "m", reply(target, "words", x=1))
    assert (done.text, done.usage.calls) == (text, 1)


def test_unset_keys_and_secrets_render_as_nothing_in_fixed_replies() -> None:
    made = machine(
        {
            "a": {"transitions": [{"target_state": "b"}]},
            "b": {"reply": "[{{ pin }}{{ nothing.at.all }}{{ _current_state }}]"},
        },
        context_schema=SCHEMA,
    )
    assert talk(made, "m", reply("b", "", pin="1234")).text == "[b]"


def test_states_passed_through_say_their_fixed_replies_in_order() -> None:
    states = {
        "a": {"transitions": [{"target_state": "d"}]},
        "d": {"kind": "decide", "reply": "One moment.", "transitions": [{"target_state": "b"}]},
        "b": {"reply": "Here we are."},
    }
    assert (
        talk(machine(states), "m", reply("d", "Sure.")).text
        == "Sure.\n\nOne moment.\n\nHere we are."
    )


# -- starting


def test_all_that_a_greeting_takes_is_on_record() -> None:
    done = start(GREET, reply("hello", "Welcome!"), greet=True)
    sizes = dict(done.of(ev.ModelReplied)[0].prompt)
    assert sum(sizes.values()) - sizes["system"] - sizes["schema"] == estimate(done.prompt)


def test_greeting_is_one_call_that_may_neither_move_nor_write() -> None:
    done = start(GREET, reply("bye", "Welcome!", name="Eve"), greet=True)
    assert (done.text, done.session.state, dict(done.session.context)) == ("Welcome!", "hello", {})
    assert (done.usage.calls, done.session.turn, done.session.ended) == (1, 0, False)
    assert "<user_input>" not in done.prompt
    assert done.session.window == ((None, "Welcome!"),)


def test_greeting_that_cannot_be_read_is_asked_for_again_then_own_words() -> None:
    assert start(GREET, "garbage", '{"message": "Hi"}', greet=True).text == "Hi"
    done = start(GREET, "garbage", "garbage", greet=True)
    assert (done.text, done.usage.calls) == (
        "Greet the user and learn their name. Still needed: name.",
        2,
    )


def test_fixed_greeting_and_no_greeting_need_no_call() -> None:
    made = machine({"a": {"reply": "Hello {{ name }}!", "transitions": [{"target_state": "a"}]}})
    assert start(made, greet=True, context={"name": "Ada"}).text == "Hello Ada!"
    assert start(made, greet=False).text == ""
    assert start(GREET, greet=False).events[-1] == ev.Started(
        conversation_id="c1", definition=GREET.identity, state="hello", time=1000.0
    )


def test_start_goes_on_to_the_first_state_that_waits() -> None:
    made = machine(DECIDE, initial="route")
    done = start(made, reply("adult", "Welcome, adult"), greet=True, context={"age": 40})
    assert (done.session.state, done.text) == ("adult", "Welcome, adult")


def test_initial_context_that_does_not_fit_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ValueError, match="context key 'age'"):
        start(TYPED, context={"age": "old"})
    with pytest.raises(ValueError, match="begin with _"):
        start(TYPED, context={"_turn": 4})


# -- context


def test_keys_of_other_sources_go_aside_and_open_no_door() -> None:
    made = machine(
        {"a": {"transitions": [{"target_state": "b", "conditions": needs("approved")}]}, "b": {}},
        context_schema=SCHEMA,
    )
    done = talk(made, "m", reply("b", approved=True, zzz=1, _turn=9), reply("a", "no"))
    assert done.session.context == {"_extra": {"approved": True, "zzz": 1}}
    assert {(e.key, e.kept_in) for e in done.of(ev.ContextRefused)} == {
        ("approved", "_extra"),
        ("zzz", "_extra"),
        ("_turn", None),
    }
    assert done.session.state == "a"


def test_extra_is_merged_in_both_forms_and_capped() -> None:
    first = talk(GREET, "m", reply("hello", _extra={"a": 1, "_b": 2}))
    second = say(GREET, first.session, "m", reply("hello", _extra=[{"key": "c", "value": "3"}]))
    assert second.session.context == {"_extra": {"a": 1, "c": "3"}}
    third = say(GREET, second.session, "m", reply("hello", _extra={f"k{n}": n for n in range(80)}))
    assert len(third.session.context["_extra"]) == 50
    assert len(third.of(ev.ContextRefused)) == 32


def test_null_means_not_mentioned_and_clear_takes_back() -> None:
    first = talk(GREET, "m", reply("hello", name="Ada", city="Rome"))
    second = say(
        GREET,
        first.session,
        "m",
        reply("hello", name=None, _clear=["city", "unknown", 7], _quotes={"_clear": "m"}),
    )
    assert second.session.context == {"name": "Ada"}
    assert second.session.origins == {"name": (1, "model")}


def test_correction_wins_over_the_earlier_value_in_any_state() -> None:
    first = talk(GREET, "m", reply("hello", phone="0199"))
    second = say(GREET, first.session, "it ends in 0188", reply("hello", phone="0188"))
    assert second.session.context["phone"] == "0188"
    assert second.session.origins["phone"] == (2, "model")


def test_strict_forms_are_read_as_the_keys_schema_means_them() -> None:
    done = talk(
        TYPED,
        "m",
        reply("hello", address={"city": "Rome", "zip": None}, tags=[{"key": "a", "value": "1"}]),
    )
    assert done.session.context == {"address": {"city": "Rome"}, "tags": {"a": "1"}}


@pytest.mark.parametrize(
    "raw",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "9" * 400,
        "[" * 40 + "]" * 40,
        '"' + "x" * 20_000 + '"',
    ],
)
def test_values_that_no_context_can_hold_are_refused_alone(raw: str) -> None:
    text = '{"transition":{"target_state":"hello","context_update":{"bad":RAW,"good":1}},"message":"m"}'.replace(
        "RAW", raw
    )
    done = talk(GREET, "m", text)
    assert (dict(done.session.context), done.usage.calls) == ({"good": 1}, 2)


def test_secrets_stay_out_of_prompts_and_reasons() -> None:
    first = talk(TYPED, "my pin is 1234", reply("hello", pin="SECRET-1", name="Ada"))
    second = say(TYPED, first.session, "m", reply("hello", pin=1.5))
    third = say(TYPED, second.session, "m", reply("hello"))
    text = json.dumps([m.content for r in (*second.requests, *third.requests) for m in r.messages])
    assert "SECRET-1" not in text
    assert "its schema refuses the value" in _told(second)


def test_a_key_with_a_dot_may_be_secret() -> None:
    keys = {"card.number": {"type": "string", "x-secret": True}, "card.kind": {"type": "string"}}
    made = machine(
        {"a": {"transitions": [{"target_state": "a"}]}}, context_schema={"properties": keys}
    )
    first = talk(
        made,
        "visa 4711-0815",
        reply("a", "Noted", **{"card.number": "4711-0815", "card.kind": "visa"}),
    )
    second = say(made, first.session, "m", reply("a"))
    assert first.session.context == {"card.number": "4711-0815", "card.kind": "visa"}
    assert "0815" not in second.prompt
    assert '{"card.kind":"visa","card.number":"•••"}' in second.prompt


def test_secrets_that_people_typed_do_not_come_back_in_the_history() -> None:
    first = talk(TYPED, "my pin is 4711, yes 4711", reply("hello", "Noted 4711", pin="4711"))
    assert first.text == "Noted 4711"
    second = say(TYPED, first.session, "m", reply("hello"))
    assert '[{"user":"my pin is •••, yes •••"},{"system":"Noted •••"}]' in second.prompt


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("it is de02 1203-0000", "it is •••"),
        ("DE02.1203 0000, thanks: DE0212030000", "•••, thanks: •••"),
        ("٠٢ DE٠٢١٢٠٣٠٠٠٠ ٠٢", "٠٢ ••• ٠٢"),
        ("DE02 and then 1203 0000", "DE02 and then 1203 0000"),
    ],
)
def test_a_secret_does_not_come_back_in_the_spelling_of_the_user(said: str, kept: str) -> None:
    made = machine(SAFE["states"], context_schema=SAFE["context_schema"])
    first = talk(made, said, reply("talk", "Noted.", pin="DE02 1203 0000"))
    assert f'[{{"user":"{kept}"}},' in say(made, first.session, "m", reply("talk")).prompt
    short = talk(made, "4 7 1 1 or 4-7-1-1", reply("talk", "Noted.", pin="4711"))
    assert '[{"user":"••• or •••"},' in say(made, short.session, "m", reply("talk")).prompt


def test_a_secret_that_is_known_is_shown_as_known() -> None:
    keys = {
        "pin": {"x-secret": True},
        "code": {"x-secret": True},
        "key": {"x-secret": True, "x-source": "host"},
    }
    states = {
        "ask": {
            "transitions": [
                {
                    "target_state": "next",
                    "conditions": [
                        {"requires_context_keys": ["pin", "key"]},
                        {"description": "The user wants to go on"},
                    ],
                }
            ]
        },
        "next": {"context_scope": {"read": ["pin", "n"]}, "transitions": [{"target_state": "ask"}]},
    }
    made = machine(states, context_schema={"properties": {"n": {}, **keys}})
    first = talk(
        made, "4711, 1", reply("ask", pin="4711", code="0815", n=1), context={"key": "KEY-1"}
    )
    then = say(made, first.session, "go on", reply("next"))
    assert '<current_context>\n{"n":1,"code":"•••","pin":"•••"}\n</current_context>' in then.prompt
    last = say(made, then.session, "m", reply("next", pin="•••"))
    assert '<current_context>\n{"n":1,"pin":"•••"}\n</current_context>' in last.prompt
    assert last.session.context["pin"] == "4711"


def test_context_scope_narrows_what_is_shown() -> None:
    made = machine(
        {"a": {"context_scope": {"read": ["x", "o.p"]}, "transitions": [{"target_state": "a"}]}}
    )
    done = talk(made, "m", reply("a"), context={"x": 1, "y": 2, "o": {"p": 3, "q": 4}})
    assert '<current_context>\n{"x":1,"o.p":3}\n</current_context>' in done.prompt


# -- handlers


def test_points_run_in_the_order_of_a_turn() -> None:
    begun = start(GREET, reply("hello", "Hi"), greet=True, handler=lambda _: None)
    assert [effect.point for effect in begun.handled] == [
        Point.START_CONVERSATION,
        Point.POST_PROCESSING,
    ]
    done = say(GREET, begun.session, "Ada", reply("bye", "Bye", name="Ada"), handler=lambda _: None)
    assert [effect.point for effect in done.handled] == [
        Point.PRE_PROCESSING,
        Point.CONTEXT_UPDATE,
        Point.PRE_TRANSITION,
        Point.POST_TRANSITION,
        Point.POST_PROCESSING,
    ]


def test_a_stay_fires_no_transition_handlers() -> None:
    done = talk(GREET, "m", reply("hello"), handler=lambda _: None)
    assert [effect.point for effect in done.handled] == [
        Point.PRE_PROCESSING,
        Point.POST_PROCESSING,
    ]


def test_veto_is_a_refusal_with_its_reason() -> None:
    def forbid(effect: RunHandlers) -> HandlerResult | None:
        return (
            HandlerResult(handler="h", veto="closed on Sundays")
            if effect.point is Point.PRE_TRANSITION
            else None
        )

    done = talk(
        GREET, "Ada", reply("bye", "Bye", name="Ada"), reply("hello", "Not today"), handler=forbid
    )
    assert (done.session.state, done.text, done.session.context) == (
        "hello",
        "Not today",
        {"name": "Ada"},
    )
    assert done.of(ev.MoveRefused) == [
        ev.MoveRefused(target="bye", reason="closed on Sundays", by="veto")
    ]
    assert "closed on Sundays" in _told(done)
    assert STAY in _told(done)


def test_handlers_change_context_and_text_and_cannot_touch_system_names() -> None:
    def work(effect: RunHandlers) -> HandlerResult | None:
        if effect.point is Point.PRE_PROCESSING:
            return HandlerResult(handler="h", changes={"seen": 1, "_turn": 99, "gone": None})
        if effect.point is Point.POST_PROCESSING:
            return HandlerResult(handler="h", text=f"{effect.text}!")
        return None

    done = talk(GREET, "m", reply("hello", "hey"), handler=work, context={"gone": 1})
    assert (done.text, done.session.context, done.session.turn) == ("hey!", {"seen": 1}, 1)


@pytest.mark.parametrize(("given", "said"), [(None, "hey"), ("", ""), ("bye", "bye")])
def test_a_handler_may_say_nothing(given: str | None, said: str) -> None:
    def work(effect: RunHandlers) -> HandlerResult | None:
        return (
            HandlerResult(handler="h", text=given)
            if effect.point is Point.POST_PROCESSING
            else None
        )

    done = talk(GREET, "m", reply("hello", "hey"), handler=work)
    assert [event.text for event in done.of(ev.BotSaid)] == [said]
    assert done.session.window[-1] == ("m", said)


# -- sessions


def test_apply_over_the_events_of_turns_gives_the_session() -> None:
    begun = start(TYPED, reply("hello", "Hi"), greet=True)
    first = say(TYPED, begun.session, "a", reply("hello", name="Ada", age=-1))
    second = say(TYPED, first.session, "b", "x", reply("bye", "Bye"))
    events = [*begun.events, *first.events, *second.events]
    assert fold(Session(conversation_id="c1"), events) == second.session
    assert (
        fold(
            Session(conversation_id="c1"),
            [read(json.loads(text_of(e)), ev.AnyEvent, "event") for e in events],
        )
        == second.session
    )


def test_window_is_trimmed_in_blocks() -> None:
    session = start(GREET).session
    sizes = []
    for number in range(25):
        session = say(GREET, session, f"m{number}", reply("hello", f"r{number}")).session
        sizes.append(len(session.window))
    assert sizes[:11] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 5]
    assert min(sizes[5:]) == 5
    assert max(sizes) == 10


def test_a_new_summary_cuts_the_history_that_it_stands_before() -> None:
    onward = {"transitions": [{"target_state": "b"}]}
    made = machine({"a": {"summarize": True, **onward}, "b": onward})
    session = talk(made, "m", reply("a")).session
    for _ in range(6):
        session = say(made, session, "m", reply("a")).session
    left = say(made, session, "m", reply("b"), '{"summary": "They talked", "todo_list": []}')
    assert [event.dropped for event in left.of(ev.HistoryTrimmed)] == [3]
    stayed = say(made, session, "m", reply("b"), "no summary", "none")
    assert not stayed.of(ev.HistoryTrimmed)


def test_the_summary_of_a_state_that_is_left_takes_along_what_the_history_is_soon_to_lose() -> None:
    onward = {"transitions": [{"target_state": "b"}]}
    made = machine(
        {"a": {"summarize": True, **onward}, "b": onward}, history={"strategy": "summary"}
    )
    session = talk(made, "m0", reply("a")).session
    for number in range(1, 9):
        session = say(made, session, f"m{number}", reply("a")).session
    left = say(made, session, "m9", reply("b"), '{"summary": "They talked", "todo_list": []}')
    assert [event.dropped for event in left.of(ev.HistoryTrimmed)] == [4]
    told = json.loads(
        left.requests[1]
        .messages[1]
        .content.split("<what_happened>\n")[1]
        .split("\n</what_happened>")[0]
    )
    assert [user for user, _ in told["conversation"]] == ["m0", "m1", "m2", "m3", "m6", "m7", "m8"]
    assert [user for user, _ in left.session.window] == ["m4", "m5", "m6", "m7", "m8", "m9"]
    failed = say(made, session, "m9", reply("b"), "no summary", "none")
    assert not failed.of(ev.HistoryTrimmed)


SAFE: dict[str, Any] = {
    "context_schema": {"properties": {"pin": {"type": "string", "x-secret": True}}},
    "states": {
        "ask": {
            "purpose": "Ask",
            "transitions": [{"target_state": "said"}, {"target_state": "talk"}],
        },
        "said": {"reply": "You said {{ _user_input }}", "transitions": [{"target_state": "ask"}]},
        "talk": {"purpose": "Talk", "transitions": [{"target_state": "ask"}]},
        "far": {"purpose": "Far", "transitions": [{"target_state": "ask"}]},
    },
}


def test_a_fixed_reply_does_not_print_the_secret_that_it_answers() -> None:
    made = machine(SAFE["states"], context_schema=SAFE["context_schema"])
    done = talk(made, "my pin is PIN<77>", reply("said", "", pin="PIN<77>"))
    assert done.text.endswith("You said my pin is •••")
    assert talk(made, "just so", reply("said", "")).text.endswith("You said just so")


@pytest.mark.parametrize(("less", "more"), [("<", ">"), ("\\u003c", "\\u003e")])
def test_the_second_question_does_not_carry_a_secret_that_was_understood(
    less: str, more: str
) -> None:
    made = machine(SAFE["states"], context_schema=SAFE["context_schema"])
    refused = (
        reply("far", "Your pin is PIN<77>", pin="PIN<77>").replace("<", less).replace(">", more)
    )
    done = talk(made, "my pin is PIN<77>", refused, reply("ask", "fine", pin="•••"))
    first, second = (
        "".join(message.content for message in asked.messages) for asked in done.requests
    )
    assert "PIN" in first
    assert "PIN" not in second
    assert done.session.context == {"pin": "PIN<77>"}


def test_the_call_for_words_does_not_carry_a_secret_that_was_understood() -> None:
    states = {
        "ask": {"purpose": "Ask", "transitions": [{"target_state": "sort"}]},
        "sort": {"kind": "task", "purpose": "Sort", "transitions": [{"target_state": "talk"}]},
        "talk": {"purpose": "Talk", "transitions": [{"target_state": "ask"}]},
    }
    made = machine(states, context_schema=SAFE["context_schema"])
    done = talk(
        made, "PIN77", reply("sort", "", pin="PIN77"), "sorted", json.dumps({"message": "And now?"})
    )
    assert "PIN77" in done.requests[0].messages[1].content
    assert not any(
        "PIN77" in message.content for asked in done.requests[1:] for message in asked.messages
    )


def test_secrets_never_go_aside_and_lists_of_them_are_blotted() -> None:
    schema = {
        "properties": {
            "codes": {"type": "array", "x-secret": True},
            "pin": {"x-secret": True, "x-source": "host"},
        }
    }
    made = program(GREETER, context_schema=schema)
    done = talk(
        made,
        "my code is LSEK99",
        reply("hello", "ok", codes=["LSEK99"], pin="HPIN77", _extra={"pin": "EPIN66"}),
    )
    assert done.session.context == {"codes": ["LSEK99"]}
    prompt = say(made, done.session, "m", reply("hello")).prompt
    assert not any(secret in prompt for secret in ("LSEK99", "HPIN77", "EPIN66"))


def test_null_renders_as_nothing_in_fixed_replies() -> None:
    made = machine(
        {"a": {"reply": "[{{ o.x }}{{ _previous_state }}]", "transitions": [{"target_state": "a"}]}}
    )
    assert start(made, context={"o": {"x": None, "y": 1}}, greet=True).text == "[]"


@pytest.mark.parametrize("finish_reason", ["length", "content_filter", "stop", "end_turn", ""])
def test_a_reply_that_was_cut_off_is_on_record_with_its_reason_and_the_model_is_told_of_its_limit(
    finish_reason: str,
) -> None:
    half = ModelReply(text='{"transition": {"target_state": "as', finish_reason=finish_reason)
    done = talk(GREET, "Hi", half, reply("greeting"))
    first, second = done.of(ev.ModelReplied)
    assert first.finish_reason == (
        finish_reason if finish_reason in {"length", "content_filter"} else ""
    )
    assert second.finish_reason == ""
    at_limit = "cut off at its limit of tokens"
    assert (at_limit in done.of(ev.ReplyRejected)[0].reason) is (finish_reason == "length")
    assert (at_limit in done.requests[1].messages[-1].content) is (finish_reason == "length")


@pytest.mark.parametrize("nothing", ["", " \n"])
def test_an_empty_reply_is_quoted_as_something(nothing: str) -> None:
    done = talk(GREET, "Hi", ModelReply(text=nothing), reply("greeting"))
    assert [message.role for message in done.requests[1].messages[2:]] == ["assistant", "user"]
    assert done.requests[1].messages[2].content == "{}"
    assert [event.fault for event in done.of(ev.ReplyRejected)] == ["empty"]


def test_a_way_out_is_named_only_where_a_move_was_refused() -> None:
    broken = talk(GREET, "Hi", "no json", reply("greeting")).requests[1].messages[-1].content
    refused = (
        talk(GREET, "Hi", reply("nowhere"), reply("greeting")).requests[1].messages[-1].content
    )
    assert (" Name " in broken, " Name " in refused) == (False, True)
    assert broken.startswith(
        'Your reply cannot be used: "the reply holds no JSON object". Answer <user_input> again'
    )
