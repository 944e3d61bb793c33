"""What is open in a state is computed once where it is always the same, and again where it depends on what is known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from llm_fsm.documents.discovery import definition_paths
from llm_fsm.documents.loader import load
from llm_fsm.documents.subflows import gather
from llm_fsm.engine.bundled import pattern_piece
from llm_fsm.session.session import Frame, Session
from llm_fsm.turn.available import outlook
from llm_fsm.turn.compile import compile_flows
from llm_fsm.turn.compiled import Program
from machines import GREETER, PROMPTS, machine, program

_CONTEXTS: tuple[dict[str, Any], ...] = (
    {},
    {"name": "Ada", "email": "a@b.c", "party_size": 4, "total": 10, "amount": 500, "confirmed": True},
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


@pytest.mark.parametrize("name", definition_paths())
def test_a_menu_that_was_kept_is_the_one_that_would_be_made(name: str) -> None:
    path = definition_paths()[name]
    used = compile_flows(gather(load(path), file=path), PROMPTS, pattern_piece)
    for _ in range(2):
        for state, plan in used.states.items():
            if plan.kind != "converse":
                continue
            for context in _CONTEXTS:
                session = Session(conversation_id="c", state=state, context=context)
                assert outlook(used, session) == outlook(replace(used, outlooks={}), session)


def test_a_menu_is_kept_where_only_the_model_decides() -> None:
    made = program(GREETER)
    session = Session(conversation_id="c", state="hello")
    assert outlook(made, session) is outlook(made, replace(session, context={"name": "Ada"}))


def test_a_menu_with_digressions_is_kept_where_only_the_model_decides() -> None:
    aside = [{"target_state": name, "return": True} for name in ("hours", "help")]
    ways = {"hours": {"purpose": "From nine."}, "help": {"transitions": [{"target_state": "bye"}]}}
    made = program({**GREETER, "states": {**GREETER["states"], **ways}, "global_transitions": aside})
    session = Session(conversation_id="c", state="hello")
    look = outlook(made, session)
    assert look is outlook(made, replace(session, context={"name": "Ada"}))
    assert (look.arrivals["hours"], look.arrivals["help"]) == ({"hello"}, {"help"})


def _sorted_by(logic: Any) -> Program:
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


_KNOWN = ({}, {"age": 5}, {"age": 50}, {"age": 50, "vip": True}, {"vip": False})


@pytest.mark.parametrize(
    ("logic", "once"),
    [
        ({">": [{"var": "age"}, 17]}, True),
        ({"and": [{"has_context": "age"}, {">": [{"var": "_turns_in_state"}, 1]}]}, False),
        ({"==": [{"var": "vip"}, True]}, False),
        ({"or": [{">": [{"var": "age"}, 17]}, {"var": "vip"}]}, False),
        ({">": [{"var": "_turn"}, 3]}, False),
        ({"and": [{"has_context": "age"}, {">": [{"now": []}, 3]}]}, False),
    ],
)
def test_what_lies_behind_a_branch_is_foreseen_once_where_it_hangs_on_what_a_reply_can_write(
    logic: Any, once: bool
) -> None:
    made = _sorted_by(logic)
    for turn in range(2, 6):
        for context in _KNOWN:
            session = Session(conversation_id="c", state="ask", context=context, turn=turn, time=float(turn))
            assert outlook(made, session) == outlook(replace(made, outlooks={}), session)
    assert (outlook(made, session) is outlook(made, session)) is once


def test_a_menu_is_made_anew_where_a_condition_depends_on_what_no_reply_can_write() -> None:
    made = ADULTS
    early = outlook(made, Session(conversation_id="c", state="ask", turn=1))
    late = outlook(made, Session(conversation_id="c", state="ask", turn=5))
    assert (early.valid, late.valid) == (("out", "ask"), ("in", "out", "ask"))


def test_a_state_that_was_left_open_is_on_the_menu_only_while_it_is() -> None:
    made = program(GREETER)
    plain = Session(conversation_id="c", state="bye")
    frame = Frame(kind="digression", kept={"state": "hello", "previous_state": None, "turns_in_state": 0})
    assert "hello" not in outlook(made, plain).valid
    assert "hello" in outlook(made, replace(plain, stack=(frame,))).valid
    assert "hello" not in outlook(made, plain).valid


@pytest.mark.parametrize(
    ("vip", "shown"), [(True, ["lounge"]), (False, ["desk", "hall"]), (None, ["desk", "hall"])]
)
def test_nothing_is_foreseen_behind_a_branch_that_is_taken_whatever_is_replied(
    vip: bool | None, shown: list[str]
) -> None:
    branches = [
        {"target_state": "lounge", "conditions": [{"logic": {"==": [{"var": "vip"}, True]}}]},
        {"target_state": "desk", "priority": 200, "conditions": [{"requires_context_keys": ["name"]}]},
        {"target_state": "hall", "priority": 300},
        {"target_state": "yard", "priority": 400},
    ]
    ends = {state: {"purpose": state} for state in ("lounge", "desk", "hall", "yard")}
    ask = {"purpose": "Who?", "transitions": [{"target_state": "sort"}]}
    schema = {"properties": {"name": {"type": "string"}, "vip": {"type": "boolean", "x-source": "host"}}}
    made = machine({"ask": ask, "sort": {"kind": "decide", "transitions": branches}, **ends}, context_schema=schema)
    context = {"name": "Ada"} if vip is None else {"name": "Ada", "vip": vip}
    look = outlook(made, Session(conversation_id="c", state="ask", context=context))
    assert look.arrivals["sort"] == frozenset(shown)
    (item,) = (json.loads(item) for item in look.items)
    assert [branch["to"] for branch in item["there"]["leads_on_to"]] == shown


def test_what_decides_behind_a_move_is_shown_where_no_description_says_it() -> None:
    """Else nothing tells a model for which of the states it speaks. What is said in words alone decides nothing."""
    many = {"description": "More than ten", "logic": {">": [{"var": "count"}, 10]}}
    some = {"requires_context_keys": ["count"]}
    branches = [
        {"target_state": "hall", "description": "The guest has a reservation", "conditions": [some]},
        {"target_state": "desk", "conditions": [many, {"description": "The guest is in a hurry"}]},
        {"target_state": "yard", "conditions": [some]},
        {"target_state": "lounge", "conditions": [{"logic": {"==": [{"var": "vip"}, False]}}]},
    ]
    ends = {state: {"purpose": state} for state in ("hall", "desk", "yard", "lounge")}
    ask = {"purpose": "How many?", "transitions": [{"target_state": "sort"}]}
    schema = {"properties": {"count": {"type": "integer"}, "vip": {"type": "boolean", "x-source": "host"}}}
    made = machine({"ask": ask, "sort": {"kind": "decide", "transitions": branches}, **ends}, context_schema=schema)
    look = outlook(made, Session(conversation_id="c", state="ask", context={"vip": False}))
    (item,) = (json.loads(item) for item in look.items)
    assert item["there"]["leads_on_to"] == [
        {"to": "hall", "if": "The guest has a reservation"},
        {"to": "desk", "conditions": [{"desc": "More than ten"}]},
        {"to": "yard", "conditions": [{"keys": ["count"]}]},
        {"to": "lounge"},
    ]


def test_what_branches_far_away_have_in_common_is_said_once() -> None:
    style = "Ask politely, one thing at a time."
    branches = [
        {"target_state": state, "description": when, "conditions": [{"logic": {"==": [{"var": "topic"}, when]}}]}
        for state, when in (("bill", "bills"), ("card", "cards"), ("loan", "loans"), ("bill", "invoices"))
    ]
    between = {
        f"s{number}": {"purpose": "word " * 80, "transitions": [{"target_state": "bill"}]} for number in range(30)
    }
    states = {
        "ask": {"purpose": "What is it about?", "transitions": [{"target_state": "sort"}]},
        "sort": {"kind": "decide", "transitions": branches},
        **between,
        "bill": {"purpose": "Which bill?", "instructions": style, "transitions": [{"target_state": "end"}]},
        "card": {"purpose": "Which card?", "instructions": style, "transitions": [{"target_state": "end"}]},
        "loan": {"purpose": "How much?", "instructions": "In euros.", "transitions": [{"target_state": "end"}]},
        "end": {"purpose": "Goodbye"},
    }
    look = outlook(machine(states), Session(conversation_id="c", state="ask", context={}))
    (item,) = (json.loads(item) for item in look.items)
    assert item["there"] == {
        "instructions": style,
        "leads_on_to": [
            {"to": "bill", "if": "bills", "purpose": "Which bill?"},
            {"to": "card", "if": "cards", "purpose": "Which card?"},
            {"to": "loan", "if": "loans", "purpose": "How much?", "instructions": "In euros."},
            {"to": "bill", "if": "invoices"},
        ],
    }
    plain = {**states, "loan": {"purpose": "How much?", "transitions": [{"target_state": "end"}]}}
    look = outlook(machine(plain), Session(conversation_id="c", state="ask", context={}))
    (item,) = (json.loads(item) for item in look.items)
    assert "instructions" not in item["there"]  # a loan has none
    assert [branch.get("instructions") for branch in item["there"]["leads_on_to"]] == [style, style, None, None]


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
def test_what_is_known_of_an_arrival_decides_what_is_foreseen_behind_it(rule: object, shown: list[str] | None) -> None:
    weary = {"target_state": "rest", "auto": True, "conditions": [{"logic": rule}]}
    riddle = {"purpose": "What is it?", "transitions": [weary, {"target_state": "rest"}]}
    states = {"ask": {"purpose": "Ready?", "transitions": [{"target_state": "riddle"}]}, "riddle": riddle, "rest": {}}
    look = outlook(machine(states), Session(conversation_id="c", state="ask", turns_in_state=5))
    (item,) = (json.loads(item) for item in look.items)
    leads_on = item.get("there", {}).get("leads_on_to")
    assert (leads_on and [branch["to"] for branch in leads_on]) == shown
    assert look.arrivals["riddle"] == {"riddle", *(shown or ())}


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
        **{side: {"kind": "decide", "transitions": [{"target_state": "meet"}]} for side in ("left", "right")},
        "meet": {"kind": "decide", "transitions": meet},
        **{end: {"purpose": end} for end in ("far", "near")},
    }
    look = outlook(machine(states), Session(conversation_id="c", state="ask"))
    assert look.arrivals["fork"] == {"far", "near"}
