"""Each conflict says what to do: the words after the last semicolon are the next act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from llm_fsm import Conversation, ConversationConflict, Machine
from llm_fsm.llm.scripted import ScriptedLLM
from machines import reply

WAITS: dict[str, Any] = {
    "name": "desk",
    "initial_state": "talk",
    "states": {
        "talk": {"purpose": "Talk", "transitions": [{"target_state": "hold"}]},
        "hold": {"kind": "wait", "wait_for": "boss", "transitions": [{"target_state": "bye"}]},
        "bye": {"kind": "final", "reply": "Bye."},
    },
}


def begun() -> tuple[Machine, Conversation]:
    machine = Machine.from_dict(WAITS, model=ScriptedLLM([reply("hold", "One moment.")]))
    return machine, machine.start(conversation_id="c", greet=False)


def twice(machine: Machine, chat: Conversation) -> None:
    machine.start(conversation_id=chat.id)


def undo_nothing(machine: Machine, chat: Conversation) -> None:
    chat.undo()


def answer_nothing(machine: Machine, chat: Conversation) -> None:
    chat.answer(True)


def answer_another(machine: Machine, chat: Conversation) -> None:
    chat.send("a")
    chat.answer(True, pause="another")


def answer_twice(machine: Machine, chat: Conversation) -> None:
    chat.send("a")
    assert chat.paused is not None
    pause = chat.paused.id
    chat.answer(True, pause=pause)
    chat.answer(True, pause=pause)


def send_while_it_waits(machine: Machine, chat: Conversation) -> None:
    chat.send("a")
    chat.send("b")


def move_while_it_waits(machine: Machine, chat: Conversation) -> None:
    chat.send("a")
    chat.update(state="talk")


def use_an_id_again(machine: Machine, chat: Conversation) -> None:
    chat.send("a", request_id="1")
    chat.send("b", request_id="1")


@pytest.mark.parametrize(
    ("act", "what_to_do"),
    [
        (twice, "resume it, or choose another id"),
        (undo_nothing, "send a message first"),
        (answer_nothing, "load the conversation, and go on with it"),
        (answer_another, "read what it waits for now, and answer that"),
        (answer_twice, "begin a new conversation"),
        (send_while_it_waits, "answer it first"),
        (move_while_it_waits, "answer it first"),
        (use_an_id_again, "use a new id for each message"),
    ],
)
def test_a_conflict_says_what_to_do(
    act: Callable[[Machine, Conversation], None], what_to_do: str
) -> None:
    machine, chat = begun()
    with machine, pytest.raises(ConversationConflict) as conflict:
        act(machine, chat)
    assert str(conflict.value).rpartition("; ")[2] == what_to_do
