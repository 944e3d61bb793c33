"""A model's turns against the labels of a person: what counts as right, and where a conversation
goes on.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from llm_fsm.llm.scripted import ScriptedLLM
from llm_fsm.testing import reply
from llm_fsm.testing.evaluation.dialogue import Dialogue, DialoguePlayer
from llm_fsm.testing.evaluation.figures import difference, figures, share
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


def test_a_right_value_that_is_lost_later_is_harmed() -> None:
    changed = reply("done", "", guests=4, name="Four")
    found = dialogue([reply("guests", "", name="Ada"), changed, changed])
    assert (found.turns[1].right, found.turns[1].harmed) == (False, ("name",))


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
        "right": False,
        "why": "<b>",
    }
    ways = [
        {
            "name": "m",
            "dialogues": [{"name": "d", "judged": 1, "right": 0, "wrong": 1, "turns": [turn]}],
        }
    ]
    text = page(
        {"ways": ways, "rows": [{"name": "turns right", "cells": ["0 of 1"]}], "difference": ""}
    )
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x1b" not in text
