"""Keys that a definition sets and clears itself: on a transition that is taken, and on a state that
is entered.
"""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.errors import DefinitionError
from llm_fsm.session import events as ev
from llm_fsm.turn.effects import HandlerResult, Point, RunHandlers
from llm_fsm.turn.pipeline import UserMessage
from llm_fsm.turn.rest import rest
from llm_fsm.turn.steps import begin
from llm_fsm.turn.turn_state import HostCapabilities
from machines import machine, nested, play, reply, start, talk

KEYS = {
    "room": {"enum": ["single", "double"]},
    "nights": {"type": "integer"},
    "price": {"type": "integer", "x-source": "host"},
    "note": {"type": "string"},
    "pin": {"type": "string", "x-secret": True},
    "kept": {"type": "string", "x-secret": True},
}
PRICE = {"*": [{"var": "nights"}, {"if": [{"==": [{"var": "room"}, "double"]}, 90, 60]}]}


def hotel(
    move: dict[str, Any] | None = None, state: dict[str, Any] | None = None, **more: Any
) -> Any:
    """A state that asks, one that confirms in fixed words, and an end."""
    states = {
        "ask": {"purpose": "Ask", "transitions": [{"target_state": "confirm", **(move or {})}]},
        "confirm": {
            "reply": "{{ price }}",
            "transitions": [{"target_state": "done"}],
            **(state or {}),
        },
        "done": {"purpose": "Done"},
        **more.pop("states", {}),
    }
    return machine(states, context_schema={"properties": KEYS}, **more)


def moved(made: Any, **context: Any) -> Any:
    return play(
        begin(made, start(made, context=context).session, UserMessage(text="x", time=2.0)),
        [reply("confirm")],
    )


def test_a_transition_sets_keys_by_rules_and_the_reply_reads_them() -> None:
    done = moved(hotel({"set": {"price": PRICE}}), room="double", nights=2)
    assert done.session.context == {"room": "double", "nights": 2, "price": 180}
    assert done.session.origins["price"] == (1, "definition")
    assert done.text.endswith("180")


def test_a_state_sets_keys_on_entering_after_the_transition() -> None:
    made = hotel(
        {"set": {"note": "way"}}, {"set": {"note": {"cat": [{"var": "note"}, " and state"]}}}
    )
    assert moved(made).session.context == {"note": "way and state"}


def test_all_rules_read_what_was_there_before_and_clearing_comes_first() -> None:
    made = hotel({"set": {"note": {"var": "room"}, "room": "single"}, "clear": ["room", "nights"]})
    done = moved(made, room="double", nights=3)
    assert done.session.context == {"note": "double", "room": "single"}
    [event] = [event for event in done.of(ev.ContextSet) if event.source == "definition"]
    assert event.removed == ("nights",)


def test_null_clears_and_what_does_not_change_is_no_event() -> None:
    done = moved(
        hotel({"set": {"note": {"var": "nobody"}, "room": "single"}}), room="single", note="old"
    )
    [event] = [event for event in done.of(ev.ContextSet) if event.source == "definition"]
    assert (event.values, event.removed) == ({}, ("note",))
    assert not [
        e for e in moved(hotel({"clear": ["note"]})).of(ev.ContextSet) if e.source == "definition"
    ]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"room": "suite"}, "suite"),
        ({"nights": {"+": ["x", 1]}}, "its rule fails"),
        ({"note": {"cat": [{"var": "pin"}, "!"]}}, "secret"),
    ],
)
def test_what_a_key_cannot_have_is_refused_and_on_record(
    rules: dict[str, Any], reason: str
) -> None:
    done = moved(hotel({"set": rules}), pin="1234")
    [refused] = done.of(ev.ContextRefused)
    assert (refused.source, reason in refused.reason) == ("definition", True)
    assert done.session.state == "confirm"


def test_a_test_of_a_secret_and_a_copy_to_a_secret_key_are_kept() -> None:
    same = {"kept": {"var": "pin"}}
    assert moved(hotel({"set": same}), pin="1234").session.context == {
        "pin": "1234",
        "kept": "1234",
    }


def test_handlers_hear_of_keys_that_were_set() -> None:
    heard: list[Any] = []

    def handler(effect: RunHandlers) -> HandlerResult | None:
        if effect.point is Point.CONTEXT_UPDATE:
            heard.append(sorted(effect.updated))
        return None

    made = hotel({"set": {"note": "a"}, "clear": ["nights"]})
    host = HostCapabilities(points=frozenset({Point.CONTEXT_UPDATE}))
    begun = start(made, context={"nights": 1}).session
    play(begin(made, begun, UserMessage(text="x", time=2.0), host), [reply("confirm")], handler)
    assert heard == [["nights", "note"]]


def test_the_initial_state_and_that_of_a_flow_set_keys_too() -> None:
    first = {
        "a": {"set": {"n": 1}, "reply": "{{ n }}", "transitions": [{"target_state": "b"}]},
        "b": {},
    }
    begun = start(machine(first), greet=True)
    assert (begun.session.context, begun.text) == ({"n": 1}, "1")
    inner = {"name": "inner", "initial_state": "i", "states": {"i": {"set": {"n": 2}, "reply": "{{ n }}",
             "transitions": [{"target_state": "j"}]}, "j": {}}}  # fmt: skip
    outer = nested(
        {"name": "outer", "initial_state": "a", "states": {"a": {"transitions": [{"target_state": "f"}]},
         "f": {"kind": "subflow", "flow": "inner", "transitions": [{"target_state": "e"}]}, "e": {}}}, inner=inner,
    )  # fmt: skip
    done = talk(outer, "go", reply("f", "So."))
    assert (done.session.context, done.text) == ({"n": 2}, "So.\n\n2")


def test_a_counter_ends_a_loop_of_deciding_states() -> None:
    count = {"set": {"n": {"+": [{"var": ["n", 0]}, 1]}}}
    states = {
        "ask": {"purpose": "Ask", "transitions": [{"target_state": "more"}]},
        "more": {
            "kind": "decide",
            "transitions": [
                {"target_state": "done", "conditions": [{"logic": {">=": [{"var": "n"}, 3]}}]},
                {"target_state": "again", "priority": 200, **count},
            ],
        },
        "again": {"kind": "decide", "transitions": [{"target_state": "more"}]},
        "done": {"purpose": "Done", "reply": "{{ n }}"},
    }
    done = talk(machine(states), "go", reply("more"))
    assert (done.session.state, done.session.context) == ("done", {"n": 3})


def test_what_is_set_on_the_way_counts_where_a_move_comes_to_rest() -> None:
    late = [{"logic": {"==": [{"var": "late"}, True]}}]
    states = {
        "ask": {
            "purpose": "Shall I cancel it?",
            "transitions": [{"target_state": "sort", "set": {"late": True}}],
        },
        "sort": {
            "kind": "decide",
            "transitions": [
                {"target_state": "gone", "conditions": late},
                {"target_state": "ask", "priority": 200},
            ],
        },
        "gone": {},
    }
    made = machine(states)
    session = start(made).session
    assert rest(made, session, made.states["ask"].moves[0]).state == "gone"
    done = play(begin(made, session, UserMessage(text="yes", time=2.0)), [reply("sort", "Gone.")])
    assert (done.session.state, done.text, done.usage.calls) == ("gone", "Gone.", 1)


def test_a_correction_that_leads_back_to_a_state_does_not_clear_what_was_corrected() -> None:
    double = [{"logic": {"==": [{"var": "room"}, "double"]}}]
    states = {
        "ask": {
            "purpose": "Which room?",
            "required_context_keys": ["room"],
            "clear": ["room", "note"],
            "transitions": [
                {"target_state": "big", "conditions": double},
                {
                    "target_state": "small",
                    "priority": 200,
                    "conditions": [{"requires_context_keys": ["room"]}],
                },
            ],
        },
        "big": {
            "purpose": "Else?",
            "required_context_keys": ["note"],
            "transitions": [{"target_state": "end"}],
        },
        "small": {
            "purpose": "What?",
            "required_context_keys": ["note"],
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    }
    made = machine(states, context_schema={"properties": KEYS}, patterns=["correct"])
    first = talk(made, "double", reply("big", room="double"))
    heard = UserMessage(text="single, sorry", time=3.0)
    done = play(begin(made, first.session, heard), [reply("correct", "Single.", room="single")])
    assert (done.session.state, done.session.context) == ("small", {"room": "single"})


def test_a_faulty_rule_is_an_error_when_the_file_is_loaded() -> None:
    with pytest.raises(DefinitionError) as caught:
        hotel({"set": {"note": {"plus": [1, 2]}}})
    assert caught.value.findings[0].pointer == "/states/ask/transitions/0/set/note/plus"
