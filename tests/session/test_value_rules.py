"""`x-valid`: what must hold for a value, whoever writes it, in every state."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.definition.models import Definition
from llm_fsm.errors import DefinitionError
from llm_fsm.session import events as ev
from llm_fsm.session.context import accept_host, accept_reply, compile_keys, initial_context
from machines import machine, nested, reply, say, start, talk

EVEN = {"logic": {"==": [{"%": [{"var": "n"}, 2]}, 0]}, "description": "The number is even"}
ORDER = {
    "logic": {">": [{"var": "end"}, {"var": "begin"}]},
    "description": "The end is after the beginning",
}
KEYS: dict[str, Any] = {
    "n": {"type": "integer", "x-valid": [EVEN]},
    "begin": {"type": "integer"},
    "end": {"type": "integer", "x-valid": [ORDER]},
    "seats": {"type": "integer", "x-source": "host", "x-valid": [
        {"logic": {"<=": [{"var": "people"}, {"var": "seats"}]}, "description": "There are seats for all"}]},
    "people": {"type": "integer"},
}  # fmt: skip
SCHEMA = {"properties": KEYS}


def keys_of(schema: Any = SCHEMA) -> Any:
    states: Any = {"a": {"purpose": "Ask"}}
    return compile_keys(
        Definition(name="m", initial_state="a", states=states, context_schema=schema), ()
    )


def briefly(events: tuple[ev.Event, ...]) -> list[Any]:
    found: list[Any] = []
    for event in events:
        if isinstance(event, ev.ContextSet):
            found.append((dict(event.values), event.removed))
        elif isinstance(event, ev.ContextRefused):
            found.append((event.key, event.reason))
    return found


@pytest.mark.parametrize(
    ("context", "update", "found"),
    [
        ({}, {"n": 4}, [({"n": 4}, ())]),
        ({}, {"n": 3}, [("n", "The number is even")]),
        ({"n": 2}, {"n": 3, "begin": 1}, [({"begin": 1}, ()), ("n", "The number is even")]),
        ({}, {"end": 3}, [({"end": 3}, ())]),  # the beginning can still be told
        (
            {},
            {"end": 3, "begin": 5},
            [({"begin": 5}, ()), ("end", "The end is after the beginning")],
        ),
        (
            {"end": 3},
            {"begin": 5},
            [({"begin": 5}, ("end",)), ("end", "The end is after the beginning")],
        ),
        ({"end": 3, "begin": 1}, {"begin": 4, "end": 6}, [({"begin": 4, "end": 6}, ())]),
        (
            {"seats": 4},
            {"people": 5, "n": 2},
            [({"n": 2}, ()), ("people", "There are seats for all")],
        ),
    ],
)
def test_a_value_that_breaks_a_rule_is_refused_and_one_that_another_change_breaks_is_cleared(
    context: Any, update: Any, found: Any
) -> None:
    assert briefly(accept_reply(keys_of(), context, update)) == found
    if "seats" not in context:
        assert briefly(accept_host(keys_of(), context, update)) == found


def test_a_rule_about_the_present_reads_the_time_of_the_turn() -> None:
    rule = {
        "logic": {">": [{"date": [{"var": "day"}]}, {"now": []}]},
        "description": "The day is to come",
    }
    keys = keys_of({"properties": {"day": {"type": "string", "x-valid": [rule]}}})
    late, early = {"_timestamp": 4e9}, {"_timestamp": 1e9}
    assert briefly(accept_reply(keys, {}, {"day": "2030-01-01"}, names=early)) == [
        ({"day": "2030-01-01"}, ())
    ]
    assert briefly(accept_reply(keys, {}, {"day": "2030-01-01"}, names=late)) == [
        ("day", "The day is to come")
    ]
    with pytest.raises(ValueError, match=r"day.*The day is to come"):
        initial_context(keys, {"day": "2030-01-01"}, names=late)


STATES: dict[str, Any] = {
    "ask": {"purpose": "Which number?", "required_context_keys": ["n"],
            "transitions": [{"target_state": "sure", "conditions": [{"requires_context_keys": ["n"]}]}]},
    "sure": {"reply": "{{ n }}, is that right?", "transitions": [
        {"target_state": "end", "conditions": [{"requires_context_keys": ["n"]}]}]},
    "end": {"reply": "Done with {{ n }}."},
}  # fmt: skip


@pytest.mark.parametrize("patterns", [[], ["correct"]])
@pytest.mark.parametrize("pick", ["sure", "end"])
def test_a_correction_at_the_last_state_cannot_get_around_a_rule(
    patterns: list[str], pick: str
) -> None:
    made = machine(STATES, context_schema=SCHEMA, patterns=patterns)
    session = talk(made, "four", reply("sure", n=4)).session
    done = say(made, session, "no, three", reply(pick, "Now it is three.", n=3))
    assert (done.session.state, done.session.context) == ("sure", {"n": 4})
    assert "The number is even" in done.text
    assert "Now it is three." not in done.text


def test_the_user_reads_the_description_in_place_of_a_message_that_says_otherwise() -> None:
    made = machine(STATES, context_schema=SCHEMA)
    otherwise = talk(made, "three", reply("ask", "Three, great!", n=3))
    assert otherwise.text == "That does not fit (n): The number is even.\n\nWhich number?"
    told = talk(
        made, "three", reply("ask", "Three!", n=3), reply("ask", "It must be even: which one?")
    )
    assert told.text == "It must be even: which one?"


def test_the_model_reads_the_description_in_its_next_request() -> None:
    made = machine(STATES, context_schema=SCHEMA)
    done = talk(
        made, "three", reply("sure", "Fine", n=3), reply("ask", "Which even number, please?")
    )
    assert (done.session.state, done.text, done.usage.calls) == (
        "ask",
        "Which even number, please?",
        2,
    )
    assert "The number is even" in str(done.requests[-1].messages[-1])


def test_a_picked_choice_is_held_to_the_rules_too() -> None:
    states = {"ask": {**STATES["ask"], "choices": [{"label": "three", "value": 3}]}, **{
        name: STATES[name] for name in ("sure", "end")}}  # fmt: skip
    made = machine(states, context_schema=SCHEMA)
    begun = start(made).session
    done = say(made, begun, "three", reply("ask", "Fine.", n=3))
    assert "n" not in done.session.context
    assert "The number is even" in done.text


def test_what_a_state_sets_is_held_to_the_rules_too() -> None:
    states = {"ask": STATES["ask"], "sure": {**STATES["sure"], "set": {"n": {"+": [{"var": "n"}, 1]}}},
              "end": STATES["end"]}  # fmt: skip
    done = talk(machine(states, context_schema=SCHEMA), "four", reply("sure", n=4))
    assert done.session.context == {"n": 4}
    assert [(event.source, event.reason) for event in done.of(ev.ContextRefused)] == [
        ("definition", "The number is even")
    ]


def test_a_flow_begins_without_inputs_that_break_its_rules() -> None:
    inner = {"name": "inner", "initial_state": "ask", "context_schema": SCHEMA, "states": STATES}
    outer = {
        "name": "outer",
        "initial_state": "many",
        "context_schema": {"properties": {"m": {"type": "integer"}}},
        "states": {
            "many": {"purpose": "How many?", "transitions": [{"target_state": "call"}]},
            "call": {
                "kind": "subflow",
                "flow": "inner",
                "input": {"n": "m"},
                "transitions": [{"target_state": "end"}],
            },
            "end": {},
        },
    }
    done = talk(nested(outer, inner=inner), "three", reply("call", "Fine.", m=3))
    assert (done.session.flow, done.session.state, done.session.context) == ("inner", "ask", {})


@pytest.mark.parametrize(
    "rules", ["even", [{"description": "no logic"}], [{"logic": {"===>": [1, 2]}}], [3]]
)
def test_a_machine_with_a_rule_that_cannot_be_tried_does_not_start(rules: Any) -> None:
    with pytest.raises(DefinitionError, match=r"expected a list of|===>"):
        machine(STATES, context_schema={"properties": {"n": {"x-valid": rules}}})
