"""The host's own code around a conversation: a lookup, a veto, a footer, and words for bad times.

Run:  python examples/first_steps/handlers.py offline               no model and no key needed
      python examples/first_steps/handlers.py openai/gpt-4o-mini    LLM_FSM_MODEL without an
      argument

Try the order R-204518 with the PIN 4711 (delivered last week) or R-100007 with 1234 (delivered long
ago).

`returns.json` sends the customer through the state `check`, which decides by keys of the source
`host`: only this program can set them, and no reply of a model can.
"""

import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from llm_fsm import Handler, LLMFSMError, Machine, ModelError, Occasion, Veto, create_handler

DEFINITION = Path(__file__).parents[2] / "fsm_definitions" / "returns.json"


@dataclass(frozen=True, slots=True)
class Order:
    """What the shop knows of an order: the hash of its PIN, and days since delivery."""

    pin_hash: str
    days: int


def hashed(pin: str) -> str:
    return sha256(b"shop:" + pin.encode()).hexdigest()


ORDERS = {"R-204518": Order(hashed("4711"), 6), "R-100007": Order(hashed("1234"), 200)}


def check_pin(occasion: Occasion) -> dict[str, Any]:
    """Look the order up and set what the next decision reads. The PIN is forgotten at once (None
    deletes).
    """
    number, pin = occasion.context["order_number"], occasion.context["pin"]
    order = ORDERS.get(number)
    if order is not None and order.pin_hash == hashed(pin):
        return {"verified_order": number, "pin": None}
    return {"attempts": occasion.context.get("attempts", 0) + 1, "pin": None}


def in_time_only(occasion: Occasion) -> Veto | None:
    """Forbid a move that the definition allows; the model is told why and answers once more."""
    order = ORDERS.get(occasion.context["verified_order"])
    if occasion.context["reason"] == "unwanted" and order is not None and order.days > 14:
        return Veto(
            "the 14 days for returning unwanted goods are over; only a colleague can make an exception"
        )
    return None


def sign(occasion: Occasion) -> str:
    """Change the text that is about to be said."""
    return f"{occasion.text}\n-- Lamp & Co. returns"


def apologise(occasion: Occasion) -> str:
    """Words for a turn that failed for good, such as when the provider cannot be reached."""
    if isinstance(occasion.error, ModelError) and occasion.error.retryable:
        return "Our system is busy at the moment. Please say that again in a minute."
    return "Our system is not available. Please call us at 030 555 0199."


def handlers() -> list[Handler]:
    """The handlers, with the points and states at which they run."""
    return [
        create_handler("check PIN")
        .on_state_entry("check")
        .as_critical()
        .with_timeout(5)
        .do(check_pin),
        create_handler("in time")
        .at("pre_transition")
        .on_target_state("registered")
        .do(in_time_only),
        create_handler("signature").at("post_processing").with_priority(900).do(sign),
        create_handler("apology").at("error").do(apologise),
    ]


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else None
    with Machine.from_file(DEFINITION, model=model, handlers=handlers()) as machine:
        chat = machine.start()
        print(chat.greeting, flush=True)
        for line in sys.stdin:
            if not line.strip():
                continue
            try:
                turn = chat.send(line)
            except LLMFSMError as error:
                sys.exit(f"the conversation cannot go on: {error}")
            print(turn.text, flush=True)
            if turn.ended:
                break


if __name__ == "__main__":
    main()
