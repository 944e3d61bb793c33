"""The values of secret keys, in what a turn leaves behind for the next ones."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import Machine, create_handler
from llm_fsm.testing import ScriptedLLM, reply

DESK: dict[str, Any] = {
    "name": "desk",
    "initial_state": "ask",
    "context_schema": {
        "properties": {
            "pin": {"type": "string", "pattern": "^[0-9]{4}$", "x-secret": True, "description": "PIN"},
            "card": {"type": "object", "x-secret": True, "properties": {"number": {"type": "string"}}},
        }
    },
    "states": {"ask": {"purpose": "Your PIN?", "transitions": [{"target_state": "end"}]}, "end": {"reply": "Bye."}},
}
DELETES = create_handler("clean").at("context_update").do(lambda occasion: {"pin": None, "card": None})


@pytest.mark.parametrize(
    ("given", "told", "handlers"),
    [
        ({"pin": "9876"}, "9876", []),
        ({"pin": "9876"}, "9876", [DELETES]),
        ({"pin": "98765"}, "98765", []),
        ({"card": {"number": "4111 1111"}}, "4111 1111", [DELETES]),
        ({"card": "4111 1111"}, "4111 1111", []),
        ({"card.number": 41111111}, "41111111", []),
        ({"_extra": {"pin": "98765"}}, "98765", []),
    ],
    ids=[
        *("accepted", "deleted by a handler", "refused", "a part deleted by a handler", "of another type"),
        *("a part refused", "refused under _extra"),
    ],
)
def test_a_secret_stands_in_no_later_prompt_whatever_became_of_it(
    given: dict[str, Any], told: str, handlers: list[Any]
) -> None:
    model = ScriptedLLM([reply("ask", "Hm.", **given), reply("ask", "Yes?")])
    with Machine.from_dict(DESK, model=model, handlers=handlers) as machine:
        chat = machine.start(greet=False)
        chat.send(f"it is {told}")
        chat.send("hello?")
    assert told not in model.requests[1].messages[1].content


def test_a_secret_that_is_replaced_or_taken_back_stands_in_no_later_prompt() -> None:
    updates: list[dict[str, Any]] = [{"pin": "1234"}, {"pin": "5678"}, {"_clear": ["pin"]}, {}]
    model = ScriptedLLM([reply("ask", "Yes?", **update) for update in updates])
    with Machine.from_dict(DESK, model=model) as machine:
        chat = machine.start(greet=False)
        for text in ("it is 1234", "not 1234 but 5678", "forget 5678", "hello?"):
            chat.send(text)
    shown = model.requests[-1].messages[1].content
    assert "1234" not in shown
    assert "5678" not in shown
    assert "forget" in shown
