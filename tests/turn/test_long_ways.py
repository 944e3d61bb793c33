"""Machines of a thousand states that nobody answers one by one."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.testing import ScriptedLLM

NUMBER = 1000


def chain(kind: str) -> dict[str, Any]:
    """A question, and a thousand states behind it that go on by themselves."""
    states: dict[str, Any] = {
        "ask": {
            "purpose": "k?",
            "required_context_keys": ["k"],
            "transitions": [{"target_state": "s0", "description": "k is known"}],
        },
        "last": {
            "purpose": "Sure?",
            "transitions": [{"target_state": "end", "description": "yes"}],
        },
        "end": {"reply": "Done."},
    }
    for number in range(NUMBER):
        target = f"s{number + 1}" if number + 1 < NUMBER else "last"
        way: dict[str, Any] = {
            "target_state": target,
            "conditions": [{"requires_context_keys": ["k"]}],
        }
        if kind == "decide":
            states[f"s{number}"] = {"kind": "decide", "transitions": [way]}
        elif kind == "auto":
            states[f"s{number}"] = {"purpose": "q", "transitions": [{**way, "auto": True}]}
        else:
            states[f"s{number}"] = {
                "purpose": "q",
                "required_context_keys": ["k"],
                "transitions": [way],
            }
    keys = {"type": "object", "properties": {"k": {"type": "string"}}}
    return {"name": "chain", "initial_state": "ask", "context_schema": keys, "states": states}


@pytest.mark.parametrize("kind", ["decide", "auto"])
def test_a_thousand_moves_by_itself_end_at_the_limit_of_them(kind: str) -> None:
    reply = {"transition": {"target_state": "s0", "context_update": {"k": "v"}}, "message": "ok"}
    with Machine.from_dict(chain(kind), model=ScriptedLLM([reply])) as machine:
        turn = machine.start(greet=False).send("v")
    assert (turn.state, turn.outcome) == ("s25", "limited")
    assert [type(event).__name__ for event in turn.events].count("LimitReached") == 1


@pytest.mark.parametrize("end", ["question", "task"])
def test_a_thousand_answered_states_are_passed_up_to_the_last_that_can_ask(end: str) -> None:
    document = chain("answered")
    if end == "task":
        work = {
            "kind": "task",
            "key_results": [{"name": "done"}],
            "transitions": [{"target_state": "end"}],
        }
        document["states"]["last"] = work
    reply = {"transition": {"target_state": "s0", "context_update": {"k": "v"}}, "message": "ok"}
    with Machine.from_dict(document, model=ScriptedLLM([reply, "Yes?", "Yes?"])) as machine:
        turn = machine.start(greet=False).send("v")
    assert turn.state == ("last" if end == "question" else f"s{NUMBER - 1}")
