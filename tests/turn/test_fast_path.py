"""Turns without a model: only where the value and the move are certain."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.session import events as ev
from llm_fsm.turn.effects import HandlerResult, Point, RunHandlers
from llm_fsm.turn.pipeline import Due
from llm_fsm.turn.steps import begin
from llm_fsm.turn.turn_state import HostCapabilities
from machines import machine, play, reply, say, start, talk


def shop(*, reply: str | None = "Thank you!", fast: bool = True, **more: Any) -> Any:
    """Asks for a size; `reply`: the fixed words of where it leads."""
    sizes = {"enum": ["small", "large"], "x-fast": fast, **more.pop("size", {})}
    large = [{"logic": {"==": [{"var": "size"}, "large"]}}]
    states = {
        "ask": {
            "purpose": "Ask for the size",
            "reply": "Which size?",
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
    done = talk(shop(), "Large", greet=True)
    assert (done.session.state, done.text, done.usage.calls) == ("done", "Thank you!", 0)
    assert done.session.context == {"size": "large"}
    assert done.session.origins["size"] == (1, "user")
    kinds = [type(event).__name__ for event in done.events if not isinstance(event, ev.Started)]
    assert kinds[-6:] == [
        "UserSaid",
        "Recognised",
        "ContextSet",
        "StateEntered",
        "BotSaid",
        "Ended",
    ]
    assert done.of(ev.StateEntered)[0].by == "user"


@pytest.mark.parametrize("said", ["large", "Large", " LARGE. ", "small", "Small!"])
def test_a_certain_answer_has_the_place_of_its_words(said: str) -> None:
    done = talk(shop(size={"x-said": "quote"}), said, greet=True)
    [(number, begin_at, end)] = done.of(ev.ContextSet)[0].quotes.values()
    assert (number, said[begin_at:end].lower(), done.usage.calls) == (
        1,
        done.session.context["size"],
        0,
    )


ROUTED = {
    "transitions": [{"target_state": "sort", "conditions": [{"requires_context_keys": ["size"]}]}]
}


@pytest.mark.parametrize(("said", "state"), [("large", "done"), ("small", "help")])
def test_states_that_decide_are_passed_on_the_way(said: str, state: str) -> None:
    done = talk(shop(ask=ROUTED), said, greet=True)
    assert (done.session.state, done.usage.calls) == (state, 0)


@pytest.mark.parametrize(
    "made",
    [
        shop(fast=False),
        shop(ask={"reply": None}),
        shop(ask={"reply": "Which size? And which colour?"}),
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
    ids=[
        "off",
        "no-fixed-words",
        "two-questions",
        "words-needed",
        "more-wanted",
        "move-judged",
        "two-moves",
    ],
)
def test_what_is_not_certain_goes_to_the_model(made: Any) -> None:
    words = made.states["ask"].definition.reply
    greeted = start(
        made, *[] if words else [json.dumps({"message": "Hello! Which size?"})], greet=True
    ).session
    done = say(made, greeted, "large", reply("ask", "Tell me more."))
    assert (done.text, done.usage.calls) == (f"Tell me more.\n\n{words or 'Hello! Which size?'}", 1)
    assert not done.of(ev.Recognised)


def test_another_message_goes_to_the_model() -> None:
    first = talk(shop(), "what sizes are there?", reply("help"), greet=True)
    assert (first.session.state, first.usage.calls) == ("help", 1)
    assert say(shop(), first.session, "large", reply("ask")).usage.calls == 1


def test_a_veto_gives_the_turn_to_the_model() -> None:
    def veto(effect: RunHandlers) -> HandlerResult | None:
        return (
            HandlerResult(handler="no", veto="closed")
            if effect.point is Point.PRE_TRANSITION
            else None
        )

    done = talk(shop(), "large", reply("ask", "We are closed."), handler=veto, greet=True)
    assert (done.text, done.usage.calls) == ("We are closed.\n\nWhich size?", 1)
    assert done.session.context == {"size": "large"}


DAY = {"type": "string", "format": "date", "x-fast": True}
STAY = {
    name: {
        "purpose": question,
        "reply": question,
        "required_context_keys": [name],
        "transitions": [{"target_state": after, "conditions": [{"requires_context_keys": [name]}]}],
    }
    for name, question, after in (
        ("since", "From when?", "until"),
        ("until", "Until when?", "done"),
    )
}


def test_a_value_answers_what_fixed_words_have_asked_alone() -> None:
    stay = machine(
        {**STAY, "done": {"purpose": "End", "reply": "Bye."}},
        context_schema={"properties": {"since": DAY, "until": DAY}},
    )
    first = talk(stay, "2030-01-02", greet=True)
    assert say(stay, first.session, "2030-01-05").session.state == "done"
    asking = say(
        stay, first.session, "No, the first day is wrong", reply("until", "What is the right one?")
    )
    assert asking.text == "What is the right one?\n\nUntil when?"
    right = say(stay, asking.session, "2030-01-03", reply("until", "I see.", since="2030-01-03"))
    assert (right.usage.calls, right.session.context) == (1, {"since": "2030-01-03"})


def test_nothing_is_certain_before_anything_was_asked() -> None:
    assert talk(shop(), "large", reply("ask", "Hello.")).usage.calls == 1


def form(
    *moves: dict[str, Any],
    reply: str = "Which one?",
    keys: dict[str, Any],
    wanted: list[str],
    **more: Any,
) -> Any:
    """Asks for keys; the moves lead to states with fixed words, named after their targets."""
    targets = {move["target_state"] for move in moves} | {"done"}
    ends = {
        name: {"purpose": "End", "reply": name}
        for name in sorted(targets - {"ask", *more.get("states", {})})
    }
    ask = {
        "purpose": "Ask",
        "reply": reply,
        "required_context_keys": wanted,
        "transitions": list(moves),
    }
    return machine(
        {"ask": ask, **ends, **more.pop("states", {})}, context_schema={"properties": keys}, **more
    )


def to(target: str, *keys: str, **more: Any) -> dict[str, Any]:
    return {"target_state": target, "conditions": [{"requires_context_keys": list(keys)}], **more}


YES_NO = {"type": "boolean", "x-fast": True}
COUNT = {"type": "integer", "x-fast": True}
COLOUR = {"enum": ["red", "help"], "x-fast": True}


def test_an_answer_to_what_was_asked_before_is_not_taken_for_the_state_that_the_turn_has_moved_on_to() -> (
    None
):
    on = to("late", "open", auto=True)
    late = {
        "purpose": "Ask",
        "reply": "Late?",
        "required_context_keys": ["b"],
        "transitions": [to("done", "b")],
    }
    made = form(
        to("done", "a"),
        on,
        keys={"a": YES_NO, "b": YES_NO, "open": {"x-source": "host"}},
        wanted=["a"],
        states={"late": late},
    )

    def opens(effect: RunHandlers) -> HandlerResult | None:
        return (
            HandlerResult(handler="h", changes={"open": 1})
            if effect.point is Point.PRE_PROCESSING
            else None
        )

    done = say(made, start(made, greet=True).session, "yes", reply("late", "So?"), handler=opens)
    assert (done.session.state, "b" in done.session.context, done.usage.calls) == ("late", False, 1)


def test_an_answer_that_a_handler_has_taken_is_not_taken_for_the_key_that_is_left() -> None:
    made = form(
        to("done", "a", "b"),
        keys={"a": COUNT, "b": COUNT},
        wanted=["a", "b"],
        reply="How many adults?",
    )

    def takes(effect: RunHandlers) -> HandlerResult | None:
        return (
            HandlerResult(handler="h", changes={"a": 3})
            if effect.point is Point.PRE_PROCESSING
            else None
        )

    done = say(
        made, start(made, greet=True).session, "3", reply("ask", "And children?"), handler=takes
    )
    assert (done.session.context, done.usage.calls) == ({"a": 3}, 1)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            form(
                to("done", "c"),
                {
                    "target_state": "vip",
                    "conditions": [{"requires_context_keys": ["c"]}, {"description": "A regular"}],
                },
                keys={"c": COLOUR},
                wanted=["c"],
            ),
            "red",
        ),
        (
            form(
                to("done", "c"),
                {
                    "target_state": "seen",
                    "conditions": [{"logic": {"in": ["red", {"var": "_user_input"}]}}],
                },
                keys={"c": COLOUR},
                wanted=["c"],
            ),
            "red",
        ),
        (
            form(
                to("done", "c"),
                {"target_state": "alarm", "description": "The light is red"},
                keys={"c": COLOUR},
                wanted=["c"],
            ),
            "red",
        ),
        (
            form(
                to("done", "c"),
                {"target_state": "other", "description": "No"},
                keys={"c": YES_NO},
                wanted=["c"],
            ),
            "yes",
        ),
        (
            form(
                to("done", "c"),
                keys={"c": COLOUR},
                wanted=["c"],
                states={"help": {"purpose": "Help", "reply": "Help"}},
                global_transitions=[
                    {"target_state": "help", "description": "Needs a hand", "return": True}
                ],
            ),
            "help",
        ),
        (
            form(
                to("done", "c"),
                keys={"c": {"enum": ["book", "cancel"], "x-fast": True}},
                wanted=["c"],
                patterns=["cancel"],
            ),
            "cancel",
        ),
        (
            form(
                to("done", "c"),
                keys={"c": COLOUR, "drink": {"enum": ["red", "white"]}},
                wanted=["c"],
                reply="Which colour? And which wine?",
            ),
            "red",
        ),
    ],
    ids=["judged", "by-its-words", "told-of", "either-answer", "digression", "pattern", "two-keys"],
)
def test_words_that_may_ask_for_another_way_are_for_the_model(made: Any, said: str) -> None:
    done = say(made, start(made, greet=True).session, said, reply("ask", "Hm."))
    assert (done.session.state, done.session.context, done.usage.calls) == ("ask", {}, 1)


def test_of_two_transitions_to_a_state_the_one_is_taken_that_a_model_would_take_by_its_name() -> (
    None
):
    made = form({"target_state": "done"}, to("done", "c"), keys={"c": COLOUR}, wanted=["c"])
    session = start(made, greet=True).session
    sure = say(made, session, "red").of(ev.StateEntered)[0]
    picked = say(made, session, "the red one", reply("done", c="red")).of(ev.StateEntered)[0]
    assert (sure.transition, sure.by) == (picked.transition, "user")


def test_other_ways_beside_the_one_that_a_value_opens_do_no_harm() -> None:
    blue = {"logic": {"==": [{"var": "c"}, "help"]}}
    made = form(
        to("done", "c"),
        {"target_state": "info", "description": "Wants to know more"},
        {"target_state": "blues", "description": "The red one is sold out", "conditions": [blue]},
        keys={"c": COLOUR},
        wanted=["c"],
    )
    assert say(made, start(made, greet=True).session, "red").session.state == "done"


def test_yes_to_a_reminder_is_for_the_model() -> None:
    made = form(
        to("done", "c"),
        keys={"c": YES_NO},
        wanted=["c"],
        reply="Please confirm.",
        patterns=["silence"],
    )
    session = start(made, greet=True).session
    assert session.silence is not None
    reminded = play(
        begin(made, session, Due(time=session.silence.reminders[0]), HostCapabilities()), []
    ).session
    assert say(made, reminded, "yes", reply("ask", "Yes what?")).usage.calls == 1
    assert say(made, session, "yes").session.state == "done"
