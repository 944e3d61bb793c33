"""Example replies: made from a definition's own states and keys, in the form of the request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.definition.json_schema.validator import compile_shape
from llm_fsm.turn.prompt.examples import ExampleState, example_replies, sample
from llm_fsm.turn.reply.parser import parse
from machines import machine, reply, say, start, talk

ASK = ExampleState("moment", ("guests", "date"), "contact")
CONTACT = ExampleState("contact", ("phone",), "done")
KEYS = {"guests": {"type": "integer"}, "date": {"type": "string", "format": "date"}, "phone": {"type": "string"}}


def shown(states: list[ExampleState], keys: Any = KEYS, **options: Any) -> list[tuple[str, str, Any]]:
    """Each example: what happened, the target, and the update as it is written."""
    text = example_replies(states, keys, **{"form": "object", "reasoning": "none", "correct": False, **options})
    lines = text.splitlines()
    found = []
    for when, written in zip(lines[::2], lines[1::2], strict=True):
        move = json.loads(written)["transition"]
        assert parse(written).target == move["target_state"]
        found.append((when, move["target_state"], move["context_update"]))
    return found


def test_examples_stay_and_ask_move_and_correct() -> None:
    assert shown([ASK, CONTACT]) == [
        (
            "In state moment, the user gives guests, and date is still missing. You stay and ask:",
            "moment",
            {"guests": 3},
        ),
        (
            "In state moment, the user gives date, and the transition to contact fits. You move:",
            "contact",
            {"date": "2030-05-17"},
        ),
        ("In state contact, the user only changes guests. You write it and stay:", "contact", {"guests": 3}),
    ]


def test_examples_have_the_form_of_the_request() -> None:
    updates = [update for _, _, update in shown([ASK, CONTACT], form="list")]
    guests = [{"key": "guests", "value": 3}]
    assert updates == [guests, [{"key": "date", "value": "2030-05-17"}], guests]


def test_a_correction_names_its_pattern_where_there_is_one() -> None:
    assert shown([ASK, CONTACT], correct=True)[2][1] == "correct"


def test_a_state_with_one_key_or_none_has_examples_too() -> None:
    assert [(target, update) for _, target, update in shown([CONTACT])] == [
        ("contact", {}), ("done", {"phone": "…"}), ("contact", {"phone": "…"})
    ]  # fmt: skip
    assert [(target, update) for _, target, update in shown([ExampleState("a", (), "b")], {})] == [("a", {}), ("b", {})]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 10}, {"type": "integer", "maximum": 2}, {"type": "number", "multipleOf": 5},
        {"enum": ["s", "m"]}, {"const": 7}, {"type": "boolean"}, {"type": ["null", "string"]}, {"type": "string"},
        {"type": "array", "items": {"enum": [1, 2]}}, {"type": "string", "format": "email"}, {},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}},
    ],
)  # fmt: skip
def test_a_sample_fits_its_key(schema: dict[str, Any]) -> None:
    assert compile_shape(schema).fault(sample(schema)) is None


def test_a_prompt_names_no_time_where_no_key_and_no_words_need_it() -> None:
    states = {"a": {"purpose": "Name?", "transitions": [{"target_state": "b"}]}, "b": {}}
    plain = talk(machine(states), "m", reply("a"))
    assert "<now>" not in plain.prompt
    assert plain.requests[0].messages[0].content.endswith("<today>Thursday, 1970-01-01</today>\n")
    timed = {"context_schema": {"properties": {"at": {"type": "string", "format": "time"}}}}
    zoned = talk(machine(states, timezone="Asia/Tokyo", **timed), "m", reply("a"))
    assert "<now>1970-01-01T09:33 (Asia/Tokyo)</now>" in zoned.prompt
    words = {**states, "a": {**states["a"], "instructions": "We close at 18:00."}}
    assert "<now>" in talk(machine(words), "m", reply("a")).prompt


def test_a_condition_that_is_met_is_no_longer_shown() -> None:
    rule = {"description": "Over ten", "logic": {">": [{"var": "n"}, 10]}}
    conditions = [{"requires_context_keys": ["n", "m"]}, rule]
    made = machine({"a": {"transitions": [{"target_state": "b", "conditions": conditions}]}, "b": {}})
    first = talk(made, "m", reply("a", n=12))
    assert '{"to":"b","conditions":[{"keys":["n","m"]},{"desc":"Over ten"}]}' in first.prompt
    assert '{"to":"b","conditions":[{"keys":["m"]}]}' in say(made, first.session, "m", reply("a")).prompt


def test_only_patterns_that_can_do_something_are_open() -> None:
    states = {"a": {"purpose": "Name?", "required_context_keys": ["name"], "transitions": [{"target_state": "b"}]}}
    made = machine({**states, "b": {}}, patterns=["correct", "repeat", "restart", "skip"])
    first = say(made, start(made, greet=False).session, "m", reply("a", "And?", name="Ada"))
    assert "<open_patterns>skip</open_patterns>" in first.prompt
    assert "<open_patterns>correct, repeat, skip, restart</open_patterns>" in say(
        made, first.session, "m", reply("a")
    ).prompt


def test_a_state_that_speaks_by_itself_says_so_where_it_is_offered_and_where_it_is_left() -> None:
    states = {
        "a": {"purpose": "Name?", "transitions": [{"target_state": "b"}]},
        "b": {"reply": "Shall I?", "transitions": [{"target_state": "c"}]},
        "c": {},
    }
    made = machine(states)
    first = talk(made, "m", reply("b"))
    assert '[{"to":"b","says_by_itself":true}]' in first.prompt
    assert "<says_by_itself>" not in first.prompt
    assert "<says_by_itself>This state says its own text" in say(made, first.session, "m", reply("b")).prompt


def test_what_a_transition_leads_on_to_is_shown_up_to_states_that_wait() -> None:
    def big(target: str) -> dict[str, Any]:
        return {"logic": {">": [{"var": "n"}, 10]}, "description": f"to {target}"}

    states = {
        "a": {"required_context_keys": ["n"], "transitions": [{"target_state": "one"}]},
        "one": {"kind": "decide", "transitions": [
            {"target_state": "two", "conditions": [big("two")]}, {"target_state": "c", "priority": 200},
        ]},
        "two": {"kind": "decide", "transitions": [
            {"target_state": "b", "conditions": [big("b")]}, {"target_state": "a", "priority": 200},
        ]},
        "b": {"purpose": "B?"}, "c": {"purpose": "C?"},
    }  # fmt: skip
    [item] = json.loads(talk(machine(states), "m", reply("a")).prompt.split("<transitions>\n")[1].split("\n</tr")[0])
    first, second = item["there"]["leads_on_to"]
    assert (first["to"], [branch["to"] for branch in first["leads_on_to"]]) == ("two", ["b", "a"])
    assert second == {"to": "c"}
