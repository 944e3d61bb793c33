"""Refund with approval: the run stops before money moves, and goes on when a person has answered.

Run:  python examples/agents/refund.py openai/gpt-4o-mini "My lamp from order R-204518 came broken."
      llm-fsm run refund --tools examples/agents/refund.py --input "My lamp from order R-204518 came
      broken."

Between the question and the answer nothing is held in memory: the first machine below is closed,
and another one, of any process and any day, takes the answer. `pay_back` runs once: the definition
calls it `at_most_once`, and the idempotency key would let a payment provider see a repetition.
"""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from llm_fsm import Machine, ToolRegistry
from llm_fsm.tools.schema import CallInfo

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "refund.json"
ORDERS = {
    "R-204518": {"number": "R-204518", "paid": 49.0, "delivered_days_ago": 6},
    "R-100007": {"number": "R-100007", "paid": 120.0, "delivered_days_ago": 200},
}
PAYMENTS: dict[str, dict[str, Any]] = {}
"""The bank of this example: idempotency key to payment."""

TOOLS = ToolRegistry()


@TOOLS.register
def find_order(number: Annotated[str, "Such as R-204518"]) -> dict[str, Any]:
    """Look an order up."""
    if number not in ORDERS:
        raise ValueError(f"there is no order {number!r}")
    return ORDERS[number]


@TOOLS.register(approval=True, at_most_once=True)
def pay_back(
    order_number: str, amount: Annotated[float, "Euros"], call: CallInfo
) -> dict[str, str]:
    """Pay money back to the customer."""
    if amount > ORDERS[order_number]["paid"]:
        raise ValueError("that is more than the customer paid")
    PAYMENTS.setdefault(call.key, {"order": order_number, "amount": amount})
    return {"refund_id": f"P-{len(PAYMENTS)}"}


FUNCTIONS: list[Any] = []


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None
    wish = (
        sys.argv[2]
        if len(sys.argv) > 2
        else "My lamp from order R-204518 came broken. I want my money back."
    )
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"store": f"sqlite:///{folder}/refunds.db", "tools": TOOLS}
        with Machine.from_file(DEFINITION, model=model, **options) as machine:
            turn = machine.run(wish, conversation_id="wish-1")
            waiting = turn.paused
        while waiting is not None and waiting.call is not None:
            print(
                f"{waiting.kind}: {waiting.call['name']} {waiting.call['arguments']}  yes or no?",
                flush=True,
            )
            said = sys.stdin.readline().strip().lower()
            with Machine.from_file(DEFINITION, model=model, **options) as machine:
                answer = {
                    "approved": said == "yes",
                    "reason": "" if said == "yes" else "the clerk said no",
                }
                turn = machine.answer("wish-1", answer, pause=waiting.id)
                waiting = turn.paused
        print(turn.text, turn.outcome)


if __name__ == "__main__":
    main()
