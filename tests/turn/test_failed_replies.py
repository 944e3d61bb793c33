"""A fixed reply that cannot be rendered is an event and words for the user, never silence."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm.session import events as ev
from machines import machine, reply, talk

PRICES = {"items": {"type": "array", "items": {"type": "object"}}}
TOTAL = "That is {{ items | sum('price') }} euros. Shall I order it?"
SORRY = "Sorry, I cannot continue with this."


def shop(kind: str, **options: Any) -> Any:
    """A machine that reads out a total in a state of this kind."""
    states = {
        "ask": {"purpose": "What?", "required_context_keys": ["items"], "transitions": [{"target_state": "total"}]},
        "total": {"kind": kind, "purpose": "Is this right?", "reply": TOTAL, **options},
    }
    if kind == "decide":
        states["total"]["transitions"] = [{"target_state": "bye"}]
        states["bye"] = {"kind": "final", "purpose": "Bye", "reply": "Goodbye."}
    if kind == "converse":
        states["total"]["transitions"] = [{"target_state": "ask", "description": "The user says no"}]
    return machine(states, context_schema={"properties": PRICES})


@pytest.mark.parametrize("kind", ["converse", "decide", "final"])
@pytest.mark.parametrize("message", ["", "Gladly."])
def test_a_reply_that_cannot_be_rendered_is_an_apology_and_an_event(kind: str, message: str) -> None:
    done = talk(shop(kind), "m", reply("total", message, items=[{"price": 2}, {"name": "table"}]))
    assert SORRY in done.text
    assert "euros" not in done.text
    [failed] = done.of(ev.ReplyFailed)
    assert failed.state == "total"
    assert 'item 2 has nothing as "price"' in failed.reason
    [said] = done.of(ev.BotSaid)
    assert said.fallback


def test_the_words_of_the_definition_come_before_the_standard_apology() -> None:
    made = shop("final", model={"on_failure": "The total is not known yet."})
    done = talk(made, "m", reply("total", "", items=[{"name": "table"}]))
    assert done.text == "The total is not known yet."


def test_a_reply_that_can_be_rendered_leaves_no_such_event() -> None:
    done = talk(shop("final"), "m", reply("total", "", items=[{"price": 2}, {"price": 3.5}]))
    assert done.text == "That is 5.5 euros. Shall I order it?"
    assert done.of(ev.ReplyFailed) == []
