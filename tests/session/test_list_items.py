"""Lists are changed by their items: `+key` adds or replaces, `-key` removes, and nothing is lost in
silence.
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
        "day": {"type": "string"},
    }
}
STATES = {"a": {"purpose": "Who comes?", "transitions": [{"target_state": "b"}]}, "b": {}}
PARTY = machine(STATES, context_schema=SCHEMA)
ANN, BOB = {"name": "Ann", "age": 3}, {"name": "Bob"}


@pytest.mark.parametrize(
    ("context", "update", "expected"),
    [
        ({}, {"+guests": [ANN]}, {"guests": [ANN]}),
        ({"guests": [ANN]}, {"+guests": [BOB]}, {"guests": [ANN, BOB]}),
        ({"guests": [ANN]}, {"+guests": BOB}, {"guests": [ANN, BOB]}),
        (
            {"guests": [ANN, BOB]},
            {"+guests": [{"name": "ann"}]},
            {"guests": [{"name": "ann"}, BOB]},
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
        ({"guests": [ANN]}, {"guests": [BOB], "+guests": [ANN]}, {"guests": [BOB, ANN]}),
        ({"tags": ["a"]}, {"+tags": ["b", "A"]}, {"tags": ["A", "b"]}),
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
        ({"+day": ["Monday"]}, "day is no list"),
        ({"+guests": [{"age": 4}]}, "name"),
    ],
)
def test_a_change_of_items_that_cannot_be_made_is_told(update: dict[str, Any], reason: str) -> None:
    done = talk(PARTY, "m", reply("a", **update), context={"guests": [ANN]})
    assert done.session.context == {"guests": [ANN]}
    [refused] = done.of(ev.ContextRefused)
    assert reason in refused.reason


ITEMS = st.lists(st.sampled_from(["a", "B", "b", "c d"]), max_size=4)


@given(ITEMS, ITEMS, ITEMS)
def test_no_other_item_is_touched(before: list[str], added: list[str], removed: list[str]) -> None:
    refused: list[str] = []
    update = {"+tags": added, "-tags": removed}
    whole = with_items(
        update, {"tags": before}, lambda _: {"type": "array"}, lambda name, _: refused.append(name)
    )
    after = whole.get("tags", before)
    gone = {item.casefold() for item in removed} - {item.casefold() for item in added}
    kept = [
        item.casefold()
        for item in before
        if item.casefold() not in {each.casefold() for each in removed}
    ]
    assert not gone & {item.casefold() for item in after}
    assert [item.casefold() for item in after][: len(kept)] == kept
    assert {item.casefold() for item in added} <= {item.casefold() for item in after}


def test_the_schema_of_a_reply_offers_changes_by_items_in_both_forms() -> None:
    request = talk(PARTY, "m", reply("a")).requests[0]
    assert request.schema is not None
    update = request.schema.schema["properties"]["context_update"]
    assert {"guests", "+guests", "-guests", "+tags", "-tags"} <= update["properties"].keys()
    assert update["properties"]["-guests"] == {"type": "array", "items": {"type": "string"}}
