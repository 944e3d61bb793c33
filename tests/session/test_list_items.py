"""Lists are changed by their items: `key` and `+key` change or add, `-key` removes, and nothing is
lost in silence.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_fsm.session import events as ev
from llm_fsm.session.list_items import with_items
from machines import machine, reply, talk

GUESTS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    },
}
SCHEMA = {
    "properties": {
        "guests": GUESTS,
        "tags": {"type": "array", "items": {"type": "string"}},
        "party": {
            "type": "object",
            "properties": {"dishes": {"type": "array", "items": {"type": "string"}}},
        },
        "once": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "day": {"type": "string"},
    }
}
STATES = {"a": {"purpose": "Who comes?", "transitions": [{"target_state": "b"}]}, "b": {}}
PARTY = machine(STATES, context_schema=SCHEMA)
ANN, BOB, JAN = {"name": "Ann", "age": 3}, {"name": "Bob"}, {"name": "Jan"}


@pytest.mark.parametrize(
    ("context", "update", "expected"),
    [
        ({}, {"guests": [ANN]}, {"guests": [ANN]}),
        ({"guests": [ANN]}, {"guests": [BOB]}, {"guests": [ANN, BOB]}),
        ({"guests": [ANN]}, {"guests": []}, {"guests": [ANN]}),
        ({"guests": [ANN, BOB]}, {"guests": [BOB, ANN]}, {"guests": [ANN, BOB]}),
        (
            {"guests": [ANN, BOB]},
            {"guests": [{"name": "bob", "age": 5}]},
            {"guests": [ANN, {"name": "bob", "age": 5}]},
        ),
        (
            {"guests": [ANN]},
            {"guests": [{"name": "Ann", "age": None}, {"name": "Cid", "age": None}]},
            {"guests": [ANN, {"name": "Cid"}]},
        ),
        (
            {"guests": [ANN]},
            {"guests": [ANN, {"name": "Ann", "age": 7}]},
            {"guests": [ANN, {"name": "Ann", "age": 7}]},
        ),
        (
            {"guests": [ANN, {"name": "Ann", "age": 7}]},
            {"-guests": [{"name": "Ann", "age": 7}]},
            {"guests": [ANN]},
        ),
        (
            {"guests": [ANN]},
            {"guests": [BOB], "_clear": ["guests"], "_quotes": {"_clear": "m"}},
            {"guests": [BOB]},
        ),
        ({}, {"+guests": [ANN]}, {"guests": [ANN]}),
        ({"guests": [ANN]}, {"+guests": [BOB]}, {"guests": [ANN, BOB]}),
        ({"guests": [ANN]}, {"+guests": BOB}, {"guests": [ANN, BOB]}),
        (
            {"guests": [ANN, BOB]},
            {"+guests": [{"name": "ann"}]},
            {"guests": [{"name": "ann", "age": 3}, BOB]},
        ),
        (
            {"guests": [ANN]},
            {"+guests": [{"name": "Ann", "age": "4"}]},
            {"guests": [{"name": "Ann", "age": 4}]},
        ),
        ({"guests": [ANN, BOB]}, {"-guests": ["Bob"]}, {"guests": [ANN]}),
        ({"guests": [ANN, BOB]}, {"-guests": [{"name": "bob"}]}, {"guests": [ANN]}),
        ({"guests": [ANN, BOB]}, {"-guests": "ANN"}, {"guests": [BOB]}),
        ({"guests": [ANN]}, {"-guests": ["Ann"], "+guests": [BOB]}, {"guests": [BOB]}),
        ({"guests": [ANN]}, {"-guests": ["Ann"], "guests": [BOB]}, {"guests": [BOB]}),
        ({"tags": ["a"]}, {"tags": ["b", "A"]}, {"tags": ["A", "b"]}),
        ({"tags": ["tea"]}, {"tags": ["tea", "tea"]}, {"tags": ["tea", "tea"]}),
        ({"tags": ["tea"]}, {"+tags": ["tea"]}, {"tags": ["tea", "tea"]}),
        ({"once": ["tea"]}, {"+once": ["tea"]}, {"once": ["tea"]}),
        ({"tags": ["tea", "tea"]}, {"-tags": ["tea"]}, {"tags": ["tea"]}),
        ({"tags": ["green tea", "milk"]}, {"-tags": ["tea"]}, {"tags": ["milk"]}),
        (
            {"party": {"dishes": ["soup"]}},
            {"+party.dishes": ["cake"]},
            {"party": {"dishes": ["soup", "cake"]}},
        ),
        ({"tags": ["a"]}, {"+tags": None}, {"tags": ["a"]}),
    ],
)
def test_items_are_added_replaced_and_removed(
    context: dict[str, Any], update: dict[str, Any], expected: dict[str, Any]
) -> None:
    done = talk(PARTY, "m", reply("a", **update), context=context)
    assert done.session.context == expected


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ({"-guests": ["Zoe"]}, '"Zoe" is not in the list'),
        ({"-guests": ["n"]}, '"n" fits several items'),
        ({"+day": ["Monday"]}, "day is no list"),
        ({"+guests": [{"age": 4}]}, "name"),
    ],
)
def test_a_change_of_items_that_cannot_be_made_is_told(update: dict[str, Any], reason: str) -> None:
    done = talk(PARTY, "m", reply("a", **update), context={"guests": [ANN, JAN]})
    assert done.session.context == {"guests": [ANN, JAN]}
    [refused, again] = done.of(ev.ContextRefused)
    assert reason in refused.reason
    assert refused == again


ITEMS = st.lists(st.sampled_from(["a", "B", "b", "c d"]), max_size=4)


@given(ITEMS, ITEMS, st.sampled_from(["tags", "+tags"]))
def test_adding_drops_nothing(before: list[str], added: list[str], name: str) -> None:
    whole = with_items({name: added}, {"tags": before}, lambda _: {"type": "array"}, print)
    after = [item.casefold() for item in whole.get("tags", before)]
    assert after[: len(before)] == [item.casefold() for item in before]
    assert {item.casefold() for item in added} <= set(after)
    once = {"tags": whole.get("tags", before)}
    assert with_items(once, once, lambda _: {}, print) == once


@given(ITEMS, ITEMS)
def test_removing_takes_one_item_for_each_name_or_tells_why(
    before: list[str], removed: list[str]
) -> None:
    told: list[str] = []
    whole = with_items(
        {"-tags": removed}, {"tags": before}, lambda _: {}, lambda _, why: told.append(why)
    )
    after = whole.get("tags", before)
    assert len(after) == len(before) - len(removed) + len(told)
    assert set(after) <= set(before)


def test_the_schema_of_a_reply_offers_the_removal_of_items_in_both_forms() -> None:
    request = talk(PARTY, "m", reply("a")).requests[0]
    assert request.schema is not None
    update = request.schema.schema["properties"]["context_update"]
    assert {"guests", "-guests", "tags", "-tags"} <= update["properties"].keys()
    assert update["properties"]["-guests"] == {"type": "array", "items": {"type": "string"}}
