"""What of a machine stands in the prompt and the schema of one state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_fsm._text import estimate
from llm_fsm.session import events as ev
from llm_fsm.turn.prompt.render import sections
from machines import Played, machine, reply, say, talk


def chain(states: int, *, declared: bool = True) -> Any:
    """A machine of so many states; each but the last asks for a key of its own."""
    asking = {
        f"step_{number}": {
            "purpose": f"Ask question {number}",
            "required_context_keys": [f"answer_{number}"],
            "transitions": [
                {
                    "target_state": f"step_{number + 1}",
                    "description": "Answered",
                    "conditions": [{"requires_context_keys": [f"answer_{number}"]}],
                }
            ],
        }
        for number in range(states - 1)
    }
    keys = {
        f"answer_{number}": {"type": "string", "maxLength": 50 - number % 2}
        for number in range(states - 1)
    }
    schema = {"context_schema": {"properties": keys}} if declared else {}
    return machine({**asking, f"step_{states - 1}": {"purpose": "Thank"}}, **schema)


def walked(states: int, turns: int, **options: Any) -> list[Played]:
    made = chain(states, **options)
    played = [talk(made, "an answer", reply("step_1", answer_0="an answer"))]
    for number in range(1, turns):
        update = {f"answer_{number}": "an answer"}
        played.append(
            say(made, played[-1].session, "an answer", reply(f"step_{number + 1}", **update))
        )
    return played


def schemas(played: list[Played]) -> list[str]:
    return [request.schema.text for turn in played for request in turn.requests if request.schema]


def targets(schema: str) -> list[str]:
    found: list[str] = json.loads(schema)["properties"]["target_state"]["enum"]
    return found


def names(text: str) -> list[str]:
    return [section.name for section in sections(text)]


def test_what_many_states_are_told_alike_makes_a_small_machine_no_larger() -> None:
    office = (
        "If the user asks about parking, prices or other days, say that the office will answer by mail. "
        * 4
    )
    onward = {f"s{number}": {"purpose": f"Ask {number}", "instructions": f"Note {number} down. {office}",
                             "transitions": [{"target_state": f"s{number + 1}"}]} for number in range(20)}  # fmt: skip
    done = talk(machine({**onward, "s20": {"purpose": "Thank"}}), "m", reply("s1"))
    system = done.requests[0].messages[0].content
    assert system.count(office.strip()) == 1
    assert "\ns19: Ask 19.\n  notes: Note 19 down.\n" in system


def test_a_small_machine_has_one_schema_and_one_system_message() -> None:
    played = walked(8, 5)
    assert len(set(schemas(played))) == 1
    assert targets(schemas(played)[0]) == [f"step_{number}" for number in range(8)]
    assert len({turn.requests[0].messages[0].content for turn in played}) == 1
    assert "context_keys" in names(played[0].requests[0].messages[0].content)
    assert "context_keys" not in names(played[0].prompt)


def lines(text: str, section: str) -> list[str]:
    return text.partition(f"<{section}>\n")[2].partition(f"\n</{section}>")[0].splitlines()


def test_a_large_machine_has_one_system_message_and_one_schema_for_each_region() -> None:
    played = walked(72, 16)
    systems = [turn.requests[0].messages[0].content for turn in played]
    assert [systems.index(system) for system in systems] == [0] * 12 + [12] * 4
    assert [schemas(played).index(schema) for schema in schemas(played)] == [0] * 12 + [12] * 4
    first, second = systems[0], systems[12]
    assert [line.partition(" ")[0] for line in lines(first, "context_keys")] == [
        f"answer_{n}" for n in range(13)
    ]
    begins = [line.partition(":")[0] for line in lines(second, "states") if line[0] != " "]
    assert begins == [f"step_{n}" for n in range(12, 24)]
    assert targets(schemas(played)[12]) == [f"step_{number}" for number in range(12, 25)]


def test_what_is_known_elsewhere_stands_once_before_the_history_of_a_large_machine() -> None:
    played = walked(72, 16)
    assert "further_context_keys" not in names(played[0].prompt)
    further = [
        f'answer_{number} = "an answer" (maxLength {50 - number % 2})' for number in range(12)
    ]
    assert lines(played[13].prompt, "further_context_keys") == further
    assert names(played[13].prompt)[:2] == ["further_context_keys", "conversation_history"]
    assert lines(played[13].prompt, "current_context") == ['{"answer_12":"an answer"}']
    beginnings = [turn.prompt.partition("<conversation_history>")[0] for turn in played]
    assert len(set(beginnings[12:])) == 1


def test_a_correction_of_what_is_known_elsewhere_changes_its_line() -> None:
    made, before = chain(72), walked(72, 13)[-1].session
    after = say(made, before, "m", reply("step_13", answer_3="another <b>")).session
    shown = lines(say(made, after, "m", reply("step_13")).prompt, "further_context_keys")
    assert shown[3] == r'answer_3 = "another \u003cb\u003e" (maxLength 49)'
    assert len(shown) == 12


def test_a_state_that_narrows_the_context_shows_no_value_beside_it() -> None:
    keys = {f"k{number}": {"maxLength": 9} for number in range(30)}
    states = {
        "a": {"context_scope": {"read": ["k1"]}, "transitions": [{"target_state": "b"}]},
        "b": {},
    }
    made = machine(states, context_schema={"properties": keys})
    prompt = talk(made, "m", reply("a"), context={"k1": "one", "k2": "two"}).prompt
    assert lines(prompt, "further_context_keys") == ["k1 (maxLength 9)", "k2 (maxLength 9)"]
    assert lines(prompt, "current_context") == ['{"k1":"one"}']


def test_the_history_is_cut_where_a_conversation_goes_into_another_region() -> None:
    """What is left is read anew there in any case, and not once more when the block is full."""
    played = walked(27, 13)
    cuts = [turn.of(ev.HistoryTrimmed) for turn in played]
    assert [len(cut) for cut in cuts] == [0] * 8 + [1] + [0] * 4
    assert cuts[8][0].dropped == 4
    summed = {"max_exchanges": 5, "strategy": "summary"}  # a call for each cut
    document = chain(27).definition.model_dump(exclude_unset=True, by_alias=True)
    made = machine(document["states"], context_schema=document["context_schema"], history=summed)
    session = talk(made, "m", reply("step_1", answer_0="x")).session
    for number in range(1, 9):
        session = say(
            made, session, "m", reply(f"step_{number + 1}", **{f"answer_{number}": "x"})
        ).session
    assert len(session.window) == 9


@pytest.mark.parametrize(
    ("states", "sizes"),
    [
        (24, [24]),
        (25, [9, 9, 7]),
        (36, [12] * 3),
        (37, [10, 10, 10, 7]),
        (72, [12] * 6),
        (100, [12] * 8 + [4]),
    ],
)
def test_a_machine_of_many_states_is_divided_into_blocks_in_the_order_of_the_file(
    states: int, sizes: list[int]
) -> None:
    made = chain(states)
    blocks = list(dict.fromkeys(plan.around for plan in made.states.values()))
    assert [len(block) for block in blocks] == sizes
    order = list(made.states)
    for block in blocks:
        places = sorted(map(order.index, block))
        assert places == list(range(places[0], places[-1] + 1))


@pytest.mark.parametrize(
    ("states", "options"),
    [
        (1, {}),
        (12, {}),
        (24, {}),
        (25, {}),
        (40, {"declared": False}),
        (65, {"declared": False}),
        (300, {}),
    ],
)
def test_every_state_is_in_one_region_and_its_schema_has_its_moves(
    states: int, options: dict[str, Any]
) -> None:
    made = chain(states, **options)
    for plan in made.states.values():
        assert plan.id in plan.around
        if plan.moves:
            schema = made.question(plan.id, "object").schema
            assert {plan.id, *(move.target for move in plan.moves)} <= set(targets(schema.text))
            assert set(plan.collects) <= plan.listed
    sizes = [len(around) for around in {plan.around for plan in made.states.values()}]
    assert sum(sizes) == states
    assert max(sizes) <= (24 if states <= 24 else 12)


def asking(*targets: str) -> dict[str, Any]:
    return {
        "purpose": "Ask one more question",
        "transitions": [{"target_state": target} for target in targets],
    }


def test_a_transition_into_another_region_tells_what_its_target_asks() -> None:
    made = chain(30)
    asked = talk(made, "m", reply("step_10", answer_9="x"), state="step_9").prompt
    onward, _ = json.loads(lines(asked, "transitions")[0])
    assert "step_10" not in made.states["step_9"].around
    assert (onward["to"], onward["there"]) == ("step_10", "Ask question 10. (collect: answer_10)")


def test_words_that_are_long_stand_in_the_prompts_of_the_states_around_them() -> None:
    long = {
        f"s{number}": {"purpose": "x " * 4000, "transitions": [{"target_state": "s0"}]}
        for number in range(4)
    }
    made = machine(long)
    assert sorted({tuple(plan.around) for plan in made.states.values()}) == [
        (f"s{number}",) for number in range(4)
    ]
    assert len({made.question(name, "object").schema.text for name in made.states}) == 1


@pytest.mark.parametrize(("states", "together"), [(12, {5, 2}), (64, {5, 4}), (66, {5, 1})])
def test_wordy_states_share_a_system_message_with_enough_others_to_serve_several_turns(
    states: int, together: set[int]
) -> None:
    wordy = {
        f"s{number}": {**asking(f"s{number + 1}"), "purpose": "x" * 1000}
        for number in range(states - 1)
    }
    made = machine({**wordy, f"s{states - 1}": {"purpose": "x" * 1000}})
    assert {len(plan.around) for plan in made.states.values()} == together


def test_where_global_transitions_lead_is_told_in_full_in_every_region() -> None:
    facts = "A fact that somebody may ask for. " * 10
    long = {
        f"s{number}": {"purpose": "x " * 4000, "transitions": [{"target_state": "s0"}]}
        for number in range(4)
    }
    aside = {"target_state": "help", "description": "A question", "return": True}
    other = {"target_state": "terms", "priority": 200}
    states = {**long, "help": {"instructions": facts}, "terms": {"purpose": "y " * 1500}}
    made = machine(states, global_transitions=[other, aside])
    assert all("help" in made.states[name].around for name in long)
    assert "terms" not in made.states["s0"].around
    system = made.question("s0", "object").messages[0].content
    told = f"\nhelp (then back to what was asked):\n  notes: {facts.strip()}"
    assert "\n".join(lines(system, "states")).endswith(told)
    prompt = talk(made, "m", reply("s0")).prompt
    first, second, _ = json.loads(lines(prompt, "transitions")[0])
    assert first == {"to": "help", "desc": "A question"}
    assert second["there"]["purpose"].startswith("y y")


def test_an_object_of_which_a_state_collects_parts_is_listed_among_many_keys() -> None:
    place = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
    }
    keys = {"place": place, **{f"k{number}": {} for number in range(30)}}
    needs = [{"requires_context_keys": ["place.city"]}]
    states = {
        "a": {
            "required_context_keys": ["place.zip", "place.city"],
            "transitions": [{"target_state": "b", "conditions": needs}],
        },
        "b": {},
    }
    asked = talk(machine(states, context_schema={"properties": keys}), "m", reply("a")).requests[0]
    assert [
        line.partition(" ")[0] for line in lines(asked.messages[0].content, "context_keys")
    ] == ["place"]
    assert asked.schema is not None
    assert '"place"' in asked.schema.text


def test_a_list_that_is_read_out_stands_in_the_schema_of_that_state_among_many_keys() -> None:
    listed = {"type": "array", "items": {"type": "string"}}
    keys = {
        "debts": listed,
        "goods": listed,
        "day": {"type": "integer"},
        **{f"k{n}": {} for n in range(30)},
    }
    read = "{% for debt in debts %}{{ debt }}{% endfor %} goods {{ day }} Right?"
    states = {"check": {"reply": read, "transitions": [{"target_state": "end"}]}, "end": {}}
    made = machine(states, context_schema={"properties": keys})
    asked = talk(
        made, "m", reply("check"), context={"debts": ["a"], "goods": ["b"], "day": 1}
    ).requests[0]
    assert asked.schema is not None
    update = json.loads(asked.schema.text)["properties"]["context_update"]["properties"]
    assert list(update) == ["debts", "+debts", "-debts", "_clear"]
    assert [
        line.partition(" ")[0] for line in lines(asked.messages[0].content, "context_keys")
    ] == ["debts"]
    shown = asked.messages[1].content
    assert lines(shown, "further_context_keys") == [
        'goods = ["b"] (array, items {"type":"string"})',
        "day = 1",
    ]
    assert lines(shown, "current_context") == ['{"debts":["a"]}']


def test_a_key_that_the_schema_of_a_state_lacks_can_be_corrected_under_extra() -> None:
    made = machine(
        {"a": {"purpose": "x", "transitions": [{"target_state": "a"}]}},
        context_schema={"properties": {"age": {"type": "integer"}, "name": {"type": "string"}}},
    )
    done = talk(
        made, "m", reply("a", _extra=[{"key": "age", "value": "7"}, {"key": "hat", "value": "8"}])
    )
    assert done.session.context == {"age": 7, "_extra": {"hat": "8"}}
    worse = talk(made, "m", reply("a", _extra=[{"key": "age", "value": "seven"}]))
    assert "age" not in worse.session.context
    assert [event.key for event in worse.of(ev.ContextRefused)] == ["age"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_turn_takes_the_same_tokens_among_ten_states_and_among_hundreds(declared: bool) -> None:
    def average(states: int) -> float:
        played = walked(states, 8, declared=declared)
        texts = [message.content for turn in played for message in turn.requests[0].messages]
        return sum(map(estimate, [*texts, *schemas(played)])) / len(played)

    assert average(300) == pytest.approx(average(10), rel=0.15)


def test_the_record_holds_the_tokens_of_each_section() -> None:
    last = walked(8, 3)[-1]
    [replied] = last.of(ev.ModelReplied)
    assert list(replied.prompt) == [
        *("system", "schema", "current_state", "conversation_history", "current_context"),
        *("transitions", "user_input"),
    ]
    [request] = last.requests
    whole = (
        sum(estimate(message.content) for message in request.messages) + replied.prompt["schema"]
    )
    assert sum(replied.prompt.values()) == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize("whole", [False, True])
def test_the_record_holds_what_a_prompt_takes_section_by_section_and_a_second_try_too(
    whole: bool,
) -> None:
    states = {
        "a": {
            "purpose": "Which size?",
            "required_context_keys": ["size", "colour"],
            "example_dialogue": [{"user": "Big"}, {"system": "And which colour?"}],
            "transitions": [{"target_state": "b", "description": "Both are known"}],
        },
        "b": {"purpose": "Bye"},
    }
    made = machine(states, whole=whole)
    done = talk(made, "Größe: groß, кто там, 日本", "no JSON", reply("a", "", size="big"))
    first, second = done.of(ev.ModelReplied)
    user = done.requests[0].messages[1].content
    found = {section.name: section.tokens for section in sections(user)}
    told = {
        name: tokens for name, tokens in first.prompt.items() if name not in ("system", "schema")
    }
    assert told == pytest.approx(found, abs=5)
    assert second.prompt.keys() - first.prompt.keys() == {"second_try"}
    whole_second = sum(estimate(message.content) for message in done.requests[1].messages)
    assert sum(second.prompt.values()) - second.prompt["schema"] == pytest.approx(
        whole_second, abs=10
    )


def test_the_whole_machine_can_stand_in_the_system_message() -> None:
    document = {
        "a": {
            "purpose": "Ask A",
            "instructions": "Be kind.",
            "transitions": [{"target_state": "b"}],
        }
    }
    states = {
        **document,
        "b": {"purpose": "Ask B", "transitions": [{"target_state": "a", "description": "Back"}]},
    }
    made = machine(states, whole=True)
    first = talk(made, "m", reply("b"))
    second = say(made, first.session, "m", reply("a"))
    system, user = first.requests[0].messages
    assert second.requests[0].messages[0] == system
    assert first.requests[0].schema == second.requests[0].schema
    shown = system.content.split("<states>\n")[1].split("\n</states>")[0].splitlines()
    assert [json.loads(line) for line in shown] == [
        {"id": "a", "purpose": "Ask A", "notes": "Be kind.", "transitions": [{"to": "b"}]},
        {"id": "b", "purpose": "Ask B", "transitions": [{"to": "a", "desc": "Back"}]},
    ]
    assert names(user.content) == ["current_state", "valid_states", "user_input"]
    assert "Ask A" not in user.content


def test_keys_behind_global_transitions_are_listed_where_there_is_room() -> None:
    states: dict[str, Any] = {
        f"s{number}": {
            "required_context_keys": [f"k{number}"],
            "transitions": [{"target_state": f"s{number + 1}"}],
        }
        for number in range(40)
    }
    states |= {
        "s40": {},
        "bill": {"required_context_keys": ["firm"], "transitions": [{"target_state": "s40"}]},
    }
    keys = {f"k{number}": {"type": "string"} for number in range(40)} | {
        "firm": {"type": "string", "maxLength": 60}
    }
    made = machine(
        states, context_schema={"properties": keys}, global_transitions=[{"target_state": "bill"}]
    )
    asked = talk(made, "m", reply("s1")).requests[0]
    assert "\nfirm (maxLength 60)\n" in asked.messages[0].content
    assert asked.schema is not None
    assert '"firm"' in asked.schema.text


def test_what_a_digression_in_another_region_left_open_is_told_of_once() -> None:
    states: dict[str, Any] = {
        f"s{number}": {
            "purpose": f"Question {number}?",
            "transitions": [{"target_state": f"s{number + 1}"}],
        }
        for number in range(40)
    }
    aside = {
        "purpose": "Which firm?",
        "transitions": [{"target_state": name} for name in ("noted", "refused")],
    }
    states |= {
        "s40": {},
        "bill": aside,
        "noted": {"purpose": "Noted."},
        "refused": {"purpose": "No bill."},
    }
    made = machine(states, global_transitions=[{"target_state": "bill", "return": True}])
    begun = talk(made, "m", reply("s1", "Question 1?"))
    left = say(made, begun.session, "m", reply("bill", "Which firm?"))
    prompt = say(made, left.session, "m", reply("noted", "Noted.")).prompt
    menu = prompt[prompt.index("<transitions>") : prompt.index("</transitions>")]
    assert menu.count('"then_back_to":{"state":"s1","ask_its_question_again":true}') == 2
    assert menu.count("Question 1?") == 1


def test_a_deciding_state_shows_where_it_leads_on_to_where_the_whole_machine_is_shown() -> None:
    member = {"logic": {"==": [{"var": "member"}, True]}}
    branches = [
        {"target_state": "b", "description": "A member", "conditions": [member]},
        {"target_state": "c", "conditions": [{"logic": {"has_context": "x"}}]},
        {"target_state": "end"},
    ]
    states = {
        "a": {"purpose": "Ask A", "transitions": [{"target_state": "route"}]},
        "route": {"kind": "decide", "purpose": "Is it a member?", "transitions": branches},
        **{
            name: {"purpose": f"Ask {name}", "transitions": [{"target_state": "end"}]}
            for name in ("b", "c")
        },
        "end": {"purpose": "Goodbye"},
    }
    system = talk(machine(states, whole=True), "m", reply("a")).requests[0].messages[0].content
    line = next(line for line in system.splitlines() if line.startswith('{"id":"route"'))
    told = [
        {"to": "b", "if": "A member"},
        {"to": "c", "conditions": [{"logic": {"has_context": "x"}}]},
        {"to": "end"},
    ]
    assert json.loads(line) == {"id": "route", "purpose": "Is it a member?", "leads_on_to": told}
    listed = talk(machine(states), "m", reply("a")).requests[0].messages[0].content
    assert "\nroute (leads on): Is it a member?\n" in listed
    del states["route"]["purpose"]
    assert "\nroute" not in talk(machine(states), "m", reply("a")).requests[0].messages[0].content


def test_what_every_state_offers_stands_once_where_the_whole_machine_is_shown() -> None:
    aside = {"target_state": "help", "description": "A question", "return": True}
    states = {
        "a": {"purpose": "Ask A", "transitions": [{"target_state": "b"}]},
        "b": {"purpose": "Ask B", "transitions": [{"target_state": "end"}]},
        **{"help": {"purpose": "Answer"}, "end": {"purpose": "Goodbye"}},
    }
    made = machine(states, whole=True, global_transitions=[aside])
    first = talk(made, "m", reply("help", "Well?"))
    system, user = first.requests[0].messages
    shown = system.content.split("<states>\n")[1].split("\n</states>")[0].splitlines()
    assert [json.loads(line) for line in shown] == [
        {"id": "a", "purpose": "Ask A", "transitions": [{"to": "b"}]},
        {"id": "b", "purpose": "Ask B", "transitions": [{"to": "end"}]},
        {"id": "help", "purpose": "Answer", "then_back_to": "what was asked"},
        {"id": "end", "purpose": "Goodbye", "final": True},
        {"everywhere": True, "transitions": [{"to": "help", "desc": "A question"}]},
    ]
    assert "<transitions>" not in user.content


def test_instructions_of_several_states_stand_once_where_the_whole_machine_is_shown() -> None:
    style = "Ask politely, one thing at a time, and be patient with whoever does not know it."
    states = {
        "a": {
            "purpose": "Ask A",
            "instructions": f"Be kind. {style}",
            "transitions": [{"target_state": "b"}],
        },
        "b": {"purpose": "Ask B", "instructions": style, "transitions": [{"target_state": "end"}]},
        "end": {"purpose": "Goodbye"},
    }
    system = talk(machine(states, whole=True), "m", reply("b")).requests[0].messages[0].content
    shown = system.split("<states>\n")[1].split("\n</states>")[0].splitlines()
    assert [json.loads(line) for line in shown] == [
        {"id": "a", "purpose": "Ask A", "notes": "Be kind.", "transitions": [{"to": "b"}]},
        {"id": "b", "purpose": "Ask B", "transitions": [{"to": "end"}]},
        {"id": "end", "purpose": "Goodbye", "final": True},
        {"states": ["a", "b"], "notes": style},
    ]


def test_a_state_with_fixed_words_shows_no_menu_of_digressions_alone_where_the_whole_machine_is_shown() -> (
    None
):
    states = {
        "a": {"reply": "Agreed?", "transitions": [{"target_state": "end"}]},
        **{"help": {"purpose": "Answer"}, "end": {"purpose": "Goodbye"}},
    }
    aside = {"target_state": "help", "description": "A question", "return": True}
    made = machine(states, whole=True, global_transitions=[aside])
    done = talk(made, "m", reply("help", "It is."))
    assert "<transitions>" not in done.prompt
    assert (done.session.state, done.text, done.usage.calls) == ("a", "It is.\n\nAgreed?", 1)


@pytest.mark.parametrize("whole", [False, True])
def test_of_a_task_a_reply_is_told_its_purpose_and_not_how_it_is_done(whole: bool) -> None:
    done = {"target_state": "end", "description": "The ticket is open"}
    states = {
        "a": {"purpose": "Ask A", "transitions": [{"target_state": "work"}]},
        "work": {
            "kind": "task",
            "purpose": "Open a ticket",
            "instructions": "Call the desk.",
            "transitions": [done],
        },
        "end": {"purpose": "Goodbye"},
    }
    made = machine(states, whole=whole)
    prompt = "".join(
        message.content for message in talk(made, "m", reply("a")).requests[0].messages
    )
    assert "Open a ticket" in prompt
    assert not [word for word in ("Call the desk.", "The ticket is open") if word in prompt]


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
    program = machine(states, context_schema={"properties": {"home": schema}})
    system = talk(program, "m", reply("a")).requests[0].messages[0].content
    assert ('of a part of an object, its name, such as "home.city"' in system) is told
