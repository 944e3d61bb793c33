"""A fixed reply that cannot be rendered is an event and words for the user, never silence."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from llm_fsm.turn.choices import choices_of
from llm_fsm.turn.guards import NOT_ASKED
from machines import machine, reply, say, talk

PRICES = {"items": {"type": "array", "items": {"type": "object"}}}
TOTAL = "That is {{ items | sum('price') }} euros. Shall I order it?"
SORRY = "Sorry, I cannot continue with this."


def shop(kind: str, **options: Any) -> Any:
    """A machine that reads out a total in a state of this kind."""
    states = {
        "ask": {
            "purpose": "What?",
            "required_context_keys": ["items"],
            "transitions": [{"target_state": "total"}],
        },
        "total": {"kind": kind, "purpose": "Is this right?", "reply": TOTAL, **options},
    }
    if kind == "decide":
        states["total"]["transitions"] = [{"target_state": "bye"}]
        states["bye"] = {"kind": "final", "purpose": "Bye", "reply": "Goodbye."}
    if kind == "converse":
        states["total"]["transitions"] = [
            {"target_state": "ask", "description": "The user says no"}
        ]
    return machine(states, context_schema={"properties": PRICES})


@pytest.mark.parametrize("kind", ["converse", "decide", "final"])
@pytest.mark.parametrize("message", ["", "Gladly."])
def test_a_reply_that_cannot_be_rendered_is_an_apology_and_an_event(
    kind: str, message: str
) -> None:
    done = talk(shop(kind), "m", reply("total", message, items=[{"price": 2}, {"name": "table"}]))
    assert SORRY in done.text
    assert "euros" not in done.text
    [failed] = done.of(ev.ReplyFailed)
    assert failed.state == "total"
    assert 'item 2 has nothing as "price"' in failed.reason
    [said] = done.of(ev.BotSaid)
    assert said.fallback


def test_the_move_holds_although_its_reply_cannot_be_rendered() -> None:
    bad = [{"name": "table"}]
    first = talk(shop("converse"), "m", reply("total", "", items=bad))
    assert first.session.state == "total"
    assert first.session.context["items"] == bad
    assert first.text == SORRY
    asked, entered = first.of(ev.ReplyFailed), first.of(ev.StateEntered)
    assert [event.state for event in asked] == [entered[-1].state] == ["total"]
    back = say(shop("converse"), first.session, "No", reply("ask", "What else?"))
    assert back.session.state == "ask"
    assert back.of(ev.ReplyFailed) == []


def test_the_words_of_the_definition_come_before_the_standard_apology() -> None:
    made = shop("final", model={"on_failure": "The total is not known yet."})
    done = talk(made, "m", reply("total", "", items=[{"name": "table"}]))
    assert done.text == "The total is not known yet."


def test_a_reply_that_can_be_rendered_leaves_no_such_event() -> None:
    done = talk(shop("final"), "m", reply("total", "", items=[{"price": 2}, {"price": 3.5}]))
    assert done.text == "That is 5.5 euros. Shall I order it?"
    assert done.of(ev.ReplyFailed) == []


BROKEN = [{"name": "table"}]
WHOLE = [{"price": 2}, {"price": 3.5}]


def order(**keys: Any) -> Any:
    """A machine that reads a total back, and takes a yes."""
    return machine(
        {
            "ask": {
                "purpose": "What?",
                "required_context_keys": ["items"],
                "transitions": [{"target_state": "total"}],
            },
            "total": {
                "purpose": "Is this right?",
                "reply": TOTAL,
                "choices": ["yes", "no"],
                "transitions": [
                    {"target_state": "done", "description": "The user confirms"},
                    {"target_state": "ask", "description": "The user says no"},
                ],
            },
            "done": {"kind": "final", "purpose": "Done", "reply": "It is ordered."},
        },
        context_schema={"properties": PRICES},
        **keys,
    )


def test_a_question_that_could_not_be_said_is_not_answered_by_a_yes() -> None:
    made = order()
    first = talk(made, "m", reply("total", "", items=BROKEN))
    assert choices_of(made, first.session) == ()
    done = say(made, first.session, "yes", reply("done", "Done."))
    assert done.session.state == "total"
    assert done.text == SORRY
    [refused] = done.of(ev.MoveRefused)
    assert refused.reason == NOT_ASKED


def test_the_way_back_stays_open() -> None:
    first = talk(order(), "m", reply("total", "", items=BROKEN))
    assert say(order(), first.session, "no", reply("ask", "What then?")).session.state == "ask"


def test_when_it_can_be_said_it_is_asked_and_then_answered() -> None:
    made = order()
    first = talk(made, "m", reply("total", "", items=BROKEN))
    anew = reply("total", "", items=WHOLE, _clear=["items"], _quotes={"_clear": "not that"})
    second = say(made, first.session, "not that, but for 2 and 3.5", anew)
    assert second.text == "That is 5.5 euros. Shall I order it?"
    assert [choice.label for choice in choices_of(made, second.session)] == ["yes", "no"]
    assert say(made, second.session, "yes", reply("done", "")).text == "It is ordered."


@pytest.mark.parametrize("pattern", ["clarify", "digress"])
def test_patterns_that_ask_again_apologise_too(pattern: str) -> None:
    made = order(patterns=[pattern])
    first = talk(made, "m", reply("total", "", items=BROKEN))
    done = say(made, first.session, "what?", reply(pattern, "Well."))
    assert done.text.endswith(SORRY)
    assert done.text.count(SORRY) == 1
    assert len(done.of(ev.ReplyFailed)) == 1


def test_last_words_apologise_instead_of_asking_what_was_not_shown() -> None:
    made = order()
    first = talk(made, "m", reply("total", "", items=BROKEN))
    done = say(made, first.session, "what?", "{", "{")
    assert SORRY in done.text
    assert "Is this right?" not in done.text
    assert done.of(ev.ReplyFailed)
