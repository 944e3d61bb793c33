"""Prompts: what stands in them, in which order, and how what is foreign is escaped."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import TemplateSyntaxError

from llm_fsm._text import escaped, estimate
from llm_fsm.session.messages import LLMMessage, LLMRequest, ToolCall, ToolSpec
from llm_fsm.tools.formats import to_openai
from llm_fsm.turn.prompt.render import call_sizes, compile_prompts, history_text, key_line, sections
from machines import GREETER, PROMPTS, machine, program, reply, say, start, talk

RICH = {
    "name": "booking",
    "description": "Books a table",
    "persona": "Friendly & brief",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "time": {
                "type": "string",
                "pattern": "^[0-2][0-9]:[0-5][0-9]$",
                "description": "Time as HH:MM",
            },
            "vip": {"type": "boolean", "x-source": "host"},
            "pin": {"type": "string", "x-secret": True},
        }
    },
    "states": {
        "ask": {
            "description": "Asking",
            "purpose": "Ask for the time",
            "instructions": ["One.", "Two."],
            "extraction_instructions": "Round to quarters.",
            "example_dialogue": [{"user": "half seven"}, {"system": "19:30?"}],
            "required_context_keys": ["time", "vip"],
            "transitions": [
                {
                    "target_state": "done",
                    "description": "Time known",
                    "priority": 5,
                    "conditions": [
                        {"description": "has a time", "requires_context_keys": ["time"]}
                    ],
                },
                {"target_state": "done", "conditions": [{"logic": {"==": [{"var": "vip"}, True]}}]},
            ],
        },
        "done": {"purpose": "Confirm", "response_instructions": "Repeat the time.", "reply": None},
    },
}


def test_system_message_is_the_same_in_every_turn_of_every_state() -> None:
    made = program(RICH)
    first = talk(made, "m", reply("ask"))
    second = say(made, first.session, "n", reply("ask", time="19:30"))
    assert first.requests[0].messages[0] == second.requests[0].messages[0]
    names = [section.name for section in sections(first.requests[0].messages[0].content)]
    assert names == ["task", "fsm", "persona", "context_keys", "response", "today"]


def test_types_formats_and_descriptions_of_keys_are_passed_on_and_host_keys_are_not() -> None:
    system = talk(program(RICH), "m", reply("ask")).requests[0].messages[0].content
    assert "\ntime: Time as HH:MM\n" in system
    assert "\nvip" not in system


def test_user_message_ends_with_the_input_and_has_no_empty_section() -> None:
    prompt = talk(program(RICH), "half seven", reply("ask")).prompt
    names = [section.name for section in sections(prompt)]
    assert names == ["current_state", "now", "transitions", "user_input"]
    assert prompt.startswith(
        "<current_state>\n<id>ask</id>\n<description>Asking</description>\n"
        "<purpose>Ask for the time</purpose>\n<state_instructions>\nOne.\nTwo.\nRound to quarters.\n"
    )
    assert '[{"user":"half seven"},{"system":"19:30?"}]' in prompt
    assert "<now>1970-01-01T00:33 (UTC)</now>" in prompt
    assert "<information_to_collect>time</information_to_collect>" in prompt
    assert prompt.endswith('<user_input>\n"half seven"\n</user_input>\n')


def test_what_is_known_is_no_longer_to_be_collected() -> None:
    made = program(RICH)
    first = talk(made, "19:30", reply("ask", time="19:30"))
    prompt = say(made, first.session, "m", reply("ask")).prompt
    assert "<information_to_collect>" not in prompt
    assert '<current_context>\n{"time":"19:30"}\n</current_context>' in prompt


def test_history_is_append_only_between_trims() -> None:
    made = program(GREETER)
    session = start(made, reply("hello", "Hi"), greet=True).session
    histories = []
    for number in range(4):
        played = say(made, session, f"m{number}", reply("hello", f"r{number}"))
        session = played.session
        histories.append(
            played.prompt.split("<conversation_history>\n")[1].split("\n</conversation_history>")[0]
        )
    for before, after in pairwise(histories):
        assert after.startswith(before[:-1])
    assert histories[1] == '[{"system":"Hi"},{"user":"m0"},{"system":"r0"}]'


def test_long_messages_are_cut_in_the_history_and_not_in_the_input() -> None:
    made = program(GREETER, history={"max_message_chars": 10})
    first = talk(made, "x" * 50, reply("hello", "y" * 50))
    assert "x" * 50 in first.prompt
    second = say(made, first.session, "m", reply("hello"))
    assert f'"user":"{"x" * 10}... [truncated]"' in second.prompt
    assert f'"system":"{"y" * 10}... [truncated]"' in second.prompt


@given(st.text())
def test_escaped_json_holds_nothing_that_markup_or_transport_could_trip_over(text: str) -> None:
    shown = escaped({"k": text})
    assert not set("<>&\u2028\u2029") & set(shown)
    shown.encode()
    assert json.loads(shown) == {"k": text}


@pytest.mark.parametrize("reasoning", ["first", "last", "none"])
def test_reasoning_is_asked_for_only_if_the_definition_says_so(reasoning: str) -> None:
    made = program({**GREETER, "model": {"reasoning": reasoning}})
    played = talk(made, "m", reply("hello"))
    asked = reasoning != "none"
    assert ('"reasoning"' in played.requests[0].messages[0].content) is asked
    assert (
        '"reasoning"' in (played.requests[0].schema.text if played.requests[0].schema else "")
    ) is asked


@pytest.mark.parametrize("reasoning", ["first", "last", "none"])
@pytest.mark.parametrize("others", ["first", "last", "none"])
def test_a_state_is_asked_for_the_reasoning_that_its_schema_takes(
    others: str, reasoning: str
) -> None:
    hello = {**GREETER["states"]["hello"], "model": {"reasoning": reasoning}}
    made = program(
        {**GREETER, "model": {"reasoning": others}, "states": {**GREETER["states"], "hello": hello}}
    )
    (request,) = talk(made, "m", reply("hello")).requests
    form = request.messages[0].content.partition("Reply with one JSON object: ")[2].splitlines()[0]
    assert request.schema is not None
    assert re.findall(r'"(\w+)": ', form) == list(request.schema.schema["properties"])


GUEST = {"type": "object", "properties": {"called": {"type": "string"}, "age": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string"}, ""),
        ({"type": ["object", "null"]}, ""),
        ({"items": {"type": "integer"}}, '"k": [items] adds; "-k": [items] removes.'),
        (
            {"type": "array", "items": GUEST},
            '"k": [items] adds, or changes those with the same called; "-k": [items] removes.',
        ),
    ],
)
def test_a_machine_with_a_list_shows_how_it_is_changed_by_its_items(
    schema: dict[str, Any], told: str
) -> None:
    made = program(
        GREETER, context_schema={"properties": {"name": {"type": "string"}, "k": schema}}
    )
    system = talk(made, "m", reply("hello")).requests[0].messages[0].content
    assert told in system
    assert ("A list is changed by item" in system) is bool(told)


def test_words_of_the_author_survive_half_surrogates() -> None:
    made = machine({"a": {"purpose": "x\ud800y", "transitions": [{"target_state": "a"}]}})
    talk(made, "m", reply("a")).prompt.encode()


def test_sections_have_sizes() -> None:
    found = sections("<a>\nabc\n</a>\n<b>x</b>\n")
    assert [(s.name, s.chars, s.tokens) for s in found] == [("a", 12, 3), ("b", 8, 2)]


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 9}, "n (number, exclusiveMinimum 0, maximum 9)"),
        ({"type": "integer", "multipleOf": 5}, "n (integer, multipleOf 5)"),
        (
            {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]},
            'n (object, properties {"zip":{"type":"string"}}, required ["zip"])',
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {
                "kind": {"type": "string", "enum": ["a", "b"]}, "day": {"type": "string", "format": "date"},
                "zip": {"type": "string", "pattern": "^[0-9]$"}, "type": {"type": "object", "properties": {}}}}},
            'n (array, items {"properties":{"kind":{"enum":["a","b"]},"day":{"format":"date"},'
            '"zip":{"type":"string","pattern":"^[0-9]$"},"type":{"properties":{}}}})',
        ),
    ],
)  # fmt: skip
def test_what_a_key_takes_is_told_before_a_value_is_refused(
    schema: dict[str, Any], line: str
) -> None:
    assert key_line("n", schema) == line


def test_the_size_of_a_call_counts_its_tools_and_what_they_answered_so_far() -> None:
    spec = ToolSpec(name="price", description="What a thing costs", parameters={"type": "object"})
    said = (LLMMessage("system", "x" * 40), LLMMessage("user", "y" * 400))
    called = LLMMessage("assistant", "", (ToolCall(id="1", name="price", arguments="{}"),))
    answered = LLMMessage("tool", "z" * 4000, (), tool_call_id="1")
    assert call_sizes(LLMRequest(messages=said)) == {"system": 10, "user": 100}
    first = call_sizes(LLMRequest(messages=said, tools=(spec,), sizes={"system": 7}))
    assert first == {"system": 7, "tools": estimate(escaped(to_openai(spec)))}
    second = call_sizes(LLMRequest(messages=(*said, called, answered), tools=(spec,)))
    assert second.keys() == {"system", "user", "tools", "tool_calls"}
    assert second["tool_calls"] >= 1000


def test_tools_that_differ_in_their_parameters_alone_are_counted_each_as_it_is() -> None:
    """The schema of a tool may come from a server, and be another one after it was started anew."""
    few, many = (
        ToolSpec(
            name="t",
            description="d",
            parameters={"type": "object", "properties": {name: {} for name in names}},
        )
        for names in (("a",), map(str, range(20)))
    )
    counted = [
        call_sizes(LLMRequest(messages=(), tools=(spec,)))["tools"] for spec in (few, many, few)
    ]
    assert counted == [estimate(escaped(to_openai(spec))) for spec in (few, many, few)]
    assert counted[0] < counted[1]


def test_a_prompt_that_not_every_conversation_needs_is_compiled_when_it_is_first_needed() -> None:
    made = compile_prompts(PROMPTS.sources)
    broken = compile_prompts({**PROMPTS.sources, "task": "{% if"})
    for name in ("retry", "task", "judge", "summary"):
        assert name not in vars(made)
        assert getattr(made, name) is getattr(made, name)
    with pytest.raises(TemplateSyntaxError):
        broken.task  # noqa: B018 - looking at it compiles it


def test_a_prompt_shows_who_said_what() -> None:
    assert history_text(()) == ""
    said = '[{"system":"Hi"},{"user":"a \\u003cb\\u003e"},{"system":"c"}]'
    assert history_text(((None, "Hi"), ("a <b>", "c"))) == said
