"""What a prompt of one turn shows, and what it leaves out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm._text import estimate
from llm_fsm.session import events as ev
from llm_fsm.turn.prompt.render import sections
from machines import Played, machine, reply, say, start, talk


def system_of(done: Played) -> str:
    """The system message of the first request."""
    return done.requests[0].messages[0].content


def test_every_prompt_tells_the_minute_in_the_zone_of_the_conversation() -> None:
    states = {"a": {"purpose": "Name?", "transitions": [{"target_state": "b"}]}, "b": {}}
    plain = talk(machine(states), "m", reply("a"))
    assert "<now>1970-01-01T00:33 (UTC)</now>" in plain.prompt
    assert system_of(plain).endswith("<today>Thursday, 1970-01-01</today>\n")
    zoned = talk(machine(states, timezone="Asia/Tokyo"), "m", reply("a"))
    assert "<now>1970-01-01T09:33 (Asia/Tokyo)</now>" in zoned.prompt


def test_the_days_of_a_week_are_listed_where_a_key_is_a_date() -> None:
    states = {"a": {"purpose": "When?", "transitions": [{"target_state": "b"}]}, "b": {}}
    dated = {"context_schema": {"properties": {"day": {"type": "string", "format": "date"}}}}
    days = "Fri 02, Sat 03, Sun 04, Mon 05, Tue 06, Wed 07, Thu 08"
    asked = system_of(talk(machine(states, **dated), "m", reply("a")))
    assert f"<next_days>{days}</next_days>" in asked
    assert "<next_days>" not in system_of(talk(machine(states), "m", reply("a")))


FORM: dict[str, Any] = {
    "name": {
        "purpose": "What is your name?",
        "instructions": "Be kind to the guest.",
        "required_context_keys": ["name"],
        "transitions": [{"target_state": "day"}],
    },
    "day": {"purpose": "Which day?", "transitions": [{"target_state": "sure"}]},
    "sure": {"reply": "Shall I, {{ name }}?", "transitions": [{"target_state": "end"}]},
    "end": {},
}


def test_the_system_message_is_the_same_in_every_state_of_a_conversation() -> None:
    made = machine(FORM)
    begun = start(made, reply("name", "Hello!"), greet=True)
    first = say(made, begun.session, "Ada", reply("day", name="Ada"))
    second = say(made, first.session, "Friday", reply("sure"))
    third = say(made, second.session, "hm", reply("sure"))
    assert len({system_of(done) for done in (begun, first, second, third)}) == 1
    schemas = [done.requests[0].schema for done in (begun, first, second, third)]
    assert len({schema.text for schema in schemas if schema is not None}) == 1


def test_no_text_of_another_state_but_its_question_is_shown() -> None:
    made = machine(FORM)
    first = talk(made, "Ada", reply("day", name="Ada"))
    second = say(made, first.session, "Friday", reply("day"))
    assert "Be kind to the guest." in first.prompt
    assert 'day: Then ask: "Which day?"' in first.prompt
    assert "Shall I" not in system_of(first) + first.prompt
    assert "Be kind" not in system_of(second) + second.prompt
    assert "sure: It says its own text." in second.prompt


def test_patterns_stand_in_the_response_one_line_each() -> None:
    made = machine(FORM, patterns=["correct", "repeat", "restart", "skip"])
    done = talk(made, "m", reply("name"))
    response = system_of(done).partition("<response>")[2].partition("</response>")[0]
    for name in ("correct", "repeat", "restart", "skip"):
        assert response.count(f"\n{name}: ") == 1
    assert "skip: " not in done.prompt


def test_what_only_some_machines_need_is_told_only_there() -> None:
    quoted = {"context_schema": {"properties": {"name": {"type": "string", "x-said": "quote"}}}}
    digits = {"context_schema": {"properties": {"pin": {"type": "string", "x-said": "digits"}}}}
    plain = system_of(talk(machine(FORM), "m", reply("name")))
    assert all(
        mark not in plain for mark in ('"_quotes": {key', "digits", "<patterns>", "tool", "list")
    )
    assert '"_quotes": {key: words}, for name: ' in system_of(
        talk(machine(FORM, **quoted), "m", reply("name"))
    )
    assert "For pin, only digits" in system_of(talk(machine(FORM, **digits), "m", reply("name")))


def many_keys(number: int) -> dict[str, Any]:
    """A machine of as many keys, two of which its first state and the one behind it collect."""
    keys = {f"key{n}": {"type": "string", "description": f"Number {n}"} for n in range(number)}
    states = {
        "a": {
            "purpose": "A?",
            "required_context_keys": ["key1"],
            "transitions": [{"target_state": "b"}],
        },
        "b": {
            "purpose": "B?",
            "required_context_keys": ["key2"],
            "transitions": [{"target_state": "c"}],
        },
        "c": {},
    }
    return {
        "name": "many",
        "initial_state": "a",
        "states": states,
        "context_schema": {"properties": keys},
    }


@pytest.mark.parametrize(("number", "listed"), [(40, True), (41, False), (300, False)])
def test_a_machine_with_many_keys_describes_those_of_the_state_of_the_next_and_the_known(
    number: int, listed: bool
) -> None:
    document = many_keys(number)
    made = machine(document["states"], context_schema=document["context_schema"])
    done = talk(made, "m", reply("a"), context={"key7": "x"})
    told = ["key1: Number 1", "key2: Number 2", "key7: Number 7"]
    assert ("key9: Number 9" in system_of(done)) is listed
    further = done.prompt.partition("<further_context_keys>\n")[2].partition("\n</further")[0]
    assert further.splitlines() == ([] if listed else told)
    assert done.requests[0].schema is not None
    update = json.loads(done.requests[0].schema.text)["properties"]["context_update"]
    names = [name for name in update["properties"] if not name.startswith("_")]
    assert len(names) == (number if listed else 3)
    assert ("key9" in system_of(done)) is (number <= 200)


@pytest.mark.parametrize(("number", "shared"), [(40, True), (41, False)])
def test_a_machine_with_many_states_has_a_schema_for_each(number: int, shared: bool) -> None:
    states = {
        f"s{n}": {"purpose": f"Question {n}?", "transitions": [{"target_state": f"s{n + 1}"}]}
        for n in range(number - 1)
    }
    done = talk(machine({**states, f"s{number - 1}": {}}), "m", reply("s0"))
    assert done.requests[0].schema is not None
    enum = json.loads(done.requests[0].schema.text)["properties"]["target_state"]["enum"]
    assert enum == ([*states, f"s{number - 1}"] if shared else ["s0", "s1"])


@pytest.mark.parametrize("number", [2, 8, 14])
def test_a_prompt_of_yes_no_questions_that_values_decide_stays_short(number: int) -> None:
    """It looks one step ahead, so that it does not double with each question."""
    states: dict[str, Any] = {}
    for n in range(number):
        target = f"q{n + 1}" if n + 1 < number else "end"
        rules = [{"logic": {"==": [{"var": f"k{n}"}, answer]}} for answer in (True, False)]
        states[f"q{n}"] = {
            "purpose": f"Is {n} true?",
            "required_context_keys": [f"k{n}"],
            "transitions": [
                {"target_state": target, "auto": True, "conditions": [rule]} for rule in rules
            ],
        }
    keys = {f"k{n}": {"type": "boolean"} for n in range(number)}
    made = machine({**states, "end": {}}, context_schema={"properties": keys})
    assert len(talk(made, "yes", reply("q0")).prompt) < 1000


def test_a_state_that_narrows_the_context_shows_the_forms_of_known_keys_and_no_value() -> None:
    keys = {f"k{number}": {"maxLength": 9} for number in range(50)}
    states = {
        "a": {"context_scope": {"read": ["k1"]}, "transitions": [{"target_state": "b"}]},
        "b": {},
    }
    made = machine(states, context_schema={"properties": keys})
    prompt = talk(made, "m", reply("a"), context={"k1": "one", "k2": "two"}).prompt
    assert "k1 (maxLength 9)\nk2 (maxLength 9)\n</further_context_keys>" in prompt
    assert '<current_context>\n{"k1":"one"}\n</current_context>' in prompt


def test_an_object_of_which_a_state_collects_parts_is_listed_among_many_keys() -> None:
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    keys = {"place": place, **{f"k{number}": {} for number in range(50)}}
    needs = [{"requires_context_keys": ["place.city"]}]
    states = {"a": {"transitions": [{"target_state": "b", "conditions": needs}]}, "b": {}}
    asked = talk(machine(states, context_schema={"properties": keys}), "m", reply("a"))
    assert "<further_context_keys>\nplace (object" in asked.prompt


def test_a_key_of_the_schema_can_be_written_under_extra() -> None:
    made = machine(
        {"a": {"purpose": "x", "transitions": [{"target_state": "a"}]}},
        context_schema={"properties": {"age": {"type": "integer"}, "name": {"type": "string"}}},
    )
    pairs = [{"key": "age", "value": "7"}, {"key": "hat", "value": "8"}]
    done = talk(made, "m", reply("a", _extra=pairs))
    assert done.session.context == {"age": 7, "_extra": {"hat": "8"}}


def test_the_record_holds_what_a_prompt_takes_section_by_section_and_a_second_try_too() -> None:
    states = {
        "a": {
            "purpose": "Which size?",
            "required_context_keys": ["size", "colour"],
            "example_dialogue": [{"user": "Big"}, {"system": "And which colour?"}],
            "transitions": [{"target_state": "b", "description": "Both are known"}],
        },
        "b": {"purpose": "Bye"},
    }
    made = machine(states)
    done = talk(made, "Größe: groß, кто там, 日本", "no JSON", reply("a", "", size="big"))
    first, second = done.of(ev.ModelReplied)
    found = {
        section.name: section.tokens for section in sections(done.requests[0].messages[1].content)
    }
    told = {
        name: tokens for name, tokens in first.prompt.items() if name not in ("system", "schema")
    }
    assert told == pytest.approx(found, abs=7)
    assert second.prompt.keys() - first.prompt.keys() == {"second_try"}
    whole = sum(estimate(message.content) for message in done.requests[1].messages)
    assert sum(second.prompt.values()) - second.prompt["schema"] == pytest.approx(whole, abs=15)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string"}, False),
        ({"type": "object"}, False),
        ({"type": "object", "properties": {"city": {"type": "string"}}}, True),
    ],
)
def test_it_is_said_how_a_part_of_an_object_is_taken_back(
    schema: dict[str, Any], told: bool
) -> None:
    states = {"a": {"transitions": [{"target_state": "b"}]}, "b": {}}
    made = machine(states, context_schema={"properties": {"home": schema}})
    assert ('also a part such as "home.city"' in system_of(talk(made, "m", reply("a")))) is told
