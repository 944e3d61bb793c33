"""An approval may change a call: what was changed runs, or nothing does."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import Machine
from llm_fsm.testing import ScriptedLLM, calls

PAY: dict[str, Any] = {
    "name": "pay",
    "initial_state": "work",
    "tools": {"pay": {"registered": "pay", "approval": True}},
    "states": {"work": {"kind": "task", "purpose": "Pay the claim", "tools": ["pay"]}},
}


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        ({"approved": True}, [(50, "Ada")]),
        ({"approved": True, "arguments": {"euros": 40, "to": "Ada"}}, [(40, "Ada")]),
        ({"approved": True, "arguments": {"euros": 40}}, []),
        ({"approved": True, "arguments": {"euros": "many", "to": "Ada"}}, []),
        ({"approved": False, "arguments": {"euros": 40, "to": "Ada"}}, []),
    ],
)
def test_an_edited_approval_runs_what_was_edited_or_nothing(
    answer: dict[str, Any], paid: list[Any]
) -> None:
    done: list[Any] = []
    model = ScriptedLLM([calls(("pay", {"euros": 50, "to": "Ada"})), "Done."])
    with Machine.from_dict(PAY, model=model) as machine:

        @machine.tool
        def pay(euros: int, to: str) -> str:
            """Pay somebody."""
            done.append((euros, to))
            return "paid"

        machine.run(conversation_id="claim")
        machine.answer("claim", answer)
    assert done == paid
