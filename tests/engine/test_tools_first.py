"""A state with `tools_first` begins with what its tools found, also after a pause and in a stream."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.session import events as ev
from llm_fsm.testing import ScriptedLLM

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {"properties": {"order": {"type": "string"}}},
    "tools": {"find": {"registered": "find"}},
    "states": {
        "ask": {"purpose": "Which order?", "transitions": [{"target_state": "show"}]},
        "show": {
            "purpose": "Is that your order?",
            "tools": ["find"],
            "tools_first": True,
            "transitions": [{"target_state": "end"}],
        },
        "end": {},
    },
}
FIND = {"tool_calls": [{"name": "find", "arguments": {"order": "7"}}]}
MOVE = {
    "transition": {"target_state": "show", "context_update": {"order": "7"}},
    "message": "One moment.",
}
FOUND = {
    "transition": {"target_state": "show", "context_update": {}},
    "message": "It is a lamp. Is that right?",
}


def find(order: str) -> dict[str, str]:
    return {"item": f"lamp {order}"}


@pytest.mark.parametrize("streamed", [False, True])
def test_the_state_speaks_with_what_its_tools_found(streamed: bool) -> None:
    model = ScriptedLLM([MOVE, FIND, FOUND])
    with Machine.from_dict(DESK, model=model, tools=[find], store="memory") as machine:
        chat = machine.start(greet=False)
        if streamed:
            for _ in chat.stream("order 7"):
                pass
        else:
            chat.send("order 7")
        text = chat.history[-1].text
        assert text == "One moment.\n\nIt is a lamp. Is that right?"
        assert [tool.name for tool in model.requests[1].tools] == ["find"]
        assert model.requests[0].tools == ()


def test_a_message_in_the_state_costs_no_further_call() -> None:
    stay = {**FOUND, "message": "It is white. Is that right?"}
    with Machine.from_dict(
        DESK, model=ScriptedLLM([MOVE, FOUND, stay]), tools=[find], store="memory"
    ) as machine:
        chat = machine.start(greet=False)
        chat.send("order 7")
        turn = chat.send("which colour?")
        assert (turn.text, turn.usage.calls) == ("It is white. Is that right?", 1)


def test_a_call_that_a_person_must_approve_pauses_the_turn_and_goes_on() -> None:
    guarded = {**DESK, "tools": {"find": {"registered": "find", "approval": True}}}
    with Machine.from_dict(
        guarded, model=ScriptedLLM([MOVE, FIND, FOUND]), tools=[find], store="memory"
    ) as machine:
        chat = machine.start(greet=False)
        turn = chat.send("order 7")
        assert turn.paused is not None
        assert turn.text == "One moment."
        turn = chat.answer({"approved": True})
        assert (turn.text, turn.paused) == ("It is a lamp. Is that right?", None)
        assert any(isinstance(event, ev.ToolReturned) for event in turn.events)
