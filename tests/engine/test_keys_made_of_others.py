"""`x-from`: a key is cleared when what it is made of changes, and whoever made it makes it again."""

from __future__ import annotations

from typing import Any

from llm_fsm import Machine, create_handler
from llm_fsm.session import events as ev
from llm_fsm.testing import ScriptedLLM, reply

PRICES = {"single": 100, "double": 150}
KEYS: dict[str, Any] = {
    "room": {"enum": ["single", "double"]},
    "day": {"type": "string", "format": "date"},
    "price": {"type": "integer", "x-source": "host", "x-from": ["room", "day"]},
    "total": {"type": "integer", "x-source": "host", "x-from": ["price"]},
}
KNOWN = [{"requires_context_keys": ["room", "day"]}]
PRICED = [{"requires_context_keys": ["price"]}]
HOTEL: dict[str, Any] = {
    "name": "hotel",
    "initial_state": "ask",
    "patterns": ["correct", "repeat", "restart"],
    "context_schema": {"properties": KEYS},
    "states": {
        "ask": {
            "purpose": "Which room, from which day?",
            "required_context_keys": ["room", "day"],
            "transitions": [
                {"target_state": "confirm", "description": "Known", "conditions": KNOWN}
            ],
        },
        "confirm": {
            "reply": "A {{ room }} for {{ price }}, {{ total }} in all?",
            "set": {"total": {"if": [{"var": "price"}, {"+": [{"var": "price"}, 5]}, None]}},
            "transitions": [{"target_state": "pay", "description": "Yes", "conditions": PRICED}],
        },
        "pay": {
            "reply": "{{ total }}, please. Card?",
            "transitions": [{"target_state": "end", "description": "Paid"}],
        },
        "end": {"reply": "Booked for {{ price }}."},
    },
}
FIRST = reply("confirm", room="single", day="2099-05-01")


def pricing(ran: list[tuple[str, ...]]) -> Any:
    def price(occasion: Any) -> Any:
        ran.append((occasion.state, *sorted(occasion.updated)))
        return {"price": PRICES[occasion.context["room"]]}

    return create_handler("price").on_state_entry("confirm").do(price)


def played(definition: dict[str, Any], *replies: str, **options: Any) -> list[Any]:
    with Machine.from_dict(definition, model=ScriptedLLM(list(replies)), **options) as machine:
        chat = machine.start(greet=False)
        return [chat.send("on that day") for _ in replies]


def test_handler_and_set_make_again_what_a_correction_made_old() -> None:
    ran: list[tuple[str, ...]] = []
    turns = played(HOTEL, FIRST, reply("correct", "Sure.", room="double"), handlers=[pricing(ran)])
    assert [turn.text for turn in turns] == [
        "A single for 100, 105 in all?",
        "Sure.\n\nA double for 150, 155 in all?",
    ]
    assert ran == [("confirm",), ("confirm", "price", "total")]
    changes = [event for event in turns[1].events if isinstance(event, ev.ContextSet)]
    assert [(event.source, event.removed) for event in changes[1:3]] == [
        ("x-from", ("price",)),
        ("x-from", ("total",)),
    ]


def test_it_is_made_again_in_a_later_state_too() -> None:
    turns = played(
        HOTEL, FIRST, reply("pay"), reply("correct", "", room="double"), handlers=[pricing([])]
    )
    assert (turns[-1].state, turns[-1].text) == ("pay", "155, please. Card?")


def test_a_value_that_stays_the_same_clears_nothing() -> None:
    ran: list[tuple[str, ...]] = []
    turns = played(HOTEL, FIRST, reply("confirm", "Hm.", room="single"), handlers=[pricing(ran)])
    assert (turns[-1].context["price"], len(ran)) == (100, 1)


def test_a_value_that_is_given_again_beside_what_it_is_made_of_stays() -> None:
    slot = {"type": "string", "x-from": ["day"]}
    definition = {**HOTEL, "context_schema": {"properties": {**KEYS, "slot": slot}}}
    first = reply("ask", day="2099-05-01", slot="nine")
    again, alone = reply("ask", day="2099-05-02", slot="nine"), reply("ask", day="2099-05-03")
    assert [turn.context.get("slot") for turn in played(definition, first, again, alone)] == [
        "nine",
        "nine",
        None,
    ]


def test_what_nobody_makes_again_stays_unset_and_closes_the_way() -> None:
    with Machine.from_dict(
        HOTEL, model=ScriptedLLM([FIRST, reply("pay", room="double"), reply("confirm")])
    ) as machine:
        chat = machine.start(greet=False, context={"price": 100})
        assert "price" not in chat.send("on that day").context, (
            "its parts became known after it was given"
        )
        assert chat.send("on that day").state == "confirm"


def test_a_restart_does_not_keep_what_was_made_of_answers() -> None:
    turns = played(HOTEL, FIRST, reply("restart"), handlers=[pricing([])])
    assert turns[-1].context == {}


def test_where_a_task_made_it_an_auto_transition_goes_back_to_the_task() -> None:
    task = {
        "kind": "task",
        "execute": "quote",
        "transitions": [{"target_state": "confirm", "conditions": PRICED}],
    }
    states = {**HOTEL["states"], "quote": task}
    again = {
        "target_state": "quote",
        "auto": True,
        "conditions": [{"logic": {"!": [{"has_context": "price"}]}}],
    }
    states["confirm"] = {
        **states["confirm"],
        "transitions": [*states["confirm"]["transitions"], again],
    }
    states["ask"] = {
        **states["ask"],
        "transitions": [{**states["ask"]["transitions"][0], "target_state": "quote"}],
    }

    def quote(task: Any) -> int:
        task.set_context(price=PRICES[task.context["room"]])
        return 1

    turns = played(
        {**HOTEL, "states": states},
        reply("quote", room="single", day="2099-05-01"),
        reply("correct", "Sure.", room="double"),
        functions=[quote],
    )
    assert [(turn.state, turn.context["price"]) for turn in turns] == [
        ("confirm", 100),
        ("confirm", 150),
    ]
    assert "A double for 150, 155 in all?" in turns[1].text


def test_an_answer_that_is_corrected_inside_a_flow_makes_the_callers_key_old() -> None:
    inner = {
        "name": "inner",
        "initial_state": "card",
        "patterns": ["correct"],
        "context_schema": {"properties": {"card": {"type": "string"}}},
        "states": {
            "card": {
                "reply": "Card?",
                "required_context_keys": ["card"],
                "transitions": [
                    {"target_state": "done", "conditions": [{"requires_context_keys": ["card"]}]}
                ],
            },
            "done": {"purpose": "Done"},
        },
    }
    states = {
        **HOTEL["states"],
        "pay": {
            "kind": "subflow",
            "flow": "inner",
            "output": {},
            "transitions": [{"target_state": "end"}],
        },
    }
    turns = played(
        {**HOTEL, "states": states},
        FIRST,
        reply("pay"),
        reply("card", "Sure.", room="double"),
        reply("done", card="4111"),
        handlers=[pricing([])],
        flows={"inner": inner},
    )
    assert turns[-1].text.endswith("Booked for 150.")


def test_repeat_shows_what_is_true_now() -> None:
    sleep = (
        create_handler("sleep")
        .at("pre_processing")
        .do(lambda occasion: {"note": occasion.system["_turn"]})
    )
    definition = {
        **HOTEL,
        "context_schema": {"properties": {**KEYS, "note": {"type": "integer", "x-source": "host"}}},
        "states": {
            **HOTEL["states"],
            "ask": {**HOTEL["states"]["ask"], "reply": "Number {{ note }}. Which room?"},
        },
    }
    turns = played(definition, reply("ask"), reply("repeat", "I said:"), handlers=[sleep])
    assert [turn.text for turn in turns] == ["Number 1. Which room?", "Number 2. Which room?"]
