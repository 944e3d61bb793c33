"""Choices of a conversation: for buttons, after a turn and after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from llm_fsm import Choice, ConversationConflict, ConversationEnded, Machine, pick
from llm_fsm.engine.machine import AsyncMachine
from llm_fsm.records.replay import recorded_tools, replay_turns
from llm_fsm.session.turn_record import parse
from llm_fsm.stores.memory import MemoryStore
from llm_fsm.testing import ScriptedLLM, reply

SHOP: dict[str, Any] = {
    "name": "shop",
    "initial_state": "ask",
    "context_schema": {"properties": {"size": {"enum": ["small", "large"]}}},
    "states": {
        "ask": {
            "purpose": "Which size?",
            "reply": "Which size?",
            "required_context_keys": ["size"],
            "transitions": [
                {"target_state": "done", "conditions": [{"requires_context_keys": ["size"]}]}
            ],
        },
        "done": {"purpose": "Thank", "reply": "Thanks."},
    },
}
SIZES = (Choice("small", "small"), Choice("large", "large"))


def test_a_typed_number_is_picked_and_sent_without_a_model() -> None:
    with Machine.from_dict(SHOP, model=ScriptedLLM([reply("ask", "Small or large?")])) as machine:
        chat = machine.start()
        assert chat.choices == SIZES
        turn = chat.send("hm")
        assert turn.choices == SIZES
        chosen = pick(turn.choices, "2")
        assert chosen is not None
        turn = chat.send(chosen, request_id="r")
        assert (turn.state, turn.usage.calls, turn.choices) == ("done", 0, ())
        assert [message.text for message in chat.history][-2:] == ["large", "Thanks."]
        assert chat.send(chosen, request_id="r").number == turn.number


@pytest.mark.anyio
async def test_choices_are_there_again_after_a_restart_and_on_an_older_definition() -> None:
    store = MemoryStore()
    first = AsyncMachine.from_dict(SHOP, model=ScriptedLLM([]), store=store)
    name = (await first.start()).id
    changed = {**SHOP, "context_schema": {"properties": {"size": {"enum": ["huge"]}}}}
    second = AsyncMachine.from_dict(changed, model=ScriptedLLM([]), store=store)
    chat = await second.resume(name)
    assert chat.choices == SIZES
    assert (await chat.send(chat.choices[0])).state == "done"


@pytest.mark.anyio
async def test_a_choice_is_replayed() -> None:
    store = MemoryStore()
    machine = AsyncMachine.from_dict(SHOP, model=ScriptedLLM([]), store=store)
    chat = await machine.start()
    await chat.send(chat.choices[1])
    records = [parse(text) for text in await store.records(chat.id)]
    found = await replay_turns(machine.program, recorded_tools(machine.program), chat.id, records)
    assert found.divergence is None


TWO_QUESTIONS = {
    "name": "two",
    "initial_state": "a",
    "context_schema": {
        "properties": {
            "x": {"type": "boolean", "description": "X"},
            "y": {"type": "boolean", "description": "Y"},
            "size": {"enum": ["small", "large"], "description": "Size"},
        }
    },
    "states": {
        name: {
            "purpose": f"{key}?",
            "required_context_keys": [key],
            "transitions": [
                {"target_state": after, "conditions": [{"requires_context_keys": [key]}]}
            ],
        }
        for name, key, after in (("a", "x", "b"), ("b", "y", "c"), ("c", "size", "d"))
    }
    | {"d": {"reply": "Done."}},
}


def test_a_choice_of_a_question_that_is_gone_is_no_answer_to_another_one() -> None:
    with Machine.from_dict(TWO_QUESTIONS, model="offline") as machine:
        chat = machine.start()
        old = chat.choices[0]
        assert chat.send(old).state == "b"
        with pytest.raises(
            ConversationConflict, match="the question of the choice 'yes' is no longer open"
        ):
            chat.send(old)
        assert chat.state == "b"
        assert "y" not in chat.context
        assert chat.send(chat.choices[1]).state == "c"
        with pytest.raises(ConversationConflict, match="the choices are now: small, large"):
            chat.send(Choice("yes", True))
        assert chat.send(Choice("small", None)).state == "d"
        with pytest.raises(ConversationEnded):
            chat.send(old)


def test_a_choice_is_still_good_when_its_question_is_asked_again() -> None:
    with Machine.from_dict({**TWO_QUESTIONS, "patterns": ["repeat"]}, model="offline") as machine:
        chat = machine.start()
        old = chat.choices[0]
        chat.send("what?")
        assert chat.send(old).state == "b"


def test_a_choice_that_was_answered_gives_its_turn_again() -> None:
    with Machine.from_dict(TWO_QUESTIONS, model="offline") as machine:
        chat = machine.start()
        old = chat.choices[0]
        first = chat.send(old, request_id="r")
        assert chat.send(old, request_id="r") == first
