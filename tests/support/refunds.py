"""A machine that pauses for an approval and for a signature."""

from __future__ import annotations

from typing import Any

from cli_command import HELLO, Desk
from llm_fsm.testing import calls

TOOLS = """
def refund(amount: int, to: str = "card") -> str:
    with open("calls.txt", "a") as file:
        file.write(f"{amount}\\n")
    return f"refunded {amount}"

TOOLS = [refund]
"""


SIGNED = {"type": "object", "properties": {"by": {"type": "string"}}, "required": ["by"]}


REFUNDS: dict[str, Any] = {
    "name": "refunds",
    "initial_state": "talk",
    "context_schema": {"properties": {"signed_by": {"type": "string", "x-source": "answer"}}},
    "tools": {"refund": {"registered": "refund", "approval": True}},
    "states": {
        "talk": {
            "purpose": "Help",
            "tools": ["refund"],
            "transitions": [{"target_state": "sign", "description": "The money was paid back"}],
        },
        "sign": {
            "kind": "wait",
            "purpose": "Somebody signs",
            "wait_for": "signature",
            "answer_schema": SIGNED,
            "output": {"signed_by": "by"},
            "transitions": [{"target_state": "bye", "description": "It was signed"}],
        },
        "bye": {"kind": "final", "reply": "Bye {{ signed_by }}."},
    },
}


PAID = {"transition": {"target_state": "sign", "context_update": {}}, "message": "It is paid."}


def model(desk: Desk) -> tuple[str, str]:
    return desk.replies(HELLO, calls(("refund", {"amount": 5})), PAID)
