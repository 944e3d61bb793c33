"""Turns without a model: only where the value and the move are certain."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import events as ev
from llm_fsm.context import compile_keys
from llm_fsm.definition import Definition
from llm_fsm.effects import HandlerResult, Point, RunHandlers
from llm_fsm.recognition import Heard, recognisers
from machines import machine, reply, say, talk

FAST = {"x-fast": True}


def value(schema: dict[str, Any], text: str, *, first: bool = True, asked: str = "") -> Any:
    definition = Definition.model_validate(
        {
            "name": "d",
            "initial_state": "a",
            "states": {"a": {}},
            "context_schema": {"properties": {"k": {**schema, **FAST}}},
        }
    )
    found = recognisers(compile_keys(definition, ()), definition.key_schemas)
    return found["k"](Heard(text, first, asked)) if "k" in found else "for the model"


SIZES = {"enum": ["Small", "Very large"]}
MENU = "Which size? 1. small 2) Very large"
ZIP = {"type": "string", "pattern": "^[0-9]{5}$"}
ANY = "for the model"


@pytest.mark.parametrize(
    ("schema", "text", "found"),
    [
        (SIZES, "small", "Small"),
        (SIZES, "  VERY   large. ".strip(), "Very large"),
        ({"enum": ["too_small", "too_big"]}, "Too big", "too_big"),
        ({"enum": ["too_small", "too_big"]}, "too_big", "too_big"),
        ({"enum": ["too_small", "too_big"]}, "big", None),
        ({"enum": ["too_big", "too big"]}, "too big", ANY),
        (SIZES, "small please", None),
        (SIZES, "smal", None),
        (SIZES, "1", None),
        ({"enum": ["a", "A"]}, "a", ANY),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "nein", False),
        ({"type": "boolean"}, "نعم", True),
        ({"type": "boolean"}, "לא", False),
        ({"type": "boolean"}, "yes but", None),
        ({"type": "integer", "minimum": 1}, "7", 7),
        ({"type": "integer", "minimum": 1}, "0", None),
        ({"type": "integer"}, "-3", -3),
        ({"type": "integer"}, "3.0", None),
        ({"type": "integer"}, "007", None),
        ({"type": "integer"}, "seven", None),
        ({"type": "integer"}, "٣", None),
        ({"type": "integer"}, "+1", None),
        ({"type": "integer"}, "not 3", None),
        ({"type": "integer"}, "3?", None),
        ({"type": "integer"}, "３", None),
        (SIZES, "not small", None),
        (SIZES, "small or very large", None),
        (SIZES, '"small"', None),
        (SIZES, "ｓｍａｌｌ", None),
        (SIZES, "no wait, small", None),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "1.500", None),
        ({"type": "number"}, "1,5", None),
        (ZIP, "24103", "24103"),
        (ZIP, "24103 Kiel", None),
        (ZIP, "", None),
        ({"type": "string", "format": "email"}, "ada@example.org", "ada@example.org"),
        ({"type": "string", "format": "email"}, "it is ada@example.org", None),
        ({"type": "string", "format": "date"}, "2030-02-30", None),
        (SIZES, "small...", None),
        (SIZES, "small!?", None),
        ({"type": "boolean"}, "no...", None),
        ({"type": "boolean"}, "no, thanks", None),
        ({"enum": ["yes", "no", "maybe"]}, "No.", "no"),
        ({"type": "string", "pattern": "^[A-Z][a-z]+$"}, "Stop", ANY),
        ({"type": "string", "pattern": "^[A-Z]{2}$"}, "OK", ANY),
        ({"type": "string"}, "Ada", ANY),
        ({"type": "string", "pattern": "^[A-Z][a-z ]+"}, "Ada", ANY),
        ({"type": "string", "minLength": 2}, "Ada", ANY),
        ({"type": ["string", "null"]}, "Ada", ANY),
        ({"type": "array"}, "[]", ANY),
    ],
)
def test_a_message_is_a_value_only_as_a_whole(schema: dict[str, Any], text: str, found: Any) -> None:
    assert value(schema, text) == found


@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        ("1", MENU, "Small"),
        ("2.", MENU, "Very large"),
        ("3", MENU, None),
        ("0", MENU, None),
        ("1", "1. small?", None),
        ("1...", MENU, None),
    ],
)
def test_a_number_means_the_choice_that_was_shown_with_it(text: str, asked: str, found: Any) -> None:
    assert value(SIZES, text, asked=asked) == found


def test_a_number_means_the_choice_that_was_shown_in_words_for_a_person() -> None:
    sizes = {"enum": ["too_small", "too_big"]}
    assert value(sizes, "2", asked="Which one?\n1. too small\n2. Too  big") == "too_big"
    assert value(sizes, "2", asked="1. too_small, 2. too_big?") == "too_big"
    assert value(sizes, "2", asked="1. small, 2. too big?") is None


def test_a_number_that_is_both_a_choice_and_the_place_of_another_is_for_the_model() -> None:
    assert value({"enum": [2, 1, 3]}, "2", asked="1. 2, 2. 1, 3. 3") is None
    assert value({"enum": [2, 1, 3]}, "3", asked="1. 2, 2. 1, 3. 3") == 3
    assert value({"type": "integer"}, "2", asked="1. by day 2. by night. How many?") is None
    assert value({"type": "integer"}, "2", asked="From 1 to 10: how many?") == 2


def test_a_number_of_two_lists_is_for_the_model() -> None:
    assert value(SIZES, "1", asked=f"{MENU} Which crust? 1. thin 2. thick") is None
    assert value(SIZES, "small", asked=f"{MENU} Which crust? 1. thin 2. thick") == "Small"


@pytest.mark.parametrize(
    ("schema", "text"),
    [({"type": "boolean"}, "yes"), ({"type": "integer"}, "3"), ({"enum": ["yes", "no"]}, "yes")],
)
def test_an_answer_to_one_of_two_questions_is_for_the_model(schema: dict[str, Any], text: str) -> None:
    assert value(schema, text, asked="How many nights? And how many guests?") is None
    assert value(schema, text, asked="You are welcome. How many guests?") is not None


@pytest.mark.parametrize(
    ("schema", "text", "found"),
    [
        ({"type": "boolean"}, "yes", None),
        ({"enum": ["yes", "no", "maybe"]}, "no", None),
        ({"enum": ["yes", "no", "maybe"]}, "maybe", "maybe"),
        ({"type": "integer"}, "3", None),
        ({"type": "string", "pattern": "^[0-9]{1,2}$"}, "3", None),
        (ZIP, "24103", "24103"),
    ],
)
def test_a_short_answer_is_certain_only_to_the_states_first_question(
    schema: dict[str, Any], text: str, found: Any
) -> None:
    assert value(schema, text, first=False) == found


def shop(*, reply: str | None = "Thank you!", fast: bool = True, **more: Any) -> Any:
    """Asks for a size; `reply`: the fixed words of where it leads."""
    sizes = {"enum": ["small", "large"], "x-fast": fast}
    large = [{"logic": {"==": [{"var": "size"}, "large"]}}]
    states = {
        "ask": {
            "purpose": "Ask for the size",
            "required_context_keys": ["size"],
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["size"]}]},
                {"target_state": "help", "description": "The user wants to know more"},
            ],
            **more.pop("ask", {}),
        },
        "done": {"purpose": "Say thank you", **({} if reply is None else {"reply": reply})},
        "help": {
            "purpose": "Help",
            "reply": "Sizes are small and large.",
            "transitions": [{"target_state": "ask"}],
        },
        "sort": {
            "kind": "decide",
            "transitions": [
                {"target_state": "done", "conditions": large},
                {"target_state": "help", "priority": 200},
            ],
        },
    }
    return machine(
        {**states, **more.pop("states", {})},
        context_schema={"properties": {"size": sizes, "other": {"type": "string"}}},
        **more,
    )


def test_a_certain_answer_takes_no_call_and_is_on_record() -> None:
    done = talk(shop(), "Large")
    assert (done.session.state, done.text, done.usage.calls) == ("done", "Thank you!", 0)
    assert done.session.context == {"size": "large"}
    assert done.session.origins["size"] == (1, "user")
    kinds = [type(event).__name__ for event in done.events if not isinstance(event, ev.Started)]
    assert kinds[-6:] == ["UserSaid", "Recognised", "ContextSet", "StateEntered", "BotSaid", "Ended"]
    assert done.of(ev.StateEntered)[0].by == "user"


ROUTED = {"transitions": [{"target_state": "sort", "conditions": [{"requires_context_keys": ["size"]}]}]}


@pytest.mark.parametrize(("said", "state"), [("large", "done"), ("small", "help")])
def test_states_that_decide_are_passed_on_the_way(said: str, state: str) -> None:
    done = talk(shop(ask=ROUTED), said)
    assert (done.session.state, done.usage.calls) == (state, 0)


@pytest.mark.parametrize(
    "made",
    [
        shop(fast=False),
        shop(reply=None),
        shop(ask={"required_context_keys": ["size", "other"]}),
        shop(ask={"transitions": [{"target_state": "done", "description": "The size is known"}]}),
        shop(
            ask={
                "transitions": [
                    {"target_state": target, "conditions": [{"requires_context_keys": ["size"]}]}
                    for target in ("done", "help")
                ]
            }
        ),
    ],
    ids=["off", "words-needed", "more-wanted", "move-judged", "two-moves"],
)
def test_what_is_not_certain_goes_to_the_model(made: Any) -> None:
    done = talk(made, "large", reply("ask", "Tell me more."))
    assert (done.text, done.usage.calls) == ("Tell me more.", 1)
    assert not done.of(ev.Recognised)


def test_another_message_goes_to_the_model() -> None:
    first = talk(shop(), "what sizes are there?", reply("help"))
    assert (first.session.state, first.usage.calls) == ("help", 1)
    assert say(shop(), first.session, "large", reply("ask")).usage.calls == 1


def test_a_veto_gives_the_turn_to_the_model() -> None:
    def veto(effect: RunHandlers) -> HandlerResult | None:
        return HandlerResult(handler="no", veto="closed") if effect.point is Point.PRE_TRANSITION else None

    done = talk(shop(), "large", reply("ask", "We are closed."), handler=veto)
    assert (done.text, done.usage.calls, done.session.context) == ("We are closed.", 1, {"size": "large"})


DAY = {"type": "string", "format": "date", "x-fast": True}
STAY = {
    name: {
        "purpose": question,
        "reply": question,
        "required_context_keys": [name],
        "transitions": [{"target_state": after, "conditions": [{"requires_context_keys": [name]}]}],
    }
    for name, question, after in (("since", "From when?", "until"), ("until", "Until when?", "done"))
}


def test_a_value_that_may_correct_an_earlier_answer_is_for_the_model() -> None:
    stay = machine(
        {**STAY, "done": {"purpose": "End", "reply": "Bye."}},
        context_schema={"properties": {"since": DAY, "until": DAY}},
    )
    first = talk(stay, "2030-01-02")
    assert say(stay, first.session, "2030-01-05").session.state == "done"
    wrong = say(stay, first.session, "No, the first day is wrong", reply("until", "What is the right one?"))
    right = say(stay, wrong.session, "2030-01-03", reply("until", "I see.", since="2030-01-03"))
    assert (right.usage.calls, right.session.context) == (1, {"since": "2030-01-03"})
