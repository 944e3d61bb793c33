"""The wire to a real model: SmolLM2 with 135 million parameters behind llama.cpp's own server.

The model understands little. Whatever it says, each reply that counts is whole, no move is illegal,
and the user reads words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.evaluate import served
from llm_fsm import Machine, ModelError
from llm_fsm.session import events as ev
from paths import ROOT

FRUIT: dict[str, Any] = {
    "name": "fruit",
    "initial_state": "fruit",
    "context_schema": {
        "type": "object",
        "properties": {
            "fruit": {"type": "string", "enum": ["apples", "pears"]},
            "number": {"type": "integer", "minimum": 1, "maximum": 20},
        },
    },
    "states": {
        "fruit": {
            "purpose": "Would you like apples or pears?",
            "required_context_keys": ["fruit"],
            "transitions": [
                {"target_state": "number", "conditions": [{"requires_context_keys": ["fruit"]}]}
            ],
        },
        "number": {
            "purpose": "How many would you like?",
            "required_context_keys": ["number"],
            "transitions": [
                {"target_state": "end", "conditions": [{"requires_context_keys": ["number"]}]}
            ],
        },
        "end": {"reply": "Thank you."},
    },
}
MESSAGES = ("Pears, please", "I want seven", "That is all")
LONGEST = 4_000
"""Characters of a reply that was cut off at its bound of some 460 tokens, and some to spare."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    cache = ROOT / ".bench" / "models"
    with served("smol", sys.executable, cache) as found:
        yield found


@pytest.mark.timeout(900)
def test_three_turns_of_a_real_model_are_whole_legal_and_readable(address: str) -> None:
    with Machine.from_dict(
        FRUIT, model="local/smol", base_url=address, store="memory", timeout=300
    ) as machine:
        chat = machine.start(greet=False)
        turns = []
        for message in MESSAGES:
            if not chat.ended:
                turns.append(chat.send(message))
    replies = [
        [event for event in turn.events if isinstance(event, ev.ModelReplied)] for turn in turns
    ]
    every = [reply for turn in replies for reply in turn]
    assert {reply.mode for reply in every} == {"schema"}
    # A model this small may repeat itself up to the bound of a reply. Such a reply is asked for
    # again, and never shown.
    rejected = [
        event for turn in turns for event in turn.events if isinstance(event, ev.ReplyRejected)
    ]
    assert {event.fault for event in rejected} <= {"cut-off"}
    assert all(len(reply.text) < LONGEST for reply in every)
    assert {turn.state for turn in turns} <= set(FRUIT["states"])
    assert all(reply.cached_tokens > 0 for turn in replies[1:] for reply in turn)
    for turn in turns:
        assert not any(mark in turn.text for mark in ("…", "{", "target_state", "_clear")), (
            turn.text
        )


@pytest.mark.timeout(300)
def test_a_slow_model_is_given_up_after_the_time_out(address: str) -> None:
    with Machine.from_dict(
        FRUIT, model="local/smol", base_url=address, store="memory", timeout=0.05
    ) as machine:
        chat = machine.start(greet=False)
        with pytest.raises(ModelError, match=r"did not answer|gave no answer"):
            chat.send("Pears, please")
