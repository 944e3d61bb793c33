"""What a prompt of one turn shows, and what it leaves out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm.turn.prompt.state_summary import fixed_text
from machines import machine, reply, say, start, talk


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
    made = machine(
        {"a": {"transitions": [{"target_state": "b", "conditions": conditions}]}, "b": {}}
    )
    first = talk(made, "m", reply("a", n=12))
    assert '{"to":"b","conditions":[{"keys":["n","m"]},{"desc":"Over ten"}]}' in first.prompt
    assert (
        '{"to":"b","conditions":[{"keys":["m"]}]}'
        in say(made, first.session, "m", reply("a")).prompt
    )


def test_only_patterns_that_can_do_something_are_open() -> None:
    states = {
        "a": {
            "purpose": "Name?",
            "required_context_keys": ["name"],
            "transitions": [{"target_state": "b"}],
        }
    }
    made = machine({**states, "b": {}}, patterns=["correct", "repeat", "restart", "skip"])
    first = say(made, start(made, greet=False).session, "m", reply("a", "And?", name="Ada"))
    assert "<open_patterns>skip</open_patterns>" in first.prompt
    assert (
        "<open_patterns>correct, repeat, skip, restart</open_patterns>"
        in say(made, first.session, "m", reply("a")).prompt
    )


def test_a_state_that_speaks_by_itself_says_so_where_it_is_offered_and_where_it_is_left() -> None:
    states = {
        "a": {"purpose": "Name?", "transitions": [{"target_state": "b"}]},
        "b": {"reply": "Shall I?", "transitions": [{"target_state": "c"}]},
        "c": {},
    }
    made = machine(states)
    first = talk(made, "m", reply("b"))
    assert '[{"to":"b","says":true},' in first.prompt
    assert "<says>" not in first.prompt
    assert "<says>This state adds its own text" in say(made, first.session, "m", reply("b")).prompt


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
    item, _ = json.loads(
        talk(machine(states), "m", reply("a")).prompt.split("<transitions>\n")[1].split("\n</tr")[0]
    )
    first, second = item["there"]["leads_on_to"]
    assert (first["to"], [branch["to"] for branch in first["leads_on_to"]]) == ("two", ["b", "a"])
    assert second == {"to": "c"}


def test_where_the_program_goes_on_is_explained_wherever_it_is_shown() -> None:
    ways = [{"target_state": "b", "conditions": [{"requires_context_keys": ["n"]}]}]
    further = {"target_state": "c", "priority": 200}
    crossroads = {"kind": "decide", "transitions": [*ways, further]}
    passing = {"purpose": "N?", "transitions": [{**ways[0], "auto": True}, further]}
    for middle, shown in (
        (crossroads, True),
        (passing, True),
        ({"purpose": "N?", "transitions": ways}, False),
    ):
        states = {"a": {"transitions": [{"target_state": "m"}]}, "m": middle, "b": {}, "c": {}}
        asked = talk(machine(states), "m", reply("a")).requests[0].messages
        assert ('"leads_on_to"' in asked[1].content) is shown
        assert (
            'From an entry with "leads_on_to" the program goes on by itself' in asked[0].content
        ) is shown


@pytest.mark.parametrize("patterns", [[], ["digress", "clarify"]])
def test_a_pattern_is_not_told_to_ask_what_the_program_asks(patterns: list[str]) -> None:
    asks = {
        "purpose": "Name?",
        "required_context_keys": ["n"],
        "transitions": [{"target_state": "b"}],
    }
    states = {"a": asks, "b": {}}
    system = (
        talk(machine(states, patterns=patterns), "m", reply("a")).requests[0].messages[0].content
    )
    assert "ask for one thing of <information_to_collect>" in system
    assert ("; with a pattern do only what <patterns> says" in system) is bool(patterns)


@pytest.mark.parametrize(
    ("fixed", "shown"),
    [
        (
            "{% if street %}to {{ street }}{% else %}for pickup{% endif %}.",
            "to [street] or for pickup.",
        ),
        ("{% if a %}A{% elif b %}B{% else %}C{% endif %}", "A or B or C"),
        ("{% if name %}Thanks, {{ name }}! {% endif %}Bye.", "Thanks, [name]! Bye."),
        ("{{ total | round(2) }} euros on {{ stay.day }}", "[total] euros on [stay.day]"),
        ("That makes {{ {'small': 8, 'large': 10}[size] }} euros.", "That makes [value] euros."),
    ],
)
def test_a_fixed_reply_is_shown_as_words_with_the_keys_that_it_shows(
    fixed: str, shown: str
) -> None:
    assert fixed_text(fixed) == shown
