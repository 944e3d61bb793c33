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

from llm_fsm._text import each_escaped, escaped, estimate
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
    assert names == ["task", "fsm", "persona", "context_keys", "states", "response", "today"]


def test_types_formats_and_descriptions_of_keys_are_passed_on_and_host_keys_are_not() -> None:
    system = talk(program(RICH), "m", reply("ask")).requests[0].messages[0].content
    assert "\ntime (pattern ^[0-2][0-9]:[0-5][0-9]$): Time as HH:MM\n" in system
    assert "\nvip" not in system


def test_user_message_ends_with_the_input_and_has_no_empty_section() -> None:
    prompt = talk(program(RICH), "half seven", reply("ask")).prompt
    names = [section.name for section in sections(prompt)]
    assert names == ["current_state", "now", "transitions", "user_input"]
    assert prompt.startswith("<current_state>\n<id>ask</id>\n")
    assert '[{"user":"half seven"},{"system":"19:30?"}]' in prompt
    assert "<now>1970-01-01T00:33 (UTC)</now>" in prompt
    assert "<information_to_collect>time</information_to_collect>" in prompt
    assert prompt.endswith('<user_input>\n"half seven"\n</user_input>\n')


def test_transitions_show_their_conditions_and_what_is_closed() -> None:
    prompt = talk(program(RICH), "m", reply("ask")).prompt
    items = json.loads(prompt.split("<transitions>\n")[1].split("\n</transitions>")[0])
    assert items == [
        {"to": "done", "desc": "Time known", "conditions": [{"keys": ["time"]}]},
        {"to": "done", "open": False},
        {"to": "ask", "desc": "stay: the user asks or changes something, or something is missing"},
    ]


def states_shown(states: dict[str, Any], **options: Any) -> str:
    """What <states> says in the first state."""
    system: str = (
        talk(machine(states, **options), "m", reply(next(iter(states))))
        .requests[0]
        .messages[0]
        .content
    )
    return system.partition("<states>\n")[2].partition("\n</states>")[0]


def test_all_states_of_a_small_machine_stand_in_the_system_message() -> None:
    assert states_shown(RICH["states"]) == (
        "ask: Asking. Ask for the time.\n  collect: time, vip\n  notes: One.\n  Two.\n  Round to quarters.\n"
        "done (final): Confirm.\n  notes: Repeat the time."
    )


def test_the_answer_of_a_digression_is_not_shown_as_an_end() -> None:
    back = {"target_state": "hours", "description": "Asks for the hours", "return": True}
    states = {
        "a": {"purpose": "Ask", "transitions": [{"target_state": "end"}, back]},
        "hours": {},
        "end": {},
    }
    assert states_shown(states) == "a: Ask.\nhours (then back to what was asked)\nend (final)"
    either = {**back, "return": False, "priority": 50}
    states["a"] = {"purpose": "Ask", "transitions": [{"target_state": "end"}, back, either]}
    assert states_shown(states) == "a: Ask.\nhours (final)\nend (final)"


def test_conditions_are_shown_in_words_where_there_are_any() -> None:
    rule = {"description": "Over ten", "logic": {">": [{"var": "n"}, 10]}}
    conditions = [rule, {"description": "The user sounds sure"}, {"requires_context_keys": ["n"]}]
    states = {"a": {"transitions": [{"target_state": "b", "conditions": conditions}]}, "b": {}}
    done = talk(machine(states), "m", reply("a"))
    item, _ = json.loads(done.prompt.split("<transitions>\n")[1].split("\n</transitions>")[0])
    assert item["conditions"] == [
        {"desc": "Over ten"},
        {"desc": "The user sounds sure"},
        {"keys": ["n"]},
    ]


@pytest.mark.parametrize(("words", "told"), [({}, False), ({"reply": "See you."}, True)])
def test_a_model_is_told_not_to_say_what_fixed_replies_add(
    words: dict[str, Any], told: bool
) -> None:
    states = {"a": {"transitions": [{"target_state": "b"}]}, "b": words}
    system = talk(machine(states), "m", reply("a")).requests[0].messages[0].content
    assert ('A state that "says" a text adds it after your message' in system) is told


_ASIDE = {"target_state": "c", "return": True}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, False),
        ({"b": {"kind": "decide", "transitions": [{"target_state": "c"}]}}, True),
        ({"b": {"transitions": [{"target_state": "c", "auto": True}]}}, True),
        ({"a": {"transitions": [{"target_state": "b"}, _ASIDE]}}, False),
        ({"a": {"reply": "A?", "transitions": [{"target_state": "b"}, _ASIDE]}}, True),
    ],
    ids=[
        "nothing",
        "a deciding state",
        "an automatic move",
        "a digression",
        "a digression from fixed words",
    ],
)
def test_a_model_is_told_where_to_look_for_what_lies_behind(
    more: dict[str, Any], told: bool
) -> None:
    states = {
        "a": {"transitions": [{"target_state": "b"}]},
        "b": {"purpose": "B"},
        "c": {"purpose": "C"},
        **more,
    }
    done = talk(machine(states), "m", reply("a"))
    assert ('(and "there" in its entry)' in done.requests[0].messages[0].content) is told
    assert ('"there"' in done.prompt) is told


def test_a_list_within_a_list_of_instructions_is_shown_as_one() -> None:
    """What is said without a condition would seem to depend on one."""
    rules = ["- If it rains:", "  - Offer a lift.", "    Say when.", "", "- Be brief."]
    spaced = "Say hello.\n        If it rains:\n          - Offer a lift.\n        Be brief."
    onward = {"transitions": [{"target_state": "b"}]}
    states = {"a": {"instructions": ["Rules:", *rules], **onward}, "b": {"instructions": spaced}}
    listed = (
        "a:\n  notes: Rules:\n  - If it rains:\n    - Offer a lift.\n      Say when.\n  - Be brief."
    )
    other = "b (final):\n  notes: Say hello.\n  If it rains:\n    - Offer a lift.\n  Be brief."
    assert states_shown(states) == f"{listed}\n{other}"


def test_a_list_of_instructions_begins_on_a_line_of_its_own() -> None:
    rules = ["- If it rains:", "  - Offer a lift.", "- Be brief."]
    asked = {"purpose": "Ask", "instructions": rules, "transitions": [{"target_state": "b"}]}
    shown = states_shown(
        {"a": asked, "b": {"purpose": "Thank", "instructions": ["Smile.", "- Be kind."]}}
    )
    assert shown == (
        "a: Ask.\n  notes: - If it rains:\n    - Offer a lift.\n  - Be brief.\n"
        "b (final): Thank.\n  notes: Smile.\n  - Be kind."
    )


def test_a_heading_of_instructions_stands_on_a_line_of_its_own() -> None:
    asked = {
        "purpose": "Ask",
        "instructions": "## Rules\n\nBe brief.",
        "transitions": [{"target_state": "b"}],
    }
    assert (
        states_shown({"a": asked, "b": {}}) == "a: Ask.\n  notes: ## Rules\n  Be brief.\nb (final)"
    )


def test_every_state_that_collects_says_so_in_the_same_way() -> None:
    asked = {
        "purpose": "Where to?",
        "required_context_keys": ["to_city"],
        "transitions": [{"target_state": "b"}],
    }
    described = {"a": {**asked, "description": "Collects the to city"}, "b": {}}
    assert (
        states_shown(described)
        == "a: Collects the to city. Where to?\n  collect: to_city\nb (final)"
    )
    assert states_shown({"a": asked, "b": {}}) == "a: Where to?\n  collect: to_city\nb (final)"


def test_a_line_has_the_full_stops_of_its_script() -> None:
    asked = {
        "purpose": "お名前を聞く",
        "required_context_keys": ["name"],
        "transitions": [{"target_state": "b"}],
    }
    shown = states_shown({"a": asked, "b": {"purpose": "ลาก่อน"}})
    assert shown == "a: お名前を聞く。\n  collect: name\nb (final): ลาก่อน"


def test_no_full_stop_follows_a_sentence_that_is_quoted() -> None:
    asked = {"instructions": 'Ask: "Shall I?"', "transitions": [{"target_state": "b"}]}
    shown = states_shown({"a": asked, "b": {"purpose": "「さようなら。」"}})
    assert shown == 'a:\n  notes: Ask: "Shall I?"\nb (final): 「さようなら。」'


def test_instructions_that_states_share_are_said_once() -> None:
    kind = {"instructions": "Be kind.", "transitions": [{"target_state": "c"}]}
    states = {"a": {"purpose": "Ask A", **kind}, "b": {"purpose": "Ask B", **kind}, "c": {}}
    assert states_shown(states) == "a: Ask A.\nb: Ask B.\nc (final)\na, b: Be kind."


_OFFICE = "If the user asks about parking or prices, say that the office will answer by mail."


_HINDI = "यदि ग्राहक शुल्क के बारे में पूछे, तो कहें कि कार्यालय डाक से उत्तर देगा।"
_TIMES = "予約について聞かれたら、" * 6 + "答える。"


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (f"Be kind. {_OFFICE}", f"Be brief. {_OFFICE}", f"\na, b: {_OFFICE}"),
        (["Be kind.", _OFFICE], f"Be brief. {_OFFICE}", f"\na, b: {_OFFICE}"),
        (f"Be kind. {_OFFICE} Then go on.", f"Be brief. {_OFFICE} Then go on.", f"\na, b: {_OFFICE} Then go on."),
        (_OFFICE, f"Be brief. {_OFFICE}", f"\na, b: {_OFFICE}"),
        (f"親切に。{_TIMES}", f"短く。{_TIMES}", f"\na, b: {_TIMES}"),
        (f"विनम्र रहें। {_HINDI}", f"संक्षेप में कहें। {_HINDI}", f"\na, b: {_HINDI}"),
        (f"Say 10.\n\n**Style**\n\n{_OFFICE}", f"## Who\n\nBob\n\n**Style**\n\n{_OFFICE}",
         f"\na, b: **Style**\n  {_OFFICE}"),
        (["Say 10-15", "", _OFFICE], f"- Be brief\n\n{_OFFICE}", f"\na, b: {_OFFICE}"),
        (f'Ask "How many?"\n{_OFFICE}', f"Be brief. {_OFFICE}", f"\na, b: {_OFFICE}"),
    ],
)  # fmt: skip
def test_what_instructions_of_several_states_end_with_is_said_once(
    first: Any, second: Any, shared: str
) -> None:
    onward = {"transitions": [{"target_state": "c"}]}
    states = {
        "a": {"instructions": first, **onward},
        "b": {"instructions": second, **onward},
        "c": {},
    }
    shown = states_shown(states)
    assert shown.endswith(f"c (final){shared}")
    assert shown.count(shared.partition(": ")[2]) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Be kind. Go on.", "Be brief. Go on."),
        ("Say e.g. " + _OFFICE.lower(), "Ask e.g. " + _OFFICE.lower()),
        (
            ["Colours:", f"- red. {_OFFICE[:40]}", _OFFICE[:50]],
            ["Cars:", f"- red. {_OFFICE[:40]}", _OFFICE[:50]],
        ),
        (["Never say:", _OFFICE], ["Always say:", _OFFICE]),
        (["## Never say", "", _OFFICE], ["**Always say**", "", _OFFICE]),
        (f"Be kind. {_OFFICE}", f"Be brief. {_OFFICE} Then go on."),
        (f"Speak of Dr. {_OFFICE}", f"Hand over to Dr. {_OFFICE}"),
        (f"Name bzw. {_OFFICE}", f"Nummer bzw. {_OFFICE}"),
        (["Rules:", f"1. {_OFFICE}"], ["Steps:", f"1. {_OFFICE}"]),
        (["Rules:", f"1. Be kind. {_OFFICE}"], ["Steps:", f"1. Be brief. {_OFFICE}"]),
        (["- Be kind.", f"  {_OFFICE}"], ["- Be brief.", f"  {_OFFICE}"]),
        (["Say it in", f"English, {_OFFICE}"], ["Never say it in", f"English, {_OFFICE}"]),
        (f'Say "Welcome. {_OFFICE}"', f'Never say "Sorry. {_OFFICE}"'),
        (f"Frage: „Hallo. {_OFFICE}“", f"Sage nie: „Danke. {_OFFICE}“"),
        (f"「親切に。{_TIMES}」と言う。", f"「短く。{_TIMES}」と言う。"),
        (
            ["Write:", "```", "One.", _OFFICE, "```"],
            ["Never write:", "```", "Two.", _OFFICE, "```"],
        ),
    ],
    ids=[
        "too short",
        "within a sentence",
        "a line of a list",
        "announced",
        "below a heading",
        "not at the end",
        "after a title",
        "after an abbreviation",
        "after a number",
        "within a numbered line",
        "an indented line",
        "a wrapped line",
        "within quotes",
        "within German quotes",
        "within Japanese quotes",
        "within a block",
    ],
)
def test_what_could_mean_something_else_on_its_own_stays_with_each_state(
    first: Any, second: Any
) -> None:
    onward = {"transitions": [{"target_state": "c"}]}
    states = {
        "a": {"instructions": first, **onward},
        "b": {"instructions": second, **onward},
        "c": {},
    }
    assert "a, b: " not in states_shown(states)


@pytest.mark.parametrize(
    ("times", "shared"), [(1, f"\na, b, c: {_OFFICE}"), (2, "\na, b: Never promise")]
)
def test_of_several_ends_the_one_that_saves_most_is_said_once(times: int, shared: str) -> None:
    more = "Never promise a day that nobody has confirmed. " * times + _OFFICE
    ends = {"a": f"Be kind. {more}", "b": f"Be brief. {more}", "c": f"Be calm. {_OFFICE}"}
    onward = {"transitions": [{"target_state": "d"}]}
    assert shared in states_shown(
        {**{name: {"instructions": text, **onward} for name, text in ends.items()}, "d": {}}
    )


LONG = "word " * 40


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (
            {"purpose": "Go on.", "reply": "Well, go on."},
            ["x (final):", '  says: "Well, go on."'],
        ),
        ({"purpose": "Help", "reply": "One."}, ["x (final): Help.", '  says: "One."']),
        (
            {"purpose": "All right?", "reply": f"{LONG} All right?"},
            ["x (final):", f'  says: "[…] {LONG[:145]}All right?"'],
        ),
        (
            {"reply": "{{ guest.name }}, {% if n > 1 %}{{ n }} guests{% endif %}: right?"},
            ["x (final):", '  says: "[guest.name], [n] guests: right?"'],
        ),
        (
            {"reply": "News: {{ 'yes' if news else 'no' }}. Right?"},
            ["x (final):", '  says: "News: [value]. Right?"'],
        ),
        ({"reply": "注 文" + "。" * 200}, ["x (final):", f'  says: "[…] {"。" * 160}"']),
        ({"kind": "task", "purpose": "Work", "instructions": "For the work alone"},
         ["x: Work.", "  the program works there, and then speaks by itself"]),
        ({"kind": "decide", "transitions": [{"target_state": "a"}]}, []),
    ],
)  # fmt: skip
def test_a_line_says_what_a_state_does_in_a_conversation(
    state: dict[str, Any], said: list[str]
) -> None:
    lines = states_shown(
        {"a": {"purpose": "Ask", "transitions": [{"target_state": "x"}]}, "x": state}
    ).splitlines()
    assert lines == ["a: Ask.", *said]


def state_shown(target: dict[str, Any], *more: dict[str, Any]) -> list[dict[str, Any]]:
    """What the prompt shows of the transitions to `target` and of further ones, from far away in a
    large machine.
    """
    transitions = [{"target_state": "to", "description": "First"}, *more]
    between = {
        f"s{number}": {"purpose": "Wait", "transitions": [{"target_state": "to"}]}
        for number in range(30)
    }
    states = {"here": {"purpose": "Ask", "transitions": transitions}, **between, "to": target}
    done = talk(machine(states), "m", reply("here"))
    items: list[dict[str, Any]] = json.loads(
        done.prompt.split("<transitions>\n")[1].split("\n</transitions>")[0]
    )
    return items[:-1]  # the last one is for staying


LEAVES = {"transitions": [{"target_state": "here"}]}


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ({"purpose": "Learn the size", "required_context_keys": ["size"]}, "Learn the size."),
        (
            {
                "purpose": "When?",
                "required_context_keys": ["date", "time"],
                "instructions": "Be brief",
            },
            "When? (collect: date, time; notes: Be brief.)",
        ),
        (
            {"purpose": "Ask the date", "required_context_keys": ["date", "time"]},
            "Ask the date. (collect: date, time)",
        ),
        (
            {"purpose": "Your phone number?", "required_context_keys": ["phone_number"]},
            "Your phone number?",
        ),
        ({"purpose": "Go on.", "reply": "Well, go on."}, {"says": "Well, go on."}),
        ({"purpose": "Help", "reply": "One."}, {"purpose": "Help", "says": "One."}),
        (
            {"purpose": "All right?", "reply": f"{LONG} All right?"},
            {"says": f"[…] {LONG[:145]}All right?"},
        ),
        ({"kind": "task", "purpose": "Work"}, {"purpose": "Work", "says": True}),
        ({"description": "First", "reply": "One."}, {"says": "One."}),
    ],
)
def test_what_lies_behind_a_transition_is_said_once_and_in_words(
    target: dict[str, Any], there: Any
) -> None:
    [item] = state_shown({**target, **LEAVES})
    assert item["there"] == there


def test_an_end_of_instructions_that_the_state_left_has_too_is_not_said_behind_a_transition() -> (
    None
):
    transitions = [{"target_state": "to"}, {"target_state": "other"}]
    between = {
        f"s{number}": {"purpose": LONG, "transitions": [{"target_state": "to"}]}
        for number in range(30)
    }
    states = {
        "here": {
            "purpose": "Ask",
            "instructions": f"Be kind. {_OFFICE}",
            "transitions": transitions,
        },
        **between,
        "to": {"purpose": "How many?", "instructions": ["Say 10-15", "", _OFFICE], **LEAVES},
        "other": {"purpose": "Which?", "instructions": f"{_OFFICE} Be brief.", **LEAVES},
    }
    done = talk(machine(states), "m", reply("here"))
    shown = json.loads(done.prompt.split("<transitions>\n")[1].split("\n</transitions>")[0])
    there = ["How many? (notes: Say 10-15.)", f"Which? (notes: {_OFFICE} Be brief.)"]
    assert [item["there"] for item in shown[:-1]] == there


def test_what_lies_behind_two_transitions_is_shown_with_the_first() -> None:
    again = {"target_state": "to", "description": "Second"}
    assert state_shown({"purpose": "Serve.", **LEAVES}, again) == [
        {"to": "to", "desc": "First", "there": "Serve."},
        {"to": "to", "desc": "Second"},
    ]


def test_what_is_known_is_no_longer_to_be_collected() -> None:
    made = program(RICH)
    first = talk(made, "m", reply("ask", time="19:30"))
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
    assert histories[1] == '[{"you":"Hi"},{"user":"m0"},{"you":"r0"}]'


def test_long_messages_are_cut_in_the_history_and_not_in_the_input() -> None:
    made = program(GREETER, history={"max_message_chars": 10})
    first = talk(made, "x" * 50, reply("hello", "y" * 50))
    assert "x" * 50 in first.prompt
    second = say(made, first.session, "m", reply("hello"))
    assert f'"user":"{"x" * 10}... [truncated]"' in second.prompt
    assert f'"you":"{"y" * 10}... [truncated]"' in second.prompt


@given(st.text())
def test_escaped_json_holds_nothing_that_markup_or_transport_could_trip_over(text: str) -> None:
    shown = escaped({"k": text})
    assert not set("<>&\u2028\u2029") & set(shown)
    shown.encode()
    assert json.loads(shown) == {"k": text}


@given(
    st.lists(
        st.text() | st.text("<&\n\u2028\ud800a") | st.lists(st.text("a\n<")) | st.none(), min_size=1
    )
)
def test_values_escaped_together_are_each_as_it_is_escaped_alone(values: list[Any]) -> None:
    assert each_escaped(values) == [escaped(value) for value in values]


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
    form = (
        request.messages[0]
        .content.partition("Reply with one JSON object only: ")[2]
        .splitlines()[0]
    )
    assert request.schema is not None
    assert re.findall(r'"(\w+)": ', form) == list(request.schema.schema["properties"])


GUEST = {"type": "object", "properties": {"called": {"type": "string"}, "age": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "string"}, ""),
        ({"type": ["object", "null"]}, ""),
        (
            {"items": {"type": "integer"}},
            '"+k": [items] adds items, and "-k" removes those that are named.',
        ),
        (
            {"type": "array", "items": GUEST},
            '"+k": [items] adds items or replaces those with the same called, and "-k" removes those that are named by '
            "their called.",
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
    assert ("Change a list by its items" in system) is bool(told)


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
    said = '[{"you":"Hi"},{"user":"a \\u003cb\\u003e"},{"you":"c"}]'
    assert history_text(((None, "Hi"), ("a <b>", "c"))) == said
