"""A model's turns against the labels of a person: what counts as right, and where a conversation
goes on.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_fsm.errors import ModelError
from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.testing import reply
from llm_fsm.testing.evaluation.dialogue import Dialogue, DialoguePlayer
from llm_fsm.testing.evaluation.figures import difference, figures, passes, share
from llm_fsm.testing.evaluation.labels import fits
from llm_fsm.testing.evaluation.page import page
from llm_fsm.testing.scenarios.loader import suite_of
from llm_fsm.testing.scenarios.problems import SuiteError

BOOKING: dict[str, Any] = {
    "name": "booking",
    "initial_state": "name",
    "context_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "guests": {"type": "integer"},
            "note": {"type": "string"},
        },
    },
    "states": {
        "name": {
            "purpose": "What is your name?",
            "required_context_keys": ["name"],
            "transitions": [
                {"target_state": "guests", "conditions": [{"requires_context_keys": ["name"]}]}
            ],
        },
        "guests": {
            "purpose": "How many guests?",
            "required_context_keys": ["guests"],
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["guests"]}]}
            ],
        },
        "done": {"reply": "Booked."},
    },
}
TURNS: list[dict[str, Any]] = [
    {"say": "Ada", "state": "guests", "values": {"name": {"like": "^ada$"}}},
    {"say": "four", "state": "done", "values": {"guests": 4}, "text": "booked"},
]


def dialogue(replies: list[Any], turns: list[dict[str, Any]] = TURNS, **settings: Any) -> Dialogue:
    document = {"definition": BOOKING, "turns": turns, **settings.pop("file", {})}
    loaded = suite_of(json.dumps(document), file="booking.json")

    async def played() -> Dialogue:
        player = DialoguePlayer(loaded, ScriptedLLM(replies), **settings)
        try:
            [play] = player.plays
            return await player.play(play, lambda _: None)
        finally:
            await player.close()

    return asyncio.run(played())


def test_turns_as_labelled_are_right() -> None:
    found = dialogue([reply("guests", "How many?", name="Ada"), reply("done", "", guests=4)])
    assert [turn.right for turn in found.turns] == [True, True]
    assert found.turns[1].worded


QUOTED: dict[str, Any] = {
    **BOOKING,
    "context_schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "x-said": "quote"},
            "guests": {"type": "integer"},
        },
    },
}


def test_the_right_answer_takes_the_place_of_a_wrong_one_where_a_key_asks_for_a_quote() -> None:
    turns: list[dict[str, Any]] = [
        {"say": "I am Ada", "state": "guests", "values": {"name": "Ada"}},
        {"say": "four", "values": {"guests": 4}},
    ]
    replies = [reply("name", "What?"), reply("done", "", guests=4)]
    found = dialogue(replies, turns, file={"definition": QUOTED})
    assert (found.unforced, [turn.right for turn in found.turns]) == (0, [False, True])


def test_after_a_wrong_turn_the_conversation_goes_on_from_the_right_answer() -> None:
    replies = [reply("name", "What?"), reply("done", "", guests=4)]
    found = dialogue(replies)
    assert [(turn.state, turn.right) for turn in found.turns] == [("name", False), ("done", True)]
    assert found.unforced == 0


ROUTED: dict[str, Any] = {
    **BOOKING,
    "states": {
        **BOOKING["states"],
        "name": {
            "purpose": "What is your name?",
            "required_context_keys": ["name"],
            "transitions": [
                {"target_state": "route", "conditions": [{"requires_context_keys": ["name"]}]}
            ],
        },
        "route": {
            "kind": "decide",
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["guests"]}]},
                {"target_state": "guests", "priority": 200},
            ],
        },
    },
}


def test_the_right_answer_may_name_a_state_on_the_way_to_the_one_of_the_label() -> None:
    turns: list[dict[str, Any]] = [
        {
            "say": "I am Ada, for four",
            "state": "done",
            "values": {"name": {"like": "^ada$"}, "guests": 4},
        }
    ]
    found = dialogue([reply("name", "What?")], turns, file={"definition": ROUTED})
    assert (found.unforced, [turn.right for turn in found.turns]) == (0, [False])


def test_a_wrong_turn_that_no_reply_could_have_made_right_is_counted() -> None:
    turns: list[dict[str, Any]] = [
        {"say": "Ada", "state": "done", "values": {"name": "Ada"}},
        {"say": "go on", "state": "guests"},
    ]
    found = dialogue([reply("name", "What?"), reply("guests", "How many?")], turns)
    assert (found.unforced, [turn.right for turn in found.turns]) == (1, [False, True])


def test_a_free_dialogue_goes_on_from_where_the_model_led_it() -> None:
    replies = [reply("name", "What?"), reply("name", "", guests=4)]
    found = dialogue(replies, forced=False)
    assert [turn.state for turn in found.turns] == ["name", "name"]


def test_a_value_without_a_label_is_invented() -> None:
    found = dialogue(
        [reply("guests", "", name="Ada", note="a window"), reply("done", "", guests=4)]
    )
    assert (found.turns[0].right, found.turns[0].invented) == (False, ("note",))


def test_a_turn_without_labels_counts_what_is_invented() -> None:
    found = dialogue([reply("name", "", note="a window")], [{"say": "hm"}, TURNS[0]], forced=False)
    assert (found.turns[0].judged, found.turns[0].invented) == (True, ("note",))


def test_a_right_value_that_is_overwritten_later_is_lost() -> None:
    changed = reply("done", "", guests=4, name="Four")
    found = dialogue([reply("guests", "", name="Ada"), changed, changed])
    assert (found.turns[1].right, found.turns[1].lost) == (False, ("name",))


def test_a_model_that_fails_is_a_wrong_turn_with_its_reason() -> None:
    [first, *_] = dialogue(["no JSON", "no JSON", reply("done", "", guests=4)]).turns
    assert not first.right
    assert first.rejected == 2


def test_steps_with_expectations_are_labels_too() -> None:
    steps = [
        {
            "say": "Ada",
            "reply": {"to": "guests", "set": {"name": "Ada"}},
            "expect": {"context": {"name": "Ada"}},
        },
        {"say": "hm", "reply": {}},
    ]
    loaded = suite_of(json.dumps({"definition": BOOKING, "steps": steps}), file="x.test.json")
    player = DialoguePlayer(
        loaded, ScriptedLLM([reply("guests", "", name="Ada", note="x"), reply("guests", "")])
    )
    found = asyncio.run(player.play(player.plays[0], lambda _: None))
    assert [(turn.judged, turn.right) for turn in found.turns] == [(True, True), (False, True)]
    assert figures(found.turns).turns == 1


def asked_with(
    turns: list[dict[str, Any]], replies: list[Any], **settings: Any
) -> tuple[list[str], Dialogue]:
    """Return the prompts of a dialogue, and the dialogue."""
    model = ScriptedLLM(replies)
    document = {"definition": BOOKING, "turns": turns}
    loaded = suite_of(json.dumps(document), file="booking.json")
    player = DialoguePlayer(loaded, model, **settings)
    found = asyncio.run(player.play(player.plays[0], lambda _: None))
    return [request.messages[-1].content for request in model.requests], found


@pytest.mark.parametrize(
    "said",
    [
        "Und wie viele kommen?",
        "“How many?”, she <asked>\nAnd when?",
        "4",
        "كم عدد الضيوف؟",
        "Thanks, Ada! " * 20,
    ],
)
def test_the_words_of_another_system_take_the_place_of_ours_in_the_history(said: str) -> None:
    turns = [{**TURNS[0], "said": said}, TURNS[1]]
    prompts, found = asked_with(
        turns, [reply("guests", "Own words.", name="Ada"), reply("done", "", guests=4)]
    )
    assert "Own words." in found.turns[0].text
    assert "Own words." not in prompts[1]
    shown = json.dumps(said, ensure_ascii=False)[1:-1]
    assert shown.replace("<", "\\u003c").replace(">", "\\u003e") in prompts[1]


def test_the_words_of_another_system_stand_after_the_right_answer_too() -> None:
    turns = [{**TURNS[0], "said": "Their question?"}, TURNS[1]]
    prompts, found = asked_with(turns, [reply("name", "What?"), reply("done", "", guests=4)])
    assert [turn.right for turn in found.turns] == [False, True]
    assert "Their question?" in prompts[1]
    assert "What?" not in prompts[1]


def test_a_turn_that_failed_changes_no_words() -> None:
    turns = [{**TURNS[0], "said": "Theirs 1"}, {**TURNS[0], "said": "Theirs 2"}, TURNS[1]]
    replies = [reply("guests", "Ours", name="Ada"), ModelError("down"), reply("done", "", guests=4)]
    prompts, _ = asked_with(turns, replies, forced=False)
    assert "Theirs 1" in prompts[2]
    assert "Theirs 2" not in prompts[2]


READ_BACK: dict[str, Any] = {
    **BOOKING,
    "states": {
        **BOOKING["states"],
        "guests": {
            **BOOKING["states"]["guests"],
            "transitions": [
                {"target_state": "check", "conditions": [{"requires_context_keys": ["guests"]}]}
            ],
        },
        "check": {
            "reply": "{{ name }}, for {{ guests }}. Shall I book it?",
            "confirms": ["name", "guests"],
            "transitions": [
                {"target_state": "book", "agrees": True},
                {"target_state": "name", "description": "No"},
            ],
        },
        "book": {
            "kind": "task",
            "acts": True,
            "execute": "book",
            "transitions": [{"target_state": "done"}],
        },
    },
}
AGREED: list[dict[str, Any]] = [
    {"say": "Ada, four of us", "state": "check", "values": {"name": "Ada", "guests": 4}},
    {"say": "Yes.", "state": "done", "acts": ["book"]},
]


def agreed(turns: list[dict[str, Any]], **settings: Any) -> Dialogue:
    replies = [reply("check", "", name="Ada", guests=4), reply("book", "")]
    file = {"definition": READ_BACK, "functions": {"book": {"output": "done"}}}
    return dialogue(replies, turns, file=file, **settings)


def test_a_read_back_counts_where_another_system_said_it_in_its_words() -> None:
    told = [{**AGREED[0], "said": "So that is a table for the four of you, Ada?"}, AGREED[1]]
    assert [turn.right for turn in agreed(told).turns] == [True, True]


@pytest.mark.parametrize(
    ("labels", "right", "harmful"),
    [
        ({"state": "done", "acts": ["book"]}, True, ()),
        ({"state": "done"}, True, ()),
        ({"state": "done", "acts": []}, False, ("book",)),
        ({"state": "check"}, False, ("book",)),
        ({"state": "done", "acts": ["book", "pay"]}, False, ()),
    ],
)
def test_an_act_that_the_label_does_not_have_is_harmful(
    labels: dict[str, Any], right: bool, harmful: tuple[str, ...]
) -> None:
    found = agreed([AGREED[0], {"say": "Yes.", **labels}], forced=False)
    assert (found.turns[1].right, found.turns[1].harmful) == (right, harmful)


@pytest.mark.parametrize(
    ("say", "value", "harmful"),
    [
        ("I'm Ada", "Ada Lovelace", ("name",)),
        ("It is for Ada, from Bo", "Bo", ()),
        ("Ada", "ADA.", ()),
        ("AdÁ", "ada", ()),
        ("my name", "Grace Hopper", ("name",)),
    ],
)
def test_a_wrong_value_that_nobody_said_is_harmful(
    say: str, value: str, harmful: tuple[str, ...]
) -> None:
    turns = [{"say": say, "values": {"name": {"like": "^none of them$"}}}]
    found = dialogue([reply("guests", "", name=value)], turns, forced=False)
    assert (found.turns[0].right, found.turns[0].harmful) == (False, harmful)


def test_an_invented_number_is_harmful() -> None:
    found = dialogue([reply("guests", "", name="Ada", guests=2), reply("done", "", guests=4)])
    assert found.turns[0].harmful == ("guests",)
    assert figures(found.turns).harmful == 1


def runs(*right: bool) -> list[Dialogue]:
    good = dialogue([reply("guests", "", name="Ada"), reply("done", "", guests=4)])
    bad = dialogue([reply("name", ""), reply("guests", "")])
    return [good if one else bad for one in right]


@pytest.mark.parametrize(
    ("right", "times", "expected"),
    [
        ((True,), 1, (1.0,)),
        ((True, False), 1, (0.5,)),
        ((True, True, True, False), 2, (0.75, 0.5)),
        ((True, False, False), 3, (1 / 3, 0.0, 0.0)),
        ((True, True, False), 3, (2 / 3, 1 / 3, 0.0)),
        ((), 4, (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_passes_are_the_chance_that_all_of_k_runs_are_right(
    right: tuple[bool, ...], times: int, expected: tuple[float, ...]
) -> None:
    assert passes(runs(*right), times) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "label", "fitting"),
    [
        ("a", "a", True),
        (1, 1.0, False),
        (1, True, False),
        (None, None, True),
        ("", None, False),
        ("Ada L.", {"like": "^ada"}, True),
        (5, {"like": "5"}, False),
        (None, {"maybe": True}, True),
        (True, {"maybe": True}, True),
        (False, {"maybe": True}, False),
        (None, {"maybe": {"like": "^ada"}}, True),
        ("Bo", {"maybe": {"like": "^ada"}}, False),
        ({"a": 1, "b": None}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ([1, {"a": "x"}], [1, {"a": {"like": "X"}}], True),
        ([1], [1, 2], False),
    ],
)
def test_a_value_fits_its_label_in_value_and_type(value: Any, label: Any, fitting: bool) -> None:
    assert fits(value, label) is fitting


def test_a_dialogue_file_has_its_own_time_flows_and_tools() -> None:
    job = {"name": "job", "initial_state": "end", "states": {"end": {"kind": "final"}}}
    calls = {**BOOKING, "states": {**BOOKING["states"], "job": {"kind": "subflow", "flow": "job", "transitions": [
        {"target_state": "done"}]}}}  # fmt: skip
    calls["states"]["name"] = {**calls["states"]["name"], "transitions": [{"target_state": "job"}]}
    document = {"definition": calls, "flows": {"job": job}, "tools": ["look_up"], "what": "x", "turns": TURNS,
                "clock": "2026-11-27T10:00:00Z"}  # fmt: skip
    loaded = suite_of(json.dumps(document), file="booking.json")
    assert list(loaded.registered) == ["job"]
    assert loaded.plays[0].setup["time"] == 1795773600.0


@pytest.mark.parametrize(
    ("turn", "said"),
    [
        ({"say": "x", "state": "nowhere"}, "has no state 'nowhere'"),
        ({"say": "x", "values": {"nobody": 1}}, "'nobody'"),
        ({"say": "x", "sate": "done"}, 'unknown key "sate"'),
        ({"state": "done"}, '"say" is missing'),
    ],
)
def test_a_label_that_cannot_be_met_is_reported_when_the_file_is_read(
    turn: dict[str, Any], said: str
) -> None:
    with pytest.raises(SuiteError, match=said):
        suite_of(json.dumps({"definition": BOOKING, "turns": [turn]}), file="x.json")


def test_a_share_has_bounds_also_where_none_or_all_are_right() -> None:
    assert (share(0, 8).low, round(share(0, 8).high, 2)) == (0.0, 0.32)
    assert (round(share(8, 8).low, 2), share(8, 8).high) == (0.68, 1.0)
    assert share(0, 0).value == 0.0


def test_two_ways_are_compared_turn_by_turn() -> None:
    good = dialogue([reply("guests", "", name="Ada"), reply("done", "", guests=4)])
    bad = dialogue([reply("name", ""), reply("guests", "")])
    found = difference([bad] * 4, [good] * 4)
    assert found is not None
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert difference([], []) is None


def test_the_page_escapes_what_people_and_models_say() -> None:
    turn = {
        "say": "<script>alert(1)</script>",
        "text": "a\x1b[2J",
        "state": "s",
        "judged": True,
        "right": False,
        "why": "<b>",
    }
    ways = [{"name": "m", "dialogues": [{"title": "d", "turns": [turn]}]}]
    text = page(
        {"ways": ways, "rows": [{"name": "turns right", "cells": ["0 of 1"]}], "difference": ""}
    )
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "0 of 1 right" in text
    assert "\x1b" not in text
