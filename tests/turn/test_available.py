"""What is open in a state is computed once where it is always the same, and again where it depends
on what is known.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from llm_fsm.session.reply_schema import narrowed
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn.available import available_moves
from llm_fsm.turn.compiled import CompiledMachine
from machines import GREETER, machine, program, reply, talk

_CONTEXTS: tuple[dict[str, Any], ...] = (
    {},
    {
        "name": "Ada",
        "email": "a@b.c",
        "party_size": 4,
        "total": 10,
        "amount": 500,
        "confirmed": True,
    },
    {"name": "Bo", "party_size": 40, "total": 5000, "amount": 5, "confirmed": False},
)
ADULTS = machine(
    {
        "ask": {
            "purpose": "Ask for the age",
            "transitions": [
                {
                    "target_state": "in",
                    "conditions": [{"description": "adult", "logic": {">": [{"var": "_turn"}, 3]}}],
                },
                {"target_state": "out", "description": "too young"},
            ],
        },
        "in": {"purpose": "Welcome"},
        "out": {"purpose": "Say goodbye"},
    }
)


FORM = machine(
    {
        "form": {
            "purpose": "Who are you?",
            "required_context_keys": ["name"],
            "transitions": [
                {
                    "target_state": "day",
                    "auto": True,
                    "conditions": [{"requires_context_keys": ["name"]}],
                },
                {"target_state": "bye", "description": "the user leaves"},
            ],
        },
        "day": {"purpose": "On which day?"},
        "bye": {"purpose": "Say goodbye"},
    }
)


def test_a_move_that_values_decide_is_neither_shown_nor_offered() -> None:
    done = talk(FORM, "Ada", reply("form", "On which day, Ada?", name="Ada"))
    prompt = done.requests[0].messages[1].content
    assert "day" not in prompt.partition("<transitions>")[2].partition("</transitions>")[0]
    assert done.requests[0].targets == ("bye", "form")
    assert "day" not in done.requests[0].schema.schema["properties"]["target_state"]["enum"]


@pytest.mark.parametrize("named", ["form", "day"])
def test_words_beside_values_that_decide_speak_for_the_state_that_follows(named: str) -> None:
    done = talk(FORM, "Ada", reply(named, "On which day, Ada?", name="Ada"))
    assert (done.session.state, done.text, done.usage.calls) == ("day", "On which day, Ada?", 1)


def test_no_state_is_asked_for_where_only_values_decide() -> None:
    form = {
        "purpose": "Who are you?",
        "required_context_keys": ["name"],
        "transitions": [
            {
                "target_state": "day",
                "auto": True,
                "conditions": [{"requires_context_keys": ["name"]}],
            }
        ],
    }
    done = talk(
        machine({"form": form, "day": {"purpose": "On which day?"}}),
        "Ada",
        '{"context_update": {"name": "Ada"}, "message": "On which day, Ada?"}',
    )
    asked = done.requests[0]
    fitting = narrowed(asked.schema, asked.targets, asked.clearable, asked.asked)
    assert "target_state" not in fitting.schema["properties"]
    assert "<transitions>\nform: stay: all else.\n</transitions>" in asked.messages[1].content
    assert (done.session.state, done.text, done.usage.calls) == ("day", "On which day, Ada?", 1)


def test_a_digression_arrives_where_it_comes_back_to_unless_it_leads_on() -> None:
    aside = [{"target_state": name, "return": True} for name in ("hours", "help")]
    ways = {"hours": {"purpose": "From nine."}, "help": {"transitions": [{"target_state": "bye"}]}}
    made = program(
        {**GREETER, "states": {**GREETER["states"], **ways}, "global_transitions": aside}
    )
    session = Session(conversation_id="c", state="hello")
    look = available_moves(made, session)
    assert (look.arrivals["hours"], look.arrivals["help"]) == ({"hello"}, {"help"})


def _sorted_by(logic: Any) -> CompiledMachine:
    """A question, behind which a rule decides, beside a digression."""
    branches = [
        {"target_state": "in", "conditions": [{"logic": logic}]},
        {"target_state": "out", "priority": 200},
    ]
    states = {
        "ask": {"purpose": "Ask for the age", "transitions": [{"target_state": "sort"}]},
        "sort": {"kind": "decide", "transitions": branches},
        "in": {"purpose": "Welcome"},
        "out": {"purpose": "Say goodbye"},
        "faq": {"purpose": "Answer"},
    }
    keys = {"age": {"type": "integer"}, "vip": {"type": "boolean", "x-source": "host"}}
    aside = [{"target_state": "faq", "description": "a question", "return": True}]
    return machine(states, context_schema={"properties": keys}, global_transitions=aside)


def test_a_menu_is_made_anew_where_a_condition_depends_on_what_no_reply_can_write() -> None:
    made = ADULTS
    early = available_moves(made, Session(conversation_id="c", state="ask", turn=1))
    late = available_moves(made, Session(conversation_id="c", state="ask", turn=5))
    assert (early.valid, late.valid) == (("out", "ask"), ("in", "out", "ask"))


def test_a_state_that_was_left_open_is_on_the_menu_only_while_it_is() -> None:
    made = program(GREETER)
    plain = Session(conversation_id="c", state="bye")
    frame = Frame(
        kind="digression", saved={"state": "hello", "previous_state": None, "turns_in_state": 0}
    )
    assert "hello" not in available_moves(made, plain).valid
    assert "hello" in available_moves(made, structs.replace(plain, stack=(frame,))).valid
    assert "hello" not in available_moves(made, plain).valid


@pytest.mark.parametrize(
    ("vip", "shown"), [(True, ["lounge"]), (False, ["desk", "hall"]), (None, ["desk", "hall"])]
)
def test_nothing_is_foreseen_behind_a_branch_that_is_taken_whatever_is_replied(
    vip: bool | None, shown: list[str]
) -> None:
    branches = [
        {"target_state": "lounge", "conditions": [{"logic": {"==": [{"var": "vip"}, True]}}]},
        {
            "target_state": "desk",
            "priority": 200,
            "conditions": [{"requires_context_keys": ["name"]}],
        },
        {"target_state": "hall", "priority": 300},
        {"target_state": "yard", "priority": 400},
    ]
    ends = {state: {"purpose": state} for state in ("lounge", "desk", "hall", "yard")}
    ask = {"purpose": "Who?", "transitions": [{"target_state": "sort"}]}
    schema = {
        "properties": {"name": {"type": "string"}, "vip": {"type": "boolean", "x-source": "host"}}
    }
    made = machine(
        {"ask": ask, "sort": {"kind": "decide", "transitions": branches}, **ends},
        context_schema=schema,
    )
    context = {"name": "Ada"} if vip is None else {"name": "Ada", "vip": vip}
    look = available_moves(made, Session(conversation_id="c", state="ask", context=context))
    assert look.arrivals["sort"] == frozenset(shown)


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ({">=": [{"var": "_turns_in_state"}, 3]}, None),
        ({"<": [{"var": "_turns_in_state"}, 1]}, ["rest"]),
        ({"==": [{"var": "_previous_state"}, "ask"]}, ["rest"]),
        ({"==": [{"var": "_previous_state"}, "rest"]}, None),
        ({"==": [{"var": "_current_state"}, "ask"]}, None),
    ],
)
def test_what_is_known_of_an_arrival_decides_what_is_foreseen_behind_it(
    rule: object, shown: list[str] | None
) -> None:
    weary = {"target_state": "rest", "auto": True, "conditions": [{"logic": rule}]}
    riddle = {"purpose": "What is it?", "transitions": [weary, {"target_state": "rest"}]}
    states = {
        "ask": {"purpose": "Ready?", "transitions": [{"target_state": "riddle"}]},
        "riddle": riddle,
        "rest": {},
    }
    look = available_moves(
        machine(states), Session(conversation_id="c", state="ask", turns_in_state=5)
    )
    # a way that is certain is gone, so nobody asks there
    assert look.arrivals["riddle"] == set(shown or ["riddle"])


def test_where_a_way_may_arrive_depends_on_how_it_got_there() -> None:
    from_left = {"logic": {"==": [{"var": "_previous_state"}, "left"]}}
    fork = [
        {"target_state": "right", "conditions": [{"requires_context_keys": ["name"]}]},
        {"target_state": "left"},
    ]
    meet = [{"target_state": "far", "conditions": [from_left]}, {"target_state": "near"}]
    states = {
        "ask": {"purpose": "Who?", "transitions": [{"target_state": "fork"}]},
        "fork": {"kind": "decide", "transitions": fork},
        **{
            side: {"kind": "decide", "transitions": [{"target_state": "meet"}]}
            for side in ("left", "right")
        },
        "meet": {"kind": "decide", "transitions": meet},
        **{end: {"purpose": end} for end in ("far", "near")},
    }
    look = available_moves(machine(states), Session(conversation_id="c", state="ask"))
    assert look.arrivals["fork"] == {"far", "near"}
